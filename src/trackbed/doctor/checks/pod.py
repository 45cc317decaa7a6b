"""Step pod: inside each attached pod, the rules and routes that plan.routes wants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.fabric.model.ranges import text
from trackbed.fabric.plan.routes import routes, rule
from trackbed.kernel.netlink.addresses import FAMILY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView, PodView
    from trackbed.fabric.plan.plan import Addressed
    from trackbed.fabric.plan.routes import Route


def check(view: NodeView) -> Iterator[Finding]:
    """Judge every rail of every attached pod."""
    for pod in view.pods:
        first = min(pod.rails, default=0)
        for rail, (name, addresses) in pod.rails.items():
            missing = [m for own in addresses for m in _missing(view, pod, rail, own, first=rail == first)]
            shown = f"pod {pod.name} {name} lacks {'; '.join(missing)}" if missing else f"pod {pod.name}"
            yield judge("pod-rail-routes-missing", view.node, view.node.port(rail), ok=not missing, evidence=shown)


def _missing(view: NodeView, pod: PodView, rail: int, own: Addressed, *, first: bool) -> Iterator[str]:
    common, family = view.node.common, FAMILY[own.version]
    wanted = rule(common, rail, own)
    if not any(r.family == family and r.src == own.address and r.table == wanted.table for r in pod.state.rules):
        yield f"rule from {text(own.version, own.address)} lookup {wanted.table}"
    for route in routes(common, rail, own, first=first):
        if not any(_is(pod, r_index, route, family) for r_index in range(len(pod.state.routes))):
            gateway = f" via {text(own.version, route.gateway)}" if route.gateway else ""
            yield f"route {route.to}{gateway} table {route.table}"


def _is(pod: PodView, number: int, wanted: Route, family: int) -> bool:
    have = pod.state.routes[number]
    same = (have.family, have.table, have.dst, have.prefix) == (family, wanted.table, wanted.to.base, wanted.to.prefix)
    return same and (have.gateway or 0) == wanted.gateway
