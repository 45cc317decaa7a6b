"""Review of Fabrics and RailNodes: the checks of `trackbed plan` for this cluster; nodes in use are not renumbered.

A node is in use while it has a RailNode. Its addresses must not change: its jobs would lose their connections, and its
peers are configured with its addresses. Annotation trackbed.dev/renumber: "yes" of a Fabric permits a change.

Fabric and slot of a RailNode are immutable, and no two nodes share a slot.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from trackbed.cluster.jobs.template import read_mapping
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.cluster_state import ClusterRanges, ClusterState, PlannedFabric
from trackbed.cluster.webhook.review import ReviewError, ReviewRequest, Verdict
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import format_address, parse_range
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan

RENUMBER = "trackbed.dev/renumber"
"""Annotation of a Fabric; its value "yes" permits the renumbering of nodes in use."""
_MAX_LISTED_PROBLEMS = 8
_IMMUTABLE_FIELDS = ("fabric", "slot")
"""Fields of a RailNode's spec from which the node's addresses derive."""


class FabricNames(msgspec.Struct, frozen=True):
    """The networks of a Fabric, as namespace and name, and the names of its resources."""

    fabric: str
    networks: frozenset[tuple[str, str]]
    resources: frozenset[str]


class FabricQuestion(msgspec.Struct, frozen=True):
    """What the verdict on a Fabric depends on, as data that another process can read."""

    object: msgspec.Raw
    old_object: msgspec.Raw
    slots: dict[str, int]
    """Node -> slot, of the RailNodes of this Fabric."""
    ranges: dict[str, tuple[str, ...]]
    """Field of ClusterRanges -> CIDRs; JSON has no integers of 128 bits."""
    others: tuple[FabricNames, ...]
    """The names of all other Fabrics."""


class _NameMetadata(msgspec.Struct, frozen=True):
    """Metadata, reduced to the name."""

    name: str = ""


class _Named(msgspec.Struct, frozen=True):
    """An object, reduced to its name."""

    metadata: _NameMetadata = _NameMetadata()


def decide(request: ReviewRequest, state: ClusterState) -> Verdict:
    """Return the verdict on a new or changed Fabric. Raises ReviewError if the request contains no Fabric."""
    return decide_question(build_question(request, state))


def build_question(request: ReviewRequest, state: ClusterState) -> FabricQuestion:
    """Return what the verdict on a request depends on. Raises ReviewError if the request contains no Fabric."""
    try:
        named = msgspec.json.decode(request.object, type=_Named | None) or _Named()
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ReviewError(f"the review's object is none: {error}") from error
    name = named.metadata.name
    return FabricQuestion(
        request.object,
        request.old_object,
        dict(state.slots.get(name, {})),
        {field: tuple(map(str, getattr(state.ranges, field))) for field in ("services", "pods", "nodes")},
        tuple(_collect_names(fabric) for other_name, fabric in state.fabrics.items() if other_name != name),
    )


def decide_question(question: FabricQuestion) -> Verdict:
    """Return the verdict on a new or changed Fabric. Raises ReviewError if the question contains no Fabric."""
    body, old_body = (review.decode_object(raw) for raw in (question.object, question.old_object))
    ranges = ClusterRanges(**{field: tuple(map(parse_range, cidrs)) for field, cidrs in question.ranges.items()})
    try:
        planned = plan_fabric(body, question.slots, ranges)
    except SpecError as error:
        return Verdict(refusal=_format_problems(error.problems))
    old_plan = _compute_old_plan(old_body, question.slots)
    collisions = _find_collisions(_collect_names(planned), question.others)
    problems = [*collisions, *_find_renumbering(planned.plan, old_plan, question.slots)]
    may_renumber = (read_mapping(body, "metadata").get("annotations") or {}).get(RENUMBER) == "yes"
    if errors := [problem for problem in problems if not (may_renumber and problem.code == "renumbers")]:
        return Verdict(refusal=_format_problems(errors))
    warnings = [problem.message for problem in planned.plan.warnings]
    if may_renumber:
        warnings.append(f"annotation {RENUMBER} is on: take it away afterwards")
    return Verdict(warnings=tuple(warnings))


def decide_railnode(request: ReviewRequest, state: ClusterState) -> Verdict:
    """Return the verdict on a new or changed RailNode. Raises ReviewError if the request contains no RailNode."""
    spec, old_spec = (read_mapping(review.decode_object(raw), "spec") for raw in (request.object, request.old_object))
    for name in _IMMUTABLE_FIELDS:
        if old_spec.get(name) is not None and spec.get(name) != old_spec[name]:
            return Verdict(
                refusal=f"spec.{name} of RailNode {request.name} stays {old_spec[name]!r}: every address of the node "
                "follows from it; delete the RailNode and create it again to renumber the node"
            )
    fabric, slot = (spec.get(name) for name in _IMMUTABLE_FIELDS)
    for node, node_slot in state.slots.get(str(fabric), {}).items():
        if node_slot == slot and node != request.name:
            return Verdict(refusal=f"slot {slot} of Fabric {fabric} is node {node}'s; a slot belongs to one node")
    return Verdict()


def plan_fabric(body: Mapping[str, Any], slots: Mapping[str, int], ranges: ClusterRanges) -> PlannedFabric:
    """Return the stack and the plan of a Fabric object; `slots` maps its nodes to their slots.

    Raises SpecError, without files and lines.
    """
    fabric = build_fabric_from_resource(body)
    plan = compute_plan(_add_ranges(fabric, ranges), slots)
    stack = load_stack(fabric.spec.kubernetes.stack)
    if problems := list(find_refusals(stack, plan)):
        raise SpecError(problems)
    return PlannedFabric(stack, plan)


def _add_ranges(fabric: Fabric, ranges: ClusterRanges) -> Fabric:
    """Return the Fabric with the cluster's ranges added to the ranges that it must not overlap."""
    other_ranges = fabric.spec.other_ranges
    merged = {}
    for field in ("services", "pods", "nodes"):
        declared = getattr(other_ranges, field)
        merged[field] = (*declared, *(block for block in getattr(ranges, field) if block not in declared))
    spec = fabric.spec.model_copy(update={"other_ranges": other_ranges.model_copy(update=merged)})
    return fabric.model_copy(update={"spec": spec})


