"""Whether a RailNode may be as it is: its fabric and slot stay once written, and no two nodes have one slot."""

from __future__ import annotations

from trackbed.cluster.jobs.template import look
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.known import Known
from trackbed.cluster.webhook.review import ReviewRequest, Verdict

_FIXED = ("fabric", "slot")


def decide(request: ReviewRequest, known: Known) -> Verdict:
    """Whether a new or changed RailNode may be so. Raises ReviewError where the review has none."""
    spec, before = (look(review.mapping(raw), "spec") for raw in (request.object, request.old_object))
    for name in _FIXED:
        if before.get(name) is not None and spec.get(name) != before[name]:
            told = f"spec.{name} of RailNode {request.name} stays {before[name]!r}: every address of the node follows"
            return Verdict(refusal=f"{told} from it; delete the RailNode and make it anew to renumber the node")
    fabric, slot = (spec.get(name) for name in _FIXED)
    for node, taken in known.slots.get(str(fabric), {}).items():
        if taken == slot and node != request.name:
            return Verdict(refusal=f"slot {slot} of Fabric {fabric} is node {node}'s; a slot belongs to one node")
    return Verdict()
