"""How RDMA packets are marked and slowed: DCQCN, notices, the traffic class of queue pairs, rdma_cm, the next boot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.rdma_devices import BELOW, list_rdma_devices
from trackbed.doctor.rdma_devices import READS as DEVICES
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.steps.boot import SCRIPT, WANTED
from trackbed.host.steps.qos import traffic_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

_ECN = "/sys/class/net/{netdev}/ecn"
_CC = "/sys/kernel/debug/mlx5/{pci}/cc_params"
_CLASS = "/tc/1/traffic_class"
_COUNTS = "/ports/1/hw_counters"
_COUNTED = ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored")
_CM = "/sys/kernel/config/rdma_cm/{device}/ports/1"
_UNITS = ("/etc/systemd/system/*.service", "/etc/udev/rules.d/*.rules")
_SETS = re.compile(r"mlnx_qos|cma_roce_tos|\bdcb (?:app|pfc|ets)\b")
"""What sets QoS at boot, by whomever it was written."""

READS = (
    Wanted(
        files=(
            *(f"{_ECN}/{side}/enable/*" for side in ("roce_np", "roce_rp")),
            *(f"{_ECN}/roce_np/{name}" for name in ("cnp_dscp", "cnp_802p_prio")),
            *(f"{_CC}/np_cnp_{name}" for name in ("dscp", "prio")),
            *(f"{BELOW}/*{_COUNTS}/{name}" for name in _COUNTED),
            f"{BELOW}/*{_CLASS}",
            *(f"{_CM.format(device='*')}/default_roce_{name}" for name in ("tos", "mode")),
            *_UNITS,
            SCRIPT,
            WANTED,
        )
    )
    | DEVICES
)


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port by the files that its driver has, then whether the next boot sets all this again."""
    for port in view.iter_ports():
        yield from _ecn(view, host, port)
        yield from _notices(view, host, port)
        yield from _class(view, host, port)
        yield from _connections(view, host, port)
    yield from _boot(view, host)


def _ecn(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """The switches of NVIDIA's driver; without them what was counted: marks that nobody answered."""
    qos = view.node.common.qos
    if not qos.ecn:
        return
    counts = {name: _count(host, port, name) for name in _COUNTED}
    np = ("qos-ecn-notification-off", "roce_np", "np_ecn_marked_roce_packets", "np_cnp_sent")
    rp = ("qos-ecn-reaction-off", "roce_rp", "rp_cnp_ignored", "rp_cnp_handled")
    for fault, side, asked, answered in (np, rp):
        on = host.number(f"{_ECN.format(netdev=port.netdev)}/{side}/enable/{qos.priority}")
        many, done = counts[asked], counts[answered]
        if on is not None:
            evidence = f"ecn/{side}/enable/{qos.priority} is {on}"
            yield judge(fault, view.node, port, ok=on == 1, evidence=evidence)
        elif many is not None and done is not None:
            yield judge(fault, view.node, port, ok=not many or done > 0, evidence=f"{asked} {many}, {answered} {done}")


def _count(host: Snapshot, port: PortPlan, name: str) -> int | None:
    found = [host.number(f"{device.folder}{_COUNTS}/{name}") for device in list_rdma_devices(host, port.netdev)]
    known = [number for number in found if number is not None]
    return sum(known) if known else None


def _notices(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    qos, base = view.node.common.qos, f"{_ECN.format(netdev=port.netdev)}/roce_np"
    cc = _CC.format(pci=port.pci or host.pci(port.netdev))
    dscp = _either(host.number(f"{base}/cnp_dscp"), host.number(f"{cc}/np_cnp_dscp"))
    priority = _either(host.number(f"{base}/cnp_802p_prio"), host.number(f"{cc}/np_cnp_prio"))
    if qos.ecn and dscp is not None:
        ok = dscp == qos.cnp_dscp and priority in {None, qos.cnp_dscp >> 3}
        evidence = f"notices have DSCP {dscp}, priority {priority}; planned {qos.cnp_dscp}, {qos.cnp_dscp >> 3}"
        yield judge("qos-cnp-dscp-wrong", view.node, port, ok=ok, evidence=evidence)


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _class(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    want = traffic_class(view.node)
    for text in _classes(host, port):
        told = re.search(r"\d+", text)
        have = int(told[0]) if told else None
        evidence = f"traffic_class of {port.netdev}: {'not forced' if have is None else have}, planned {want}"
        yield judge("qos-traffic-class-not-forced", view.node, port, ok=have == want, evidence=evidence)


def _connections(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """A device is in configfs only where somebody asked for it (mkdir): what nobody asked for is not known."""
    want = traffic_class(view.node)
    for device in list_rdma_devices(host, port.netdev):
        base = _CM.format(device=device.name)
        tos, mode = host.number(f"{base}/default_roce_tos"), host.text(f"{base}/default_roce_mode")
        if tos is not None:
            evidence = f"rdma_cm gives {device.name} the class {tos}, planned {want}"
            yield judge("qos-rdma-cm-tos-wrong", view.node, port, ok=tos == want, evidence=evidence)
        if mode is not None:
            evidence = f"rdma_cm takes {mode} for {device.name}"
            yield judge("qos-rdma-cm-roce-v1", view.node, port, ok=mode == "RoCE v2", evidence=evidence)


def _boot(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Only where something forgets: a port with bridging or with the files of NVIDIA's driver."""
    if not any(port.netdev in view.dcb or _classes(host, port) for port in view.iter_ports()):
        return
    ours = [SCRIPT] if host.exists(SCRIPT) and host.exists(WANTED) else []
    others = [path for pattern in _UNITS for path in host.glob(pattern) if _SETS.search(host.text(path) or "")]
    setters = [*ours, *others]
    evidence = f"set at boot by {', '.join(setters)}" if setters else "no unit and no udev rule here sets QoS"
    yield judge("qos-not-persistent", view.node, None, ok=bool(setters), evidence=evidence)


def _classes(host: Snapshot, port: PortPlan) -> list[str]:
    """What forces a traffic class, of each device of the port."""
    return [
        text
        for device in list_rdma_devices(host, port.netdev)
        if (text := host.text(device.folder + _CLASS)) is not None
    ]
