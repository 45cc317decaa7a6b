"""Review of RailNodes: fabric and slot are immutable, and no two nodes share a slot."""

from trackbed.cluster.jobs.template import look
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.cluster_state import ClusterState
from trackbed.cluster.webhook.review import ReviewRequest, Verdict

_IMMUTABLE = ("fabric", "slot")


def decide(request: ReviewRequest, state: ClusterState) -> Verdict:
    """Return the verdict on a RailNode. Raises ReviewError where the review contains none."""
    spec, old_spec = (look(review.decode_object(raw), "spec") for raw in (request.object, request.old_object))
    for name in _IMMUTABLE:
        if old_spec.get(name) is not None and spec.get(name) != old_spec[name]:
            return Verdict(
                refusal=f"spec.{name} of RailNode {request.name} stays {old_spec[name]!r}: every address of the node "
                "follows from it; delete the RailNode and make it anew to renumber the node"
            )
    fabric, slot = (spec.get(name) for name in _IMMUTABLE)
    for node, node_slot in state.slots.get(str(fabric), {}).items():
        if node_slot == slot and node != request.name:
            return Verdict(refusal=f"slot {slot} of Fabric {fabric} is node {node}'s; a slot belongs to one node")
    return Verdict()
