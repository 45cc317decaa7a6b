"""Faults of the step names, made in an emulated server. Linux renames an interface that is up since 6.2."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.rdma import find_device_name, remove_cm_settings
from trackbed_lab.vm.faults.ways import configure_port

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_ASIDE = "lab-aside"
_HALFWAY = "rename77"
_NETPLAN = Path("/etc/netplan")
_CLOUD_INIT = """network:
    ethernets:
        {netdev}:
            dhcp4: true
    version: 2
"""


def _rename(server: FaultyServer, old: str, new: str) -> None:
    server.run("ip", "link", "set", old, "name", new)


def _swap(server: FaultyServer) -> None:
    mine = server.port.netdev
    other = next(port.netdev for port in server.node.ports if port.netdev != mine)
    for old, new in ((mine, _ASIDE), (other, mine), (_ASIDE, other)):
        _rename(server, old, new)


def _away(server: FaultyServer) -> None:
    _rename(server, server.port.netdev, _ASIDE)


def _back(server: FaultyServer) -> None:
    _rename(server, _ASIDE, server.port.netdev)


def _halfway(server: FaultyServer) -> None:
    _rename(server, server.port.netdev, _HALFWAY)


def _whole(server: FaultyServer) -> None:
    _rename(server, _HALFWAY, server.port.netdev)


def _two_sources(server: FaultyServer) -> None:
    device, name = Path("/sys/class/net", server.port.netdev, "device").resolve().name, server.port.netdev
    server.write("/etc/systemd/network/00-lab.link", f"[Match]\nPath=pci-{device}\n\n[Link]\nName={name}\n")
    rule = f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{device}", NAME="{name}"\n'
    server.write("/etc/udev/rules.d/99-lab-names.rules", rule)


def _cloud_init(server: FaultyServer) -> None:
    server.write(str(_NETPLAN / "50-cloud-init.yaml"), _CLOUD_INIT.format(netdev=server.port.netdev))


def _no_cloud_init(server: FaultyServer) -> None:
    """An empty /etc/netplan would make the host one of netplan's."""
    server.restore()
    with suppress(OSError):
        _NETPLAN.rmdir()


def _other_device_name(server: FaultyServer) -> None:
    remove_cm_settings()
    server.run("rdma", "dev", "set", find_device_name(server, server.port), "name", _ASIDE)


def _device_name(server: FaultyServer) -> None:
    server.run("rdma", "dev", "set", _ASIDE, "name", find_device_name(server, server.port))
    configure_port(server)


FAULTS: tuple[VmFault, ...] = (
    VmFault("names-netdev-missing", _away, _back),
    VmFault("names-on-wrong-device", _swap, _swap),
    VmFault("names-rename-conflict", _halfway, _whole),
    VmFault("names-cloud-init-rewrites-network", _cloud_init, _no_cloud_init),
    VmFault("names-two-naming-sources", _two_sources),
    VmFault("names-rdma-device-unexpected", _other_device_name, _device_name),
)
