"""Faults of the step rdma, injected in an emulated server; soft-RoCE stands in for the RDMA hardware of its ports."""

from pathlib import Path

from trackbed.fabric.plan.plan import PortPlan
from trackbed_lab.vm.faults.fault import FaultyServer, VmFault
from trackbed_lab.vm.faults.helpers import configure_port

_NAMESPACE = "lab-other"
_OPTIONS = "/etc/modprobe.d/zz-lab.conf"
"""Read last, as modprobe.d(5) sorts by name."""
_STACK = ("rdma_ucm", "rdma_rxe", "rdma_cm", "iw_cm", "ib_cm", "ib_umad", "ib_uverbs", "ib_uverbs_support", "ib_core")
"""Users before their dependencies: `modprobe -r` stops at a module that is in use."""
_VERBS = Path("/sys/class/infiniband_verbs")
_CM_SETTINGS = Path("/sys/kernel/config/rdma_cm")
_OTHER_MODE = {"shared": "exclusive", "exclusive": "shared"}


def find_device_name(server: FaultyServer, port: PortPlan) -> str:
    """Return the planned name of a port's RDMA device."""
    return next(rail.rdma for rail in server.node.common.rails if rail.rail == port.rail)


def remove_cm_settings() -> None:
    """Remove the RDMA CM's settings of all devices, which hold a reference to their device and outlive it."""
    for folder in _CM_SETTINGS.glob("*"):
        folder.rmdir()


def _add_device(server: FaultyServer, port: PortPlan) -> None:
    server.run("rdma", "link", "add", find_device_name(server, port), "type", "rxe", "netdev", port.netdev)


def _delete_device(server: FaultyServer) -> None:
    remove_cm_settings()
    server.run("rdma", "link", "delete", find_device_name(server, server.port))


def _restore_device(server: FaultyServer) -> None:
    _add_device(server, server.port)
    configure_port(server)


def _unload_stack(server: FaultyServer) -> None:
    remove_cm_settings()
    loaded = [name for name in _STACK if Path("/sys/module", name).exists()]
    server.run("modprobe", "-r", *loaded)


def _load_stack(server: FaultyServer) -> None:
    server.run("modprobe", "-a", "rdma_rxe", "ib_uverbs", "rdma_ucm")
    for port in server.node.ports:
        _add_device(server, port)
    configure_port(server)


def _delete_verbs_node(server: FaultyServer) -> None:
    name = find_device_name(server, server.port)
    verbs = next(path for path in _VERBS.glob("uverbs*") if (path / "ibdev").read_text().strip() == name)
    Path("/dev/infiniband", verbs.name).unlink()


def _recreate_device(server: FaultyServer) -> None:
    _delete_device(server)
    _restore_device(server)


def _unload_user_cm(server: FaultyServer) -> None:
    server.run("rmmod", "rdma_ucm")  # modprobe -r would unload its dependencies too


def _load_user_cm(server: FaultyServer) -> None:
    server.run("modprobe", "rdma_ucm")


def _change_mode(server: FaultyServer) -> None:
    server.run("rdma", "system", "set", "netns", _OTHER_MODE[server.node.common.rdma_mode])


def _restore_mode(server: FaultyServer) -> None:
    server.run("rdma", "system", "set", "netns", server.node.common.rdma_mode)


def _block_mode_change(server: FaultyServer) -> None:
    """Set the other mode, then add a network namespace: the kernel refuses to change the mode while there is one."""
    _change_mode(server)
    server.run("ip", "netns", "add", _NAMESPACE)


def _allow_mode_change(server: FaultyServer) -> None:
    server.run("ip", "netns", "delete", _NAMESPACE)
    _restore_mode(server)


def _persist_other_mode(server: FaultyServer) -> None:
    value = 0 if server.node.common.rdma_mode == "shared" else 1
    server.write_file(_OPTIONS, f"options ib_core netns_mode={value}\n")


FAULTS: tuple[VmFault, ...] = (
    VmFault("rdma-stack-not-loaded", _unload_stack, _load_stack),
    VmFault("rdma-netns-mode-change-busy", _block_mode_change, _allow_mode_change),
    VmFault("rdma-netns-mode-wrong", _change_mode, _restore_mode),
    VmFault("rdma-netns-mode-not-persistent", _persist_other_mode),
    VmFault("rdma-device-missing-for-port", _delete_device, _restore_device),
    VmFault("rdma-uverbs-node-missing", _delete_verbs_node, _recreate_device),
    VmFault("rdma-ucm-node-missing", _unload_user_cm, _load_user_cm),
)