def _find_collisions(names: FabricNames, others: Iterable[FabricNames]) -> Iterator[Problem]:
    """Yield a problem for each network or resource name of another Fabric: pods would get rails of the wrong Fabric."""
    for other in others:
        if shared_networks := sorted(names.networks & other.networks):
            message = f"Fabric {other.fabric} has network {'/'.join(shared_networks[0])} too; write other names.network"
            yield Problem("fabrics-share-network", message, ("spec", "names", "network"))
        if shared_resources := sorted(names.resources & other.resources):
            message = f"Fabric {other.fabric} has resource {shared_resources[0]} too; write other names.resource"
            yield Problem("fabrics-share-resource", message, ("spec", "names", "resource"))


def _collect_names(fabric: PlannedFabric) -> FabricNames:
    access = fabric.full_access
    networks = frozenset((network.namespace, network.name) for network in access.networks)
    return FabricNames(fabric.plan.common.fabric, networks, frozenset(name for name, _ in access.resources))


def _compute_old_plan(old_body: Mapping[str, Any], slots: Mapping[str, int]) -> Plan | None:
    """Return the plan of the Fabric before the change; None for a new Fabric, or one that cannot be planned."""
    if not old_body:
        return None
    try:
        return compute_plan(build_fabric_from_resource(old_body), slots)
    except SpecError:
        return None


def _find_renumbering(plan: Plan, old_plan: Plan | None, slots: Mapping[str, int]) -> Iterator[Problem]:
    """Yield a problem if addresses of nodes in use change."""
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
    """Return the first change of a node's addresses or of its pods' first addresses, as text; None if there is none."""
    for port in node.ports:
        old_port = old_node.find_port(port.rail)
        for old, new in ((old_port.v4, port.v4), (old_port.v6, port.v6)) if old_port else ():
            if old and (new is None or (old.address, old.pods_first) != (new.address, new.pods_first)):
                new_text = "none" if new is None else _format_addresses(new.version, new.address, new.pods_first)
                old_text = _format_addresses(old.version, old.address, old.pods_first)
                return f"{node.name} rail {port.rail} from {old_text} to {new_text}"
    return None


def _format_addresses(ip_version: int, address: int, pods_first: int) -> str:
    pods = f" (pods from {format_address(ip_version, pods_first)})" if pods_first else ""
    return format_address(ip_version, address) + pods


def _format_problems(problems: Iterable[Problem]) -> str:
    listing = [
        f"{'.'.join(map(str, problem.path)) or 'Fabric'}: {problem.message} [{problem.code}]" for problem in problems
    ]
    surplus = [f"{len(listing) - _MAX_LISTED_PROBLEMS} more"] if len(listing) > _MAX_LISTED_PROBLEMS else []
    return "; ".join(listing[:_MAX_LISTED_PROBLEMS] + surplus)
