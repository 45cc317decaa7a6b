"""Data center bridging of a port: trust, PFC, DSCP to priority, traffic classes, and DCBX."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan, QosPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.kernel.netlink.dcb import IEEE_8021QAZ_APP_SEL_DSCP, Dcb, group_dscp_priorities

_TRUST = "/sys/class/net/{netdev}/qos/trust"
_PAUSE = ("ethtool", "-a", "{netdev}")
_PAUSED = re.compile(r"^(RX|TX):\s+on\b", re.MULTILINE)

READS = Wanted(files=(_TRUST,), commands=(_PAUSE,))


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port whose driver reports data center bridging."""
    qos = view.node.common.qos
    for port in view.iter_ports():
        dcb = view.dcb.get(port.netdev)
        yield from check_trust(view, host, port)
        if dcb is not None:
            yield from check_dscp_mapping(view, host, port, dcb)
            yield from check_global_pause(view, host, port, qos)
            yield from check_pfc(view, port, dcb)
            yield from check_traffic_classes(view, port, dcb)
            yield from check_dcbx(view, port, dcb)


def check_trust(view: NodeView, host: Snapshot, port: PortPlan) -> Iterator[Finding]:
    """Check that the port trusts DSCP.

    The driver's own file takes precedence over the kernel's list of trusted selectors. Without either, entries for
    DSCP imply trust, because mlx5 trusts DSCP as soon as an entry exists.
    """
    trust, dcb = host.read_text(_TRUST.format(netdev=port.netdev)), view.dcb.get(port.netdev)
    if trust is not None:
        ok, evidence = trust == "dscp", f"qos/trust: {trust}"
    elif dcb is None:
        return
    elif dcb.trust is not None:
        ok, evidence = IEEE_8021QAZ_APP_SEL_DSCP in dcb.trust, f"trusted selectors: {dcb.trust or 'none'}"
    else:
        ok, evidence = bool(group_dscp_priorities(dcb.apps)), "no DSCP has a priority" if not dcb.apps else ""
    yield build_finding("qos-trust-not-dscp", view.node, port, ok=ok, evidence=evidence)


def check_dscp_mapping(view: NodeView, host: Snapshot, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    """Check the priorities of the planned DSCPs.

    A trusted DSCP without an entry has the priority in its upper three bits.
    """
    qos, entries = view.node.common.qos, group_dscp_priorities(dcb.apps)
    if not entries and host.read_text(_TRUST.format(netdev=port.netdev)) is None:
        return  # without trust there is no mapping
    planned = {qos.cnp_dscp: qos.cnp_dscp >> 3} | {qos.dscp: qos.priority}
    actual = {dscp: max(entries.get(dscp) or {dscp >> 3}) for dscp in planned}
    wrong = [
        f"DSCP {dscp} has priority {actual[dscp]}, planned {priority}"
        for dscp, priority in planned.items()
        if actual[dscp] != priority
    ]
    yield build_finding("qos-dscp-map-wrong", view.node, port, ok=not wrong, evidence="; ".join(wrong))


def check_global_pause(view: NodeView, host: Snapshot, port: PortPlan, qos: QosPlan) -> Iterator[Finding]:
    """Check that link-level pause is off if PFC is planned."""
    output = host.get_output(*(argument.format(netdev=port.netdev) for argument in _PAUSE))
    if qos.pfc and output is not None:
        directions = _PAUSED.findall(output)
        evidence = f"link-level pause is on: {', '.join(directions)}" if directions else ""
        yield build_finding("qos-global-pause-on", view.node, port, ok=not directions, evidence=evidence)


def check_pfc(view: NodeView, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    """Check that PFC is on for the planned priority and for no other."""
    qos = view.node.common.qos
    if dcb.pfc is None:
        return
    actual, planned = dcb.pfc.priorities, {qos.priority} if qos.pfc else set[int]()
    evidence = f"PFC on priorities {_format_priorities(actual)}, planned {_format_priorities(planned)}"
    yield build_finding("qos-pfc-off", view.node, port, ok=not planned - actual, evidence=evidence)
    yield build_finding("qos-pfc-extra-or-wrong-priority", view.node, port, ok=not actual - planned, evidence=evidence)


def _format_priorities(priorities: frozenset[int] | set[int]) -> str:
    return ", ".join(map(str, sorted(priorities))) or "none"


def check_traffic_classes(view: NodeView, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    """Check that the planned priority has a traffic class of its own."""
    if dcb.ets is None:
        return
    planned, classes = view.node.common.qos.priority, dcb.ets.classes
    others = {priority for priority, klass in enumerate(classes) if klass == classes[planned] and priority != planned}
    evidence = f"traffic class {classes[planned]} has priority {planned}"
    evidence += f" and {_format_priorities(others)}" if others else ""
    yield build_finding("qos-ets-shares-traffic-class", view.node, port, ok=not others, evidence=evidence)


def check_dcbx(view: NodeView, port: PortPlan, dcb: Dcb) -> Iterator[Finding]:
    """Check that DCBX cannot override the settings: it is not left to the firmware, and the port is not willing."""
    if dcb.dcbx is None and dcb.ets is None:
        return
    by_firmware = dcb.is_negotiated_by_firmware
    is_willing = dcb.ets is not None and dcb.ets.willing
    reasons = ["the device negotiates by itself"] * by_firmware + ["the port is willing"] * is_willing
    yield build_finding("qos-dcbx-firmware-managed", view.node, port, ok=not reasons, evidence=", ".join(reasons))
