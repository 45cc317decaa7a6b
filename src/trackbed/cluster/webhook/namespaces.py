"""Review of namespaces: a namespace that requests rails gets the label that makes the API server review all its pods.

The admission policies of stack native set the same label. It is kept when the annotation is removed: pods without a
request are then reviewed and admitted unchanged.
"""

from collections.abc import Mapping

from trackbed.cluster.jobs.template import ensure_mapping
from trackbed.cluster.stacks.native.annotation import LABEL, LABEL_VALUE
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
    """Return the verdict on a new or changed namespace. Raises ReviewError if the request contains no namespace."""
    body = review.decode_object(request.object)
    annotations = parse_namespace(body).annotations
    old_annotations = parse_namespace(review.decode_object(request.old_object)).annotations
    if not _requests_rails(annotations, state):
        return Verdict()
    if annotations != old_annotations and (error := _find_error(annotations, state)):
        return Verdict(refusal=error)
    ensure_mapping(body, "metadata", "labels")[LABEL] = LABEL_VALUE
    return Verdict(tuple(build_patch(review.decode_object(request.object), body)))


def _requests_rails(annotations: Mapping[str, str], state: ClusterState) -> bool:
    names = state.fabric_names
    return ANNOTATION in annotations or SPIDERPOOL in annotations or annotations.get(SPIDERPOOL_NETWORK) in names


def _find_error(annotations: Mapping[str, str], state: ClusterState) -> str | None:
    """Return the error in a namespace's annotations; None if there is none, or no Fabric exists yet."""
    if not state.fabrics:
        return None
    try:
        request = find_request({}, annotations, state.fabric_names)
        if request is not None and request.fabric in state.fabrics:
            parse_rails(request.rails, state.fabrics[request.fabric].plan)
    except RailRequestError as error:
        return str(error)
    return None
