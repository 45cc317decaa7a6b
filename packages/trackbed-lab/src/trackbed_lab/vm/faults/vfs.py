"""Faults of the step vfs, injected in an emulated server, whose NICs have real VFs (igb, igbvf)."""

from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultyServer, VmFault, restore_files

_BOOT_FILES = ("/etc/trackbed/boot.sh", "/etc/systemd/system/trackbed-port@.service")
_UDEV_RULE = "/etc/udev/rules.d/99-lab-vfs.rules"
_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
_SRIOV_CNI_RECORDS = "/var/lib/cni/sriov/pci"
_NAMESPACE = "lab-lost"
_MAC, _NO_MAC = "02:00:5e:00:53:01", "00:00:00:00:00:00"
"""The first is from the range for documentation (RFC 7042), made locally administered."""


def _locate_pf(server: FaultyServer) -> Path:
    return Path("/sys/class/net", server.port.netdev, "device")


def _locate_vf(server: FaultyServer) -> Path:
    """Return the sysfs folder of the port's first VF."""
    return (_locate_pf(server) / "virtfn0").resolve()


def _find_vf_interface(server: FaultyServer) -> str:
    """Return the interface of the port's first VF."""
    return next((_locate_vf(server) / "net").iterdir()).name


def _set_vf_count(server: FaultyServer, count: int) -> None:
    """Create `count` VFs with the planned MTU; the kernel accepts a new count only after 0."""
    sriov_numvfs = _locate_pf(server) / "sriov_numvfs"
    sriov_numvfs.write_text("0")
    if count:
        sriov_numvfs.write_text(str(count))
        server.run("udevadm", "settle", "--timeout=20")
        for interface in _locate_pf(server).glob("virtfn*/net/*"):
            server.run("ip", "link", "set", interface.name, "mtu", str(server.node.common.vf_mtu_bytes))


def _recreate_vfs(server: FaultyServer) -> None:
    server.restore_saved_files()
    _set_vf_count(server, server.node.common.vfs)


def _create_too_few(server: FaultyServer) -> None:
    _set_vf_count(server, max(1, server.node.common.vfs - 1))


def _remove_vfs_and_files(server: FaultyServer) -> None:
    """Remove the VFs and the files that create them at boot."""
    for path in _BOOT_FILES:
        server.remove_file(path)
    _set_vf_count(server, 0)


def _remove_vfs(server: FaultyServer) -> None:
    """Remove the VFs but keep the udev rule that creates them at boot, so only the present count is wrong."""
    server.write_file(_UDEV_RULE, 'ACTION=="never", ATTR{device/sriov_numvfs}="2"\n')
    _set_vf_count(server, 0)


def _remove_vfs_under_pods(server: FaultyServer) -> None:
    """Add a record of a pod with a VF, then remove all VFs."""
    record = f"{_SRIOV_CNI_RECORDS}/{_locate_vf(server).name}"
    server.run("ip", "netns", "add", _NAMESPACE)
    server.write_file(record, f"/run/netns/{_NAMESPACE}")
    _set_vf_count(server, 0)


def _leak_vf(server: FaultyServer) -> None:
    """Move a VF to a namespace that belongs to no pod."""
    server.write_file(_CHECKPOINT, '{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":0}')
    server.run("ip", "netns", "add", _NAMESPACE)
    server.run("ip", "link", "set", _find_vf_interface(server), "netns", _NAMESPACE)


def _delete_namespace(server: FaultyServer) -> None:
    server.run("ip", "netns", "delete", _NAMESPACE)
    _recreate_vfs(server)


def _disable_autoprobe(server: FaultyServer) -> None:
    server.write_file(str(_locate_pf(server) / "sriov_drivers_autoprobe"), "0")
    _set_vf_count(server, server.node.common.vfs)


def _bind_to_vfio(server: FaultyServer) -> None:
    vf = _locate_vf(server)
    server.run("modprobe", "vfio-pci")
    (vf / "driver/unbind").write_text(vf.name)
    (vf / "driver_override").write_text("vfio-pci")
    Path("/sys/bus/pci/drivers_probe").write_text(vf.name)


