"""Faults of the step names, injected in an emulated server; since Linux 6.2 an interface can be renamed while up."""

from contextlib import suppress
from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import configure_port
from trackbed_lab.vm.faults.rdma import find_device_name, remove_cm_settings

_TEMPORARY = "lab-aside"
_UDEV_TEMPORARY = "rename77"
"""Name that udev gives an interface whose rename it has not completed."""
_NETPLAN = Path("/etc/netplan")
_CLOUD_INIT = """network:
    ethernets:
        {netdev}:
            dhcp4: true
    version: 2
"""


def _rename_interface(server: FaultyServer, old: str, new: str) -> None:
    server.run("ip", "link", "set", old, "name", new)


def _swap_names(server: FaultyServer) -> None:
    """Swap the names of the port and another one."""
    name = server.port.netdev
    other = next(port.netdev for port in server.node.ports if port.netdev != name)
    for old, new in ((name, _TEMPORARY), (other, name), (_TEMPORARY, other)):
        _rename_interface(server, old, new)


def _rename_port(server: FaultyServer) -> None:
    _rename_interface(server, server.port.netdev, _TEMPORARY)


def _restore_name(server: FaultyServer) -> None:
    _rename_interface(server, _TEMPORARY, server.port.netdev)


def _interrupt_rename(server: FaultyServer) -> None:
    _rename_interface(server, server.port.netdev, _UDEV_TEMPORARY)


def _complete_rename(server: FaultyServer) -> None:
    _rename_interface(server, _UDEV_TEMPORARY, server.port.netdev)


def _add_name_sources(server: FaultyServer) -> None:
    """Add a .link file and a udev rule that both name the port."""
    device, name = Path("/sys/class/net", server.port.netdev, "device").resolve().name, server.port.netdev
    server.write_file("/etc/systemd/network/00-lab.link", f"[Match]\nPath=pci-{device}\n\n[Link]\nName={name}\n")
    rule = f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{device}", NAME="{name}"\n'
    server.write_file("/etc/udev/rules.d/99-lab-names.rules", rule)


def _add_cloud_init(server: FaultyServer) -> None:
    server.write_file(str(_NETPLAN / "50-cloud-init.yaml"), _CLOUD_INIT.format(netdev=server.port.netdev))


def _remove_cloud_init(server: FaultyServer) -> None:
    """Restore files and remove /etc/netplan: an empty one would make netplan the host's network manager."""
    server.restore_saved_files()
    with suppress(OSError):
        _NETPLAN.rmdir()


def _rename_rdma_device(server: FaultyServer) -> None:
    remove_cm_settings()
    server.run("rdma", "dev", "set", find_device_name(server, server.port), "name", _TEMPORARY)


def _restore_rdma_name(server: FaultyServer) -> None:
    server.run("rdma", "dev", "set", _TEMPORARY, "name", find_device_name(server, server.port))
    configure_port(server)


FAULTS: tuple[VmFault, ...] = (
    VmFault("names-netdev-missing", _rename_port, _restore_name),
    VmFault("names-on-wrong-device", _swap_names, _swap_names),
    VmFault("names-rename-conflict", _interrupt_rename, _complete_rename),
    VmFault("names-cloud-init-rewrites-network", _add_cloud_init, _remove_cloud_init),
    VmFault("names-two-naming-sources", _add_name_sources),
    VmFault("names-rdma-device-unexpected", _rename_rdma_device, _restore_rdma_name),
)
