"""Steps fabric and switch: what more than one machine must agree on, as probes found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import EchoResult, NodeView, ProbeResults
    from trackbed.fabric.plan.plan import PortPlan


def check(view: NodeView) -> Iterator[Finding]:
    """Judge every rail that was probed."""
    for port in view.node.ports:
        seen = view.probes.get(port.rail)
        if seen is None:
            continue
        if seen.lldp_heard is not None:
            evidence = "" if seen.lldp_heard else f"no LLDP frame on {port.netdev}"
            yield judge("fabric-lldp-silent", view.node, port, ok=seen.lldp_heard, evidence=evidence)
        yield from _same_rail(view, port, seen)
        yield from _full_size(view, port, seen)
        yield from _cross_rail(view, port, seen)
        yield from _flaps(view, port)


def _same_rail(view: NodeView, port: PortPlan, seen: ProbeResults) -> Iterator[Finding]:
    lost = [echo for echo in seen.same_rail if not echo.answered]
    if not seen.same_rail:
        return
    refused = [echo for echo in lost if echo.refusal]
    yield judge("switch-route-missing", view.node, port, ok=not refused, evidence=_shown(refused))
    if not refused:
        yield judge("fabric-same-rail-unreachable", view.node, port, ok=not lost, evidence=_shown(lost))


def _full_size(view: NodeView, port: PortPlan, seen: ProbeResults) -> Iterator[Finding]:
    if seen.full_size is None:
        return
    small = any(echo.answered for echo in seen.same_rail if echo.target == seen.full_size.target)
    ok = seen.full_size.answered if small else None
    evidence = f"{view.node.common.mtu_bytes} bytes to {seen.full_size.target}: {_word(seen.full_size)}"
    yield judge("fabric-mtu-black-hole", view.node, port, ok=ok, evidence=evidence)


def _cross_rail(view: NodeView, port: PortPlan, seen: ProbeResults) -> Iterator[Finding]:
    if not seen.cross_rail:
        return
    wanted = view.node.common.cross_rail == "routed"
    strange = [echo for echo in seen.cross_rail if echo.answered != wanted]
    evidence = f"planned {view.node.common.cross_rail}; {_shown(strange)}" if strange else ""
    yield judge("fabric-cross-rail-differs-from-plan", view.node, port, ok=not strange, evidence=evidence)


def _flaps(view: NodeView, port: PortPlan) -> Iterator[Finding]:
    link, before = view.find_link(port), (view.baseline or {}).get(port.netdev)
    if link is None or before is None or port.rail in view.rails_in_pods or port.netdev in view.moved_ports:
        return
    lost = link.carrier_down_count - before[1]
    evidence = f"carrier lost {lost} times since the last apply" if lost else ""
    yield judge("fabric-link-flapping", view.node, port, ok=lost <= 0, evidence=evidence)


def _shown(echoes: list[EchoResult]) -> str:
    return "; ".join(f"{echo.target}: {_word(echo)}" for echo in echoes[:3]) + (" ..." if len(echoes) > 3 else "")  # noqa: PLR2004 - three examples are enough


def _word(echo: EchoResult) -> str:
    return "answered" if echo.answered else echo.refusal or "no answer"