def _set_port_down(server: FaultyServer) -> None:
    server.run("ip", "link", "set", server.port.netdev, "down")


def _set_port_up(server: FaultyServer) -> None:
    server.run("ip", "link", "set", server.port.netdev, "up")


def _configure_vf(server: FaultyServer, *settings: str) -> None:
    """Change settings of the first VF at its port, such as `vlan 100`."""
    server.run("ip", "link", "set", server.port.netdev, "vf", "0", *settings)


def _set_admin_mac(server: FaultyServer) -> None:
    _configure_vf(server, "mac", _MAC)


def _clear_admin_mac(server: FaultyServer) -> None:
    _configure_vf(server, "mac", _NO_MAC)
    _recreate_vfs(server)


def _raise_vf_mtu(server: FaultyServer) -> None:
    """Raise a VF's MTU above the port's, which the driver igbvf accepts."""
    server.run("ip", "link", "set", _find_vf_interface(server), "mtu", str(server.node.common.mtu_bytes + 100))


def _lower_vf_mtu(server: FaultyServer) -> None:
    server.run("ip", "link", "set", _find_vf_interface(server), "mtu", "1500", "up")


def _set_vlan(server: FaultyServer) -> None:
    _configure_vf(server, "vlan", "100")


def _clear_vlan(server: FaultyServer) -> None:
    _configure_vf(server, "vlan", "0")


def _trust_vf(server: FaultyServer) -> None:
    _configure_vf(server, "trust", "on")


def _distrust_vf(server: FaultyServer) -> None:
    _configure_vf(server, "trust", "off")


def _limit_rate(server: FaultyServer) -> None:
    _configure_vf(server, "max_tx_rate", "100")


def _unlimit_rate(server: FaultyServer) -> None:
    _configure_vf(server, "max_tx_rate", "0")


def _add_to_bond(server: FaultyServer) -> None:
    server.run("ip", "link", "add", "lab-bond", "type", "bond")
    _set_port_down(server)
    server.run("ip", "link", "set", server.port.netdev, "master", "lab-bond")
    _set_port_up(server)


def _remove_from_bond(server: FaultyServer) -> None:
    """Delete the bond, then change the port's MTU to the planned one.

    A bond restores its ports' MTU without notifying RDMA (seen with Linux 7.2); a change does notify it.
    """
    server.run("ip", "link", "delete", "lab-bond")
    for mtu_bytes in (server.node.common.mtu_bytes - 4, server.node.common.mtu_bytes):
        server.run("ip", "link", "set", server.port.netdev, "mtu", str(mtu_bytes))
    _set_port_up(server)
    restore_files(server)


FAULTS: tuple[VmFault, ...] = (
    VmFault("vfs-pf-enslaved", _add_to_bond, _remove_from_bond),
    VmFault("vfs-removed-under-pods", _remove_vfs_under_pods, _delete_namespace),
    VmFault("vfs-count-change-busy", _create_too_few, _recreate_vfs),
    VmFault("vfs-lost-after-reboot", _remove_vfs_and_files, _recreate_vfs),
    VmFault("vfs-count-wrong", _remove_vfs, _recreate_vfs),
    VmFault("vfs-driver-missing", _disable_autoprobe, _recreate_vfs),
    VmFault("vfs-bound-to-vfio", _bind_to_vfio, _recreate_vfs),
    VmFault("vfs-leaked-in-namespace", _leak_vf, _delete_namespace),
    VmFault("vfs-pf-down", _set_port_down, _set_port_up),
    VmFault("vfs-admin-mac-not-effective", _set_admin_mac, _clear_admin_mac),
    VmFault("vfs-mtu-above-pf", _raise_vf_mtu, _recreate_vfs),
    VmFault("vfs-mtu-not-planned", _lower_vf_mtu, _recreate_vfs),
    VmFault("vfs-vlan-not-planned", _set_vlan, _clear_vlan),
    VmFault("vfs-spoofcheck-or-trust", _trust_vf, _distrust_vf),
    VmFault("vfs-rate-limited", _limit_rate, _unlimit_rate),
)
