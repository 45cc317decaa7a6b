"""Faults of the step vfs, made in an emulated server: its NICs have real VFs (igb, igbvf)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault, restore_files

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_BOOT = ("/etc/trackbed/boot.sh", "/etc/systemd/system/trackbed-boot.service")
_RULE = "/etc/udev/rules.d/99-lab-vfs.rules"
_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
_RECORDS = "/var/lib/cni/sriov/pci"
_NAMESPACE = "lab-lost"
_MAC, _NO_MAC = "02:00:5e:00:53:01", "00:00:00:00:00:00"
"""The first is of the range for documentation (RFC 7042), made local."""


def _device(server: FaultyServer) -> Path:
    return Path("/sys/class/net", server.port.netdev, "device")


def _vf(server: FaultyServer, number: int = 0) -> Path:
    return (_device(server) / f"virtfn{number}").resolve()


def _interface(server: FaultyServer, number: int = 0) -> str:
    return next((_vf(server, number) / "net").iterdir()).name


def _make(server: FaultyServer, count: int) -> None:
    """A count that is not 0 becomes another by way of 0."""
    place = _device(server) / "sriov_numvfs"
    place.write_text("0")
    if count:
        place.write_text(str(count))
        server.run("udevadm", "settle", "--timeout=20")
        for interface in _device(server).glob("virtfn*/net/*"):
            server.run("ip", "link", "set", interface.name, "mtu", str(server.node.common.vf_mtu_bytes))


def _remade(server: FaultyServer) -> None:
    server.restore()
    _make(server, server.node.common.vfs)


def _busy(server: FaultyServer) -> None:
    _make(server, max(1, server.node.common.vfs - 1))


def _lost(server: FaultyServer) -> None:
    for path in _BOOT:
        server.remove(path)
    _make(server, 0)


def _wrong(server: FaultyServer) -> None:
    """With something that makes VFs at boot: what is wrong is the number now."""
    server.write(_RULE, 'ACTION=="never", ATTR{device/sriov_numvfs}="2"\n')
    _make(server, 0)


def _removed(server: FaultyServer) -> None:
    record = f"{_RECORDS}/{_vf(server).name}"
    server.run("ip", "netns", "add", _NAMESPACE)
    server.write(record, f"/run/netns/{_NAMESPACE}")
    _make(server, 0)


def _leaked(server: FaultyServer) -> None:
    server.write(_CHECKPOINT, '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}')
    server.run("ip", "netns", "add", _NAMESPACE)
    server.run("ip", "link", "set", _interface(server), "netns", _NAMESPACE)


def _namespace_gone(server: FaultyServer) -> None:
    server.run("ip", "netns", "delete", _NAMESPACE)
    _remade(server)


def _undriven(server: FaultyServer) -> None:
    server.write(str(_device(server) / "sriov_drivers_autoprobe"), "0")
    _make(server, server.node.common.vfs)


def _vfio(server: FaultyServer) -> None:
    vf = _vf(server)
    server.run("modprobe", "vfio-pci")
    (vf / "driver/unbind").write_text(vf.name)
    (vf / "driver_override").write_text("vfio-pci")
    Path("/sys/bus/pci/drivers_probe").write_text(vf.name)


def _down(server: FaultyServer) -> None:
    server.run("ip", "link", "set", server.port.netdev, "down")


def _up(server: FaultyServer) -> None:
    server.run("ip", "link", "set", server.port.netdev, "up")


def _given(server: FaultyServer, *words: str, number: int = 0) -> None:
    """What the port holds a VF to."""
    server.run("ip", "link", "set", server.port.netdev, "vf", str(number), *words)


def _other_mac(server: FaultyServer) -> None:
    _given(server, "mac", _MAC)


def _one_mac_less(server: FaultyServer) -> None:
    _given(server, "mac", _NO_MAC)
    _remade(server)


def _above(server: FaultyServer) -> None:
    """The driver igbvf takes more than its port has."""
    server.run("ip", "link", "set", _interface(server), "mtu", str(server.node.common.mtu_bytes + 100))


def _small(server: FaultyServer) -> None:
    server.run("ip", "link", "set", _interface(server), "mtu", "1500", "up")


def _vlan(server: FaultyServer) -> None:
    _given(server, "vlan", "100")


def _no_vlan(server: FaultyServer) -> None:
    _given(server, "vlan", "0")


def _trusted(server: FaultyServer) -> None:
    _given(server, "trust", "on")


def _distrusted(server: FaultyServer) -> None:
    _given(server, "trust", "off")


def _slow(server: FaultyServer) -> None:
    _given(server, "max_tx_rate", "100")


def _fast(server: FaultyServer) -> None:
    _given(server, "max_tx_rate", "0")


def _in_bond(server: FaultyServer) -> None:
    server.run("ip", "link", "add", "lab-bond", "type", "bond")
    _down(server)
    server.run("ip", "link", "set", server.port.netdev, "master", "lab-bond")
    _up(server)


def _out_of_bond(server: FaultyServer) -> None:
    """A bond gives its ports' MTU back without a word to RDMA (seen with Linux 7.2): its devices must be told anew."""
    server.run("ip", "link", "delete", "lab-bond")
    for size in (server.node.common.mtu_bytes - 4, server.node.common.mtu_bytes):
        server.run("ip", "link", "set", server.port.netdev, "mtu", str(size))
    _up(server)
    restore_files(server)


FAULTS: tuple[VmFault, ...] = (
    VmFault("vfs-pf-enslaved", _in_bond, _out_of_bond),
    VmFault("vfs-removed-under-pods", _removed, _namespace_gone),
    VmFault("vfs-count-change-busy", _busy, _remade),
    VmFault("vfs-lost-after-reboot", _lost, _remade),
    VmFault("vfs-count-wrong", _wrong, _remade),
    VmFault("vfs-driver-missing", _undriven, _remade),
    VmFault("vfs-bound-to-vfio", _vfio, _remade),
    VmFault("vfs-leaked-in-namespace", _leaked, _namespace_gone),
    VmFault("vfs-pf-down", _down, _up),
    VmFault("vfs-admin-mac-not-effective", _other_mac, _one_mac_less),
    VmFault("vfs-mtu-above-pf", _above, _remade),
    VmFault("vfs-mtu-not-planned", _small, _remade),
    VmFault("vfs-vlan-not-planned", _vlan, _no_vlan),
    VmFault("vfs-spoofcheck-or-trust", _trusted, _distrusted),
    VmFault("vfs-rate-limited", _slow, _fast),
)
