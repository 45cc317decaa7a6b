"""Steps fabric and switch: connectivity between nodes and leaves, from the results of probes."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import AGENT, EchoResult, NodeView, ProbeResults
from trackbed.fabric.plan.plan import PortPlan

_MAX_PEERS = 3
"""Maximum number of peers that the evidence lists."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check every rail that was probed."""
    for port in view.node.ports:
        results = view.probes.get(port.rail)
        if results is None:
            continue
        if results.lldp_heard is not None:
            evidence = "" if results.lldp_heard else f"no LLDP frame on {port.netdev}"
            yield build_finding("fabric-lldp-silent", view.node, port, ok=results.lldp_heard, evidence=evidence)
        yield from check_same_rail(view, port, results)
        yield from check_full_size(view, port, results)
        yield from check_cross_rail(view, port, results)
        yield from check_flapping(view, port)


def check_same_rail(view: NodeView, port: PortPlan, results: ProbeResults) -> Iterator[Finding]:
    """Check that peers on the same rail answer."""
    lost = [echo for echo in results.same_rail if not echo.answered]
    if not results.same_rail:
        return
    refused = [echo for echo in lost if echo.refusal]
    yield build_finding("switch-route-missing", view.node, port, ok=not refused, evidence=_format_echoes(refused))
    if not refused:
        yield build_finding("fabric-same-rail-unreachable", view.node, port, ok=not lost, evidence=_format_echoes(lost))


def check_full_size(view: NodeView, port: PortPlan, results: ProbeResults) -> Iterator[Finding]:
    """Check that a peer that answers small packets also answers packets of the planned MTU."""
    echo = results.full_size
    if echo is None:
        return
    answers_small = any(small.answered for small in results.same_rail if small.target == echo.target)
    ok = echo.answered if answers_small else None
    evidence = f"{view.node.common.mtu_bytes} bytes to {echo.target}: {_describe_echo(echo)}"
    yield build_finding("fabric-mtu-black-hole", view.node, port, ok=ok, evidence=evidence)


def check_cross_rail(view: NodeView, port: PortPlan, results: ProbeResults) -> Iterator[Finding]:
    """Check that peers on other rails answer if and only if the plan routes between rails."""
    if not results.cross_rail:
        return
    planned = view.node.common.cross_rail
    unexpected = [echo for echo in results.cross_rail if echo.answered != (planned == "routed")]
    evidence = f"planned {planned}; {_format_echoes(unexpected)}" if unexpected else ""
    yield build_finding("fabric-cross-rail-differs-from-plan", view.node, port, ok=not unexpected, evidence=evidence)


def check_flapping(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    """Check that the port has not lost carrier since the last apply; ports that were in a pod are skipped."""
    link, baseline = view.find_link(port), (view.baseline or {}).get(port.netdev)
    if link is None or baseline is None or port.rail in view.rails_in_pods or port.netdev in view.moved_ports:
        return
    losses = link.carrier_down_count - baseline[1]
    evidence = f"carrier lost {losses} times since the last apply" if losses else ""
    ok: bool | None = losses <= 0
    if not ok and AGENT in view.unread:
        ok, evidence = None, f"{evidence}; {AGENT}, which would know of a pod that had the port: {view.unread[AGENT]}"
    yield build_finding("fabric-link-flapping", view.node, port, ok=ok, evidence=evidence)


def _format_echoes(echoes: list[EchoResult]) -> str:
    listing = "; ".join(f"{echo.target}: {_describe_echo(echo)}" for echo in echoes[:_MAX_PEERS])
    return listing + (" ..." if len(echoes) > _MAX_PEERS else "")


def _describe_echo(echo: EchoResult) -> str:
    return "answered" if echo.answered else echo.refusal or "no answer"
