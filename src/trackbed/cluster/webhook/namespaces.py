"""Review of namespaces: one that requests rails gets the label that selects all its pods for review.

It is the label of the policies of stack native, so either may set it. It is kept when the annotation is removed: pods
without a request are then reviewed and left alone.
"""

from collections.abc import Mapping

from trackbed.cluster.jobs.template import mapping
from trackbed.cluster.stacks.native.annotation import LABEL, LABELLED
from trackbed.cluster.stacks.native.choice import ANNOTATION
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.cluster_state import ClusterState, parse_namespace
from trackbed.cluster.webhook.patch import build_patch
from trackbed.cluster.webhook.rail_requests import (
    SPIDERPOOL,
    SPIDERPOOL_NETWORK,
    RailRequestError,
    find_request,
    parse_rails,
)
from trackbed.cluster.webhook.review import ReviewRequest, Verdict


def decide(request: ReviewRequest, state: ClusterState) -> Verdict:
    """Return the verdict on a namespace. Raises ReviewError where the review contains none."""
    body = review.decode_object(request.object)
    annotations = parse_namespace(body).annotations
    old_annotations = parse_namespace(review.decode_object(request.old_object)).annotations
    if not _requests_rails(annotations, state):
        return Verdict()
    if annotations != old_annotations and (error := _find_error(annotations, state)):
        return Verdict(refusal=error)
    mapping(body, "metadata", "labels")[LABEL] = LABELLED
    return Verdict(tuple(build_patch(review.decode_object(request.object), body)))


def _requests_rails(annotations: Mapping[str, str], state: ClusterState) -> bool:
    fabrics = {*state.fabrics, *state.broken}
    return ANNOTATION in annotations or SPIDERPOOL in annotations or annotations.get(SPIDERPOOL_NETWORK) in fabrics


def _find_error(annotations: Mapping[str, str], state: ClusterState) -> str | None:
    """Return the error in the annotations; a namespace may be created before its Fabric."""
    if not state.fabrics:
        return None
    try:
        request = find_request({}, annotations, {*state.fabrics, *state.broken})
        if request is not None and request.fabric in state.fabrics:
            parse_rails(request.rails, state.fabrics[request.fabric].plan)
    except RailRequestError as error:
        return str(error)
    return None
