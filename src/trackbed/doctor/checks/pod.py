"""Step pod: every attached pod has the rules and routes of its rails (`trackbed.fabric.plan.routes`)."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, PodView
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.fabric.plan.routes import PlannedRoute, build_routes, build_rule
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.routes import Route


def check(view: NodeView) -> Iterator[Finding]:
    """Check every rail of every attached pod."""
    for pod in view.pods:
        first = min(pod.rails, default=0)
        for rail, (netdev, addresses) in pod.rails.items():
            missing = [
                item for address in addresses for item in _iter_missing(view, pod, rail, address, first=rail == first)
            ]
            evidence = f"pod {pod.name} {netdev} lacks {'; '.join(missing)}" if missing else f"pod {pod.name}"
            yield judge(
                "pod-rail-routes-missing", view.node, view.node.find_port(rail), ok=not missing, evidence=evidence
            )


def _iter_missing(view: NodeView, pod: PodView, rail: int, address: AddressPlan, *, first: bool) -> Iterator[str]:
    """Yield the planned rules and routes of an address that the pod lacks."""
    common, family = view.node.common, FAMILY[address.version]
    table = build_rule(common, rail, address).table
    if not any(
        present.family == family and present.src == address.address and present.table == table
        for present in pod.state.rules
    ):
        yield f"rule from {format_address(address.version, address.address)} lookup {table}"
    for planned in build_routes(common, rail, address, first=first):
        if not any(_matches(route, planned, family) for route in pod.state.routes):
            gateway = f" via {format_address(address.version, planned.gateway)}" if planned.gateway else ""
            yield f"route {planned.to}{gateway} table {planned.table}"


def _matches(route: Route, planned: PlannedRoute, family: int) -> bool:
    key = (family, planned.table, planned.to.base, planned.to.prefix)
    return (route.family, route.table, route.dst, route.prefix) == key and (route.gateway or 0) == planned.gateway
