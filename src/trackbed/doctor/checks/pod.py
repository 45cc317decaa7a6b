"""Step pod: every attached pod has the rules and routes that `trackbed.fabric.plan.routes` plans for its rails."""

from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView, PodView, describe_unread_pod
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.fabric.plan.routes import build_source_rule, iter_routes
from trackbed.kernel.netlink.addresses import FAMILY


def check(view: NodeView) -> Iterator[Finding]:
    """Check every rail of every attached pod."""
    for pod in view.pods:
        if pod.unread:
            yield build_finding("pod-rail-routes-missing", view.node, None, ok=None, evidence=describe_unread_pod(pod))
            continue
        first = min(pod.rails, default=0)
        for rail, (netdev, addresses, _) in pod.rails.items():
            missing = [
                item
                for address in addresses
                for item in _iter_missing_entries(view, pod, rail, address, is_first_rail=rail == first)
            ]
            evidence = f"pod {pod.name} {netdev} lacks {'; '.join(missing)}" if missing else f"pod {pod.name}"
            yield build_finding(
                "pod-rail-routes-missing", view.node, view.node.find_port(rail), ok=not missing, evidence=evidence
            )


def _iter_missing_entries(
    view: NodeView, pod: PodView, rail: int, address: AddressPlan, *, is_first_rail: bool
) -> Iterator[str]:
    """Yield the planned rules and routes of an address that the pod lacks."""
    common, family = view.node.common, FAMILY[address.version]
    table = build_source_rule(common, rail, address).table
    if (family, address.address, table) not in {(rule.family, rule.src, rule.table) for rule in pod.state.rules}:
        yield f"rule from {format_address(address.version, address.address)} lookup {table}"
    present = {(route.family, route.table, route.dst, route.prefix, route.gateway) for route in pod.state.routes}
    for route in iter_routes(common, rail, address, carries_supernet=is_first_rail):
        if (family, route.table, route.to.base, route.to.prefix, route.gateway) not in present:
            gateway = f" via {format_address(address.version, route.gateway)}" if route.gateway else ""
            yield f"route {route.to}{gateway} table {route.table}"
