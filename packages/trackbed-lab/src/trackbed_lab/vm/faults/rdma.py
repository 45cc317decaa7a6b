"""Faults of the step rdma, made in an emulated server: soft-RoCE stands in for the RDMA hardware of its ports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed_lab.vm.faults.fault import VmFault
from trackbed_lab.vm.faults.ways import configure_port

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed_lab.vm.faults.fault import FaultyServer

_NAMESPACE = "lab-other"
_OPTIONS = "/etc/modprobe.d/zz-lab.conf"
"""Read last: modprobe.d(5) goes by names."""
_STACK = ("rdma_ucm", "rdma_rxe", "rdma_cm", "iw_cm", "ib_cm", "ib_umad", "ib_uverbs", "ib_uverbs_support", "ib_core")
"""Users before what they use: `modprobe -r` stops at a module that is in use."""
_VERBS = Path("/sys/class/infiniband_verbs")
_MANAGER = Path("/sys/kernel/config/rdma_cm")
_OTHER = {"shared": "exclusive", "exclusive": "shared"}


def find_device_name(server: FaultyServer, port: PortPlan) -> str:
    """The planned name of a port's RDMA device."""
    return next(rail.rdma for rail in server.node.common.rails if rail.rail == port.rail)


def remove_cm_settings() -> None:
    """Take the RDMA CM's settings of devices away: they hold their devices, and outlive them."""
    for folder in _MANAGER.glob("*"):
        folder.rmdir()


def _added(server: FaultyServer, port: PortPlan) -> None:
    server.run("rdma", "link", "add", find_device_name(server, port), "type", "rxe", "netdev", port.netdev)


def _deleted(server: FaultyServer) -> None:
    remove_cm_settings()
    server.run("rdma", "link", "delete", find_device_name(server, server.port))


def _back(server: FaultyServer) -> None:
    _added(server, server.port)
    configure_port(server)


def _unloaded(server: FaultyServer) -> None:
    remove_cm_settings()
    loaded = [name for name in _STACK if Path("/sys/module", name).exists()]
    server.run("modprobe", "-r", *loaded)


def _loaded(server: FaultyServer) -> None:
    server.run("modprobe", "-a", "rdma_rxe", "ib_uverbs", "rdma_ucm")
    for port in server.node.ports:
        _added(server, port)
    configure_port(server)


def _no_node(server: FaultyServer) -> None:
    mine = find_device_name(server, server.port)
    found = next(one for one in _VERBS.glob("uverbs*") if (one / "ibdev").read_text().strip() == mine)
    Path("/dev/infiniband", found.name).unlink()


def _node(server: FaultyServer) -> None:
    _deleted(server)
    _back(server)


def _no_manager(server: FaultyServer) -> None:
    server.run("rmmod", "rdma_ucm")  # modprobe would take along what it needs


def _manager(server: FaultyServer) -> None:
    server.run("modprobe", "rdma_ucm")


def _other_mode(server: FaultyServer) -> None:
    server.run("rdma", "system", "set", "netns", _OTHER[server.node.common.rdma_mode])


def _planned_mode(server: FaultyServer) -> None:
    server.run("rdma", "system", "set", "netns", server.node.common.rdma_mode)


def _busy(server: FaultyServer) -> None:
    _other_mode(server)
    server.run("ip", "netns", "add", _NAMESPACE)


def _free(server: FaultyServer) -> None:
    server.run("ip", "netns", "delete", _NAMESPACE)
    _planned_mode(server)


def _forgotten(server: FaultyServer) -> None:
    other = 0 if server.node.common.rdma_mode == "shared" else 1
    server.write(_OPTIONS, f"options ib_core netns_mode={other}\n")


FAULTS: tuple[VmFault, ...] = (
    VmFault("rdma-stack-not-loaded", _unloaded, _loaded),
    VmFault("rdma-netns-mode-change-busy", _busy, _free),
    VmFault("rdma-netns-mode-wrong", _other_mode, _planned_mode),
    VmFault("rdma-netns-mode-not-persistent", _forgotten),
    VmFault("rdma-device-missing-for-port", _deleted, _back),
    VmFault("rdma-uverbs-node-missing", _no_node, _node),
    VmFault("rdma-ucm-node-missing", _no_manager, _manager),
)
