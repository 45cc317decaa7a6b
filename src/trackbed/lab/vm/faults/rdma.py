"""Faults of the step rdma, made in an emulated server: its ports get soft-RoCE devices for as long as a fault lasts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.lab.vm.faults.fault import VmFault

if TYPE_CHECKING:
    from trackbed.lab.vm.faults.fault import Server
    from trackbed.plan.plan import PortPlan

_NAMESPACE = "lab-other"
_OPTIONS = "/etc/modprobe.d/zz-lab.conf"
"""Read last: modprobe.d(5) goes by names."""
_STACK = ("rdma_ucm", "rdma_rxe", "rdma_cm", "iw_cm", "ib_cm", "ib_umad", "ib_uverbs", "ib_uverbs_support", "ib_core")
"""Users before what they use: `modprobe -r` stops at a module that is in use."""
_VERBS = Path("/sys/class/infiniband_verbs")
_OTHER = {"shared": "exclusive", "exclusive": "shared"}


def name_of(server: Server, port: PortPlan) -> str:
    """The planned name of a port's RDMA device."""
    return next(rail.rdma for rail in server.node.common.rails if rail.rail == port.rail)


def soft(server: Server, *, without: PortPlan | None = None) -> None:
    """Put soft-RoCE on all ports, named as planned; a port's own device would be named so."""
    server.run("modprobe", "rdma_rxe")
    for port in server.node.ports:
        if port != without:
            add(server, port, name_of(server, port))


def add(server: Server, port: PortPlan, name: str) -> None:
    """Put soft-RoCE on one port."""
    server.run("rdma", "link", "add", name, "type", "rxe", "netdev", port.netdev)


def bare(server: Server) -> None:
    """Take soft-RoCE off all ports again."""
    server.restore()
    for path in sorted(Path("/sys/devices/virtual/infiniband").glob("*")):
        server.run("rdma", "link", "delete", path.name)


def _unloaded(server: Server) -> None:
    loaded = [name for name in _STACK if Path("/sys/module", name).exists()]
    server.run("modprobe", "-r", *loaded)


def _loaded(server: Server) -> None:
    server.run("modprobe", "-a", "ib_uverbs", "rdma_ucm")


def _missing(server: Server) -> None:
    soft(server, without=server.port)


def _no_node(server: Server) -> None:
    soft(server)
    mine = name_of(server, server.port)
    found = next(one for one in _VERBS.glob("uverbs*") if (one / "ibdev").read_text().strip() == mine)
    Path("/dev/infiniband", found.name).unlink()


def _no_manager(server: Server) -> None:
    server.run("modprobe", "-r", "rdma_ucm")


def _manager(server: Server) -> None:
    server.run("modprobe", "rdma_ucm")


def _other_mode(server: Server) -> None:
    server.run("rdma", "system", "set", "netns", _OTHER[server.node.common.rdma_mode])


def _planned_mode(server: Server) -> None:
    server.run("rdma", "system", "set", "netns", server.node.common.rdma_mode)


def _busy(server: Server) -> None:
    _other_mode(server)
    server.run("ip", "netns", "add", _NAMESPACE)


def _free(server: Server) -> None:
    server.run("ip", "netns", "delete", _NAMESPACE)
    _planned_mode(server)


def _forgotten(server: Server) -> None:
    other = 0 if server.node.common.rdma_mode == "shared" else 1
    server.write(_OPTIONS, f"options ib_core netns_mode={other}\n")


FAULTS: tuple[VmFault, ...] = (
    VmFault("rdma-stack-not-loaded", _unloaded, _loaded),
    VmFault("rdma-netns-mode-change-busy", _busy, _free),
    VmFault("rdma-netns-mode-wrong", _other_mode, _planned_mode),
    VmFault("rdma-netns-mode-not-persistent", _forgotten),
    VmFault("rdma-device-missing-for-port", _missing, bare),
    VmFault("rdma-uverbs-node-missing", _no_node, bare),
    VmFault("rdma-ucm-node-missing", _no_manager, _manager),
)
