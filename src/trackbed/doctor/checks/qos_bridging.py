"""Data center bridging of a port: trust, PFC, DSCP to priority, traffic classes, and who decides on them (DCBX)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.kernel.netlink.dcb import DCB_CAP_DCBX_LLD_MANAGED, IEEE_8021QAZ_APP_SEL_DSCP, group_dscp_priorities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan, QosPlan
    from trackbed.host.snapshot.snapshot import Snapshot
    from trackbed.kernel.netlink.dcb import Dcb

_TRUST = "/sys/class/net/{netdev}/qos/trust"
_PAUSE = ("ethtool", "-a", "{netdev}")
_PAUSED = re.compile(r"^(RX|TX):\s+on\b", re.MULTILINE)

READS = Wanted(files=(_TRUST,), commands=(_PAUSE,))


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port whose driver knows of bridging; of others there is nothing to say."""
    qos = view.node.common.qos
    for port in view.iter_ports():
        dcb = view.dcb.get(port.netdev)
        yield from _trust(view, host, port)
        if dcb is not None:
            yield from _mapping(view, host, port, dcb)
            yield from _pause(view, host, port, qos)
            yield from _pfc(view, port, dcb)
            yield from _classes(view, port, dcb)
            yield from _managed(view, port, dcb)


def _trust(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """The driver's own file, else the list of selectors, else entries for DSCP: with one, mlx5 goes by DSCP."""
    said, dcb = host.text(_TRUST.format(netdev=port.netdev)), view.dcb.get(port.netdev)
    if said is not None:
        ok, evidence = said == "dscp", f"qos/trust: {said}"
    elif dcb is None:
        return
    elif dcb.trust is not None:
        ok, evidence = IEEE_8021QAZ_APP_SEL_DSCP in dcb.trust, f"trusted selectors: {dcb.trust or 'none'}"
    else:
        ok, evidence = bool(group_dscp_priorities(dcb.apps)), "no DSCP has a priority" if not dcb.apps else ""
    yield judge("qos-trust-not-dscp", view.node, port, ok=ok, evidence=evidence)


def _mapping(view: NodeView, host: Snapshot, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    """A DSCP that no entry names has its upper three bits as priority, where DSCP is trusted at all."""
    qos, found = view.node.common.qos, group_dscp_priorities(dcb.apps)
    if not found and host.text(_TRUST.format(netdev=port.netdev)) is None:
        return  # nothing is mapped because nothing is trusted
    wanted = {qos.cnp_dscp: qos.cnp_dscp >> 3} | {qos.dscp: qos.priority}
    have = {dscp: max(found.get(dscp) or {dscp >> 3}) for dscp in wanted}
    wrong = [f"DSCP {dscp} has priority {have[dscp]}, planned {want}" for dscp, want in wanted.items()]
    wrong = [text for text, (dscp, want) in zip(wrong, wanted.items(), strict=True) if have[dscp] != want]
    yield judge("qos-dscp-map-wrong", view.node, port, ok=not wrong, evidence="; ".join(wrong))


def _pause(view: NodeView, host: Snapshot, port: PortPlan, qos: QosPlan) -> Iterator[Finding]:
    said = host.said(*(word.format(netdev=port.netdev) for word in _PAUSE))
    if qos.pfc and said is not None:
        on = _PAUSED.findall(said)
        evidence = f"link-level pause is on: {', '.join(on)}" if on else ""
        yield judge("qos-global-pause-on", view.node, port, ok=not on, evidence=evidence)


def _pfc(view: NodeView, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    qos = view.node.common.qos
    if dcb.pfc is None:
        return
    have, want = dcb.pfc.priorities, {qos.priority} if qos.pfc else set[int]()
    evidence = f"PFC on priorities {_shown(have)}, planned {_shown(want)}"
    yield judge("qos-pfc-off", view.node, port, ok=not want - have, evidence=evidence)
    yield judge("qos-pfc-extra-or-wrong-priority", view.node, port, ok=not have - want, evidence=evidence)


def _shown(priorities: frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(priorities))) or "none"


def _classes(view: NodeView, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    if dcb.ets is None:
        return
    own, classes = view.node.common.qos.priority, dcb.ets.classes
    others = {other for other, held in enumerate(classes) if held == classes[own] and other != own}
    evidence = f"traffic class {classes[own]} has priority {own}" + (f" and {_shown(others)}" if others else "")
    yield judge("qos-ets-shares-traffic-class", view.node, port, ok=not others, evidence=evidence)


def _managed(view: NodeView, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    """Firmware that negotiates, or a port that takes what its neighbour recommends."""
    if dcb.dcbx is None and dcb.ets is None:
        return
    firmware = bool((dcb.dcbx or 0) & DCB_CAP_DCBX_LLD_MANAGED)
    willing = dcb.ets is not None and dcb.ets.willing
    told = ["the device negotiates by itself"] * firmware + ["the port is willing"] * willing
    yield judge("qos-dcbx-firmware-managed", view.node, port, ok=not told, evidence=", ".join(told))
