"""Review of Fabrics: all checks of `trackbed plan`, against this cluster, and no renumbering of nodes in use.

A node is in use while it has a RailNode. Its addresses must not change, unless the Fabric has annotation
trackbed.dev/renumber: "yes". Its jobs would lose their connections, and its peers have the addresses configured.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trackbed.cluster.stacks import MODULES
from trackbed.cluster.stacks import stack as load_stack
from trackbed.cluster.stacks.refusals import refusals
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState, PlannedFabric
from trackbed.cluster.webhook.review import ReviewRequest, Verdict
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan

RENUMBER = "trackbed.dev/renumber"
"""Annotation of a Fabric whose nodes in use may be renumbered: "yes"."""
_LONGEST_LIST = 8


def decide(request: ReviewRequest, state: ClusterState) -> Verdict:
    """Return the verdict on a Fabric. Raises ReviewError where the review contains none."""
    body, old_body = (review.decode_object(raw) for raw in (request.object, request.old_object))
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name = str(metadata.get("name"))
    slots = state.slots.get(name, {})
    try:
        planned = plan_fabric(body, slots, state.ranges)
    except SpecError as error:
        return Verdict(refusal=_list_problems(error.problems))
    others = [fabric for other_name, fabric in state.fabrics.items() if other_name != name]
    old_plan = _compute_old_plan(old_body, slots)
    problems = [*_find_collisions(planned, others), *_find_renumbering(planned.plan, old_plan, slots)]
    may_renumber = (metadata.get("annotations") or {}).get(RENUMBER) == "yes"
    if errors := [problem for problem in problems if not (may_renumber and problem.code == "renumbers")]:
        return Verdict(refusal=_list_problems(errors))
    warnings = [problem.message for problem in planned.plan.warnings]
    if may_renumber:
        warnings.append(f"annotation {RENUMBER} is on: take it away afterwards")
    return Verdict(warnings=tuple(warnings))


def plan_fabric(body: Mapping[str, Any], slots: Mapping[str, int], ranges: ClusterRanges) -> PlannedFabric:
    """Plan a Fabric object. Raises SpecError with all problems, without files and lines."""
    fabric = build_fabric_from_resource(body)
    name = fabric.spec.kubernetes.stack
    plan = compute_plan(_add_ranges(fabric, ranges), slots)
    if name not in MODULES:
        message = f"no stack is called {name!r}; there are {', '.join(MODULES)}"
        raise SpecError([Problem("stack-unknown", message, ("spec", "kubernetes", "stack"))])
    stack = load_stack(name)
    if problems := list(refusals(stack, plan)):
        raise SpecError(problems)
    return PlannedFabric(stack, plan)


def _add_ranges(fabric: Fabric, ranges: ClusterRanges) -> Fabric:
    """Return the Fabric with the cluster's ranges among those that it must not overlap."""
    other_ranges = fabric.spec.other_ranges
    merged = {}
    for field in ("services", "pods", "nodes"):
        declared = getattr(other_ranges, field)
        merged[field] = (*declared, *(block for block in getattr(ranges, field) if block not in declared))
    spec = fabric.spec.model_copy(update={"other_ranges": other_ranges.model_copy(update=merged)})
    return fabric.model_copy(update={"spec": spec})


def _find_collisions(planned: PlannedFabric, others: Iterable[PlannedFabric]) -> Iterator[Problem]:
    """Yield names that another Fabric uses too: pods would get the wrong rails, or objects be overwritten."""
    networks, resources = _collect_names(planned)
    for other in others:
        name = other.plan.common.fabric
        other_networks, other_resources = _collect_names(other)
        if shared_networks := sorted(networks & other_networks):
            message = f"Fabric {name} has network {'/'.join(shared_networks[0])} too; write other names.network"
            yield Problem("fabrics-share-network", message, ("spec", "names", "network"))
        if shared_resources := sorted(resources & other_resources):
            message = f"Fabric {name} has resource {shared_resources[0]} too; write other names.resource"
            yield Problem("fabrics-share-resource", message, ("spec", "names", "resource"))


def _collect_names(planned: PlannedFabric) -> tuple[set[tuple[str, str]], set[str]]:
    """Return the networks, as namespace and name, and the resources of a Fabric."""
    access = planned.full_access
    networks = {(network.namespace, network.name) for network in access.networks}
    return networks, {name for name, _ in access.resources}


def _compute_old_plan(old_body: Mapping[str, Any], slots: Mapping[str, int]) -> Plan | None:
    """Return the plan of the Fabric before the change; None where there was none, or none can be computed."""
    if not old_body:
        return None
    try:
        return compute_plan(build_fabric_from_resource(old_body), slots)
    except SpecError:
        return None


def _find_renumbering(plan: Plan, old_plan: Plan | None, slots: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem where addresses of nodes in use would change."""
    if old_plan is None:
        return
    old_nodes = {node.name: node for node in old_plan.nodes if node.name in slots}
    changes = [
        change
        for node in plan.nodes
        if node.name in old_nodes and (change := _describe_change(old_nodes[node.name], node))
    ]
    if changes:
        others = f", and {len(changes) - 1} more nodes" if len(changes) > 1 else ""
        remedy = f"if you mean it, annotate the Fabric {RENUMBER}: yes"
        message = f"this renumbers nodes in use: {changes[0]}{others}; {remedy}"
        yield Problem("renumbers", message, ("spec", "addressing"))


def _describe_change(old_node: NodePlan, node: NodePlan) -> str | None:
    """Return the first change of a node's addresses or of the first address of its pods; None where there is none."""
    for port in node.ports:
        old_port = old_node.find_port(port.rail)
        for old, new in ((old_port.v4, port.v4), (old_port.v6, port.v6)) if old_port else ():
            if old and (new is None or (old.address, old.pods_first) != (new.address, new.pods_first)):
                new_text = "none" if new is None else _format_addresses(new.version, new.address, new.pods_first)
                old_text = _format_addresses(old.version, old.address, old.pods_first)
                return f"{node.name} rail {port.rail} from {old_text} to {new_text}"
    return None


def _format_addresses(version: int, address: int, pods_first: int) -> str:
    pods = f" (pods from {format_address(version, pods_first)})" if pods_first else ""
    return format_address(version, address) + pods


def _list_problems(problems: Iterable[Problem]) -> str:
    listing = [
        f"{'.'.join(map(str, problem.path)) or 'Fabric'}: {problem.message} [{problem.code}]" for problem in problems
    ]
    surplus = [f"{len(listing) - _LONGEST_LIST} more"] if len(listing) > _LONGEST_LIST else []
    return "; ".join(listing[:_LONGEST_LIST] + surplus)
