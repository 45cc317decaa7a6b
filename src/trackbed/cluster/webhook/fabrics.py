"""Whether a Fabric may be as it is: all that `trackbed plan` checks, against this very cluster, and nobody renumbered.

A node is in use when there is a RailNode of it. Its addresses must stay, unless the Fabric says trackbed.dev/renumber:
"yes": jobs on it would lose their connections, and so would every peer that wrote them down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trackbed.cluster.stacks import MODULES
from trackbed.cluster.stacks import stack as stack_of
from trackbed.cluster.stacks.refusals import refusals
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.known import Known, Planned, Ranges
from trackbed.cluster.webhook.review import ReviewRequest, Verdict
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import build_fabric_from_resource
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan

RENUMBER = "trackbed.dev/renumber"
"""Annotation of a Fabric whose nodes in use may be renumbered: "yes"."""
_LISTED = 8
_OWN = "stack"


def decide(request: ReviewRequest, known: Known) -> Verdict:
    """Whether a new or changed Fabric may be so. Raises ReviewError where the review has none."""
    one, before = (review.mapping(raw) for raw in (request.object, request.old_object))
    name = str(_metadata(one).get("name"))
    slots = known.slots.get(name, {})
    try:
        planned = prepared(one, slots, known.ranges)
    except SpecError as error:
        return Verdict(refusal=_told(error.problems))
    others = [of for other, of in known.fabrics.items() if other != name]
    wrong = [*_collisions(planned, others), *_renumbered(planned.plan, _before(before, slots), slots)]
    may = (_metadata(one).get("annotations") or {}).get(RENUMBER) == "yes"
    if errors := [problem for problem in wrong if not (may and problem.code == "renumbers")]:
        return Verdict(refusal=_told(errors))
    warnings = [problem.message for problem in planned.plan.warnings]
    return Verdict(
        warnings=tuple(warnings + ([f"annotation {RENUMBER} is on: take it away afterwards"] if may else []))
    )


def prepared(one: Mapping[str, Any], slots: Mapping[str, int], ranges: Ranges) -> Planned:
    """A Fabric object as pods may ask for it. Raises SpecError with all that is wrong, places not filled in."""
    fabric, name = _modelled(one)
    planned = compute_plan(_beside(fabric, ranges), slots)
    if name not in MODULES:
        message = f"no stack is called {name!r}; there are {', '.join(MODULES)}"
        raise SpecError([Problem("stack-unknown", message, ("spec", "kubernetes", _OWN))])
    stack = stack_of(name)
    if problems := list(refusals(stack, planned)):
        raise SpecError(problems)
    return Planned(stack, planned)


def _modelled(one: Mapping[str, Any]) -> tuple[Fabric, str]:
    """The Fabric and the name of its stack."""
    fabric = build_fabric_from_resource(one)
    return fabric, fabric.spec.kubernetes.stack


def _beside(fabric: Fabric, ranges: Ranges) -> Fabric:
    """The Fabric with the cluster's own ranges among those that it must not collide with."""
    told = fabric.spec.other_ranges
    more = {
        field: (*getattr(told, field), *(one for one in getattr(ranges, field) if one not in getattr(told, field)))
        for field in ("services", "pods", "nodes")
    }
    spec = fabric.spec.model_copy(update={"other_ranges": told.model_copy(update=more)})
    return fabric.model_copy(update={"spec": spec})


def _collisions(planned: Planned, others: Iterable[Planned]) -> Iterator[Problem]:
    """Names that another Fabric has for other rails: pods would get the wrong ones, or objects be overwritten."""
    networks = {(one.namespace, one.name) for one in planned.whole.networks}
    resources = {name for name, _ in planned.whole.resources}
    for other in others:
        name = other.plan.common.fabric
        if shared := sorted(networks & {(one.namespace, one.name) for one in other.whole.networks}):
            message = f"Fabric {name} has network {'/'.join(shared[0])} too; write other names.network"
            yield Problem("fabrics-share-network", message, ("spec", "names", "network"))
        if shared_names := sorted(resources & {one for one, _ in other.whole.resources}):
            message = f"Fabric {name} has resource {shared_names[0]} too; write other names.resource"
            yield Problem("fabrics-share-resource", message, ("spec", "names", "resource"))


def _before(one: Mapping[str, Any], slots: Mapping[str, int]) -> Plan | None:
    """The plan of the Fabric as it was; None where there was none, or none could be made of it."""
    if not one:
        return None
    try:
        return compute_plan(_modelled(one)[0], slots)
    except SpecError:
        return None


def _renumbered(after: Plan, before: Plan | None, slots: Mapping[str, int]) -> Iterator[Problem]:
    """Nodes in use whose addresses would be others, the first few by name."""
    if before is None:
        return
    was = {node.name: node for node in before.nodes if node.name in slots}
    moved = [told for node in after.nodes if node.name in was for told in [_moved(was[node.name], node)] if told]
    if moved:
        more = f", and {len(moved) - 1} more nodes" if len(moved) > 1 else ""
        message = f"this renumbers nodes in use: {moved[0]}{more}; if you mean it, annotate the Fabric {RENUMBER}: yes"
        yield Problem("renumbers", message, ("spec", "addressing"))


def _moved(before: NodePlan, after: NodePlan) -> str | None:
    """How a node's first address that changes does so; addresses that its pods hold count too."""
    for port in after.ports:
        old = before.find_port(port.rail)
        for one, other in ((old.v4, port.v4), (old.v6, port.v6)) if old else ():
            if one and (other is None or (one.address, one.pods_first) != (other.address, other.pods_first)):
                now = "none" if other is None else _address(other.version, other.address, other.pods_first)
                first = _address(one.version, one.address, one.pods_first)
                return f"{after.name} rail {port.rail} from {first} to {now}"
    return None


def _address(version: int, address: int, pods_first: int) -> str:
    return format_address(version, address) + (
        f" (pods from {format_address(version, pods_first)})" if pods_first else ""
    )


def _told(problems: Iterable[Problem]) -> str:
    listed = [f"{'.'.join(map(str, one.path)) or 'Fabric'}: {one.message} [{one.code}]" for one in problems]
    more = [f"{len(listed) - _LISTED} more"] if len(listed) > _LISTED else []
    return "; ".join(listed[:_LISTED] + more)


def _metadata(one: Mapping[str, Any]) -> Mapping[str, Any]:
    found = one.get("metadata")
    return found if isinstance(found, dict) else {}
