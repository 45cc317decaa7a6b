"""A namespace that asks for rails for its pods gets the label by which the API server sends us all of them.

The label is that of stack native's policies, so either of both may set it. It stays when the annotation goes: pods
without a wish are then reviewed and left alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from trackbed.cluster.jobs.template import mapping
from trackbed.cluster.stacks.native.annotation import LABEL, LABELLED
from trackbed.cluster.stacks.native.choice import ANNOTATION
from trackbed.cluster.webhook import review
from trackbed.cluster.webhook.asked import SPIDERPOOL, SPIDERPOOL_NETWORK, AskError, asked, rails
from trackbed.cluster.webhook.known import Known, namespace_of
from trackbed.cluster.webhook.patch import difference
from trackbed.cluster.webhook.review import ReviewRequest, Verdict


def decide(request: ReviewRequest, known: Known) -> Verdict:
    """What becomes of a namespace. Raises ReviewError where the review has none."""
    one = review.mapping(request.object)
    held = namespace_of(one)
    before = namespace_of(review.mapping(request.old_object)).annotations
    if not _asks(held.annotations, known):
        return Verdict()
    if held.annotations != before and (told := _wrong(held.annotations, known)):
        return Verdict(refusal=told)
    mapping(one, "metadata", "labels")[LABEL] = LABELLED
    return Verdict(tuple(difference(review.mapping(request.object), one)))


def _asks(annotations: Mapping[str, str], known: Known) -> bool:
    fabrics = {*known.fabrics, *known.broken}
    return ANNOTATION in annotations or SPIDERPOOL in annotations or annotations.get(SPIDERPOOL_NETWORK) in fabrics


def _wrong(annotations: Mapping[str, str], known: Known) -> str | None:
    """What is wrong with the annotations; a namespace may be there before its Fabric is."""
    if not known.fabrics:
        return None
    try:
        ask = asked({}, annotations, {*known.fabrics, *known.broken})
        if ask is not None and ask.fabric in known.fabrics:
            rails(ask.rails, known.fabrics[ask.fabric].plan)
    except AskError as error:
        return str(error)
    return None
