"""Requests for rails by annotations of a pod or its namespace: the rails, and the Fabric.

    trackbed.dev/rails                            all | 3 | 0,2,4 | none, as in the admission policies of stack native
    trackbed.dev/fabric                           the Fabric, where there are several
    cni.spidernet.io/rdma-resource-inject         for sites that used Spiderpool: all rails of the Fabric of that name,
                                                  else of the Fabric in trackbed.dev/fabric, or of the only Fabric
    cni.spidernet.io/network-resource-inject      the same, only where a Fabric has that name; other groups are ignored

The pod's annotations take precedence over its namespace's, and ours over Spiderpool's. Values are untrusted: their
length is checked first, and messages repeat only short, plain text.
"""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from trackbed.cluster.stacks.groups import FABRIC_LABEL
from trackbed.cluster.stacks.native.choice import ANNOTATION, MAX_QUOTED_CHARACTERS, NO_RAILS, describe_valid_values
from trackbed.fabric.plan.plan import Plan

ALL = "all"
FABRIC = FABRIC_LABEL
"""Annotation of a pod or namespace with the name of a Fabric; nodes have a label of the same name."""
SPIDERPOOL = "cni.spidernet.io/rdma-resource-inject"
SPIDERPOOL_NETWORK = "cni.spidernet.io/network-resource-inject"
REQUEST_ANNOTATIONS = (ANNOTATION, SPIDERPOOL, SPIDERPOOL_NETWORK)
"""Annotations of a pod or namespace that request rails."""

_MAX_LISTED_FABRICS = 8
"""Largest number of Fabrics in a message."""
_COUNT = re.compile(r"[1-9][0-9]?")
_LIST = re.compile(r"(0|[1-9][0-9]?)(,(0|[1-9][0-9]?))+")
_SHOWN = re.compile(rf"[ -~]{{0,{MAX_QUOTED_CHARACTERS}}}")


class RailRequestError(ValueError):
    """A request for rails is invalid or cannot be met; the message says what to write instead."""


class PodRailRequest(msgspec.Struct, frozen=True):
    """A pod's request for rails; `fabric` is empty if the request is `none`."""

    rails: str
    """Value of trackbed.dev/rails, not parsed yet."""
    by_pod: bool
    """Whether the annotation is the pod's own, not its namespace's."""
    annotation: str
    """Name of the annotation that requests the rails."""
    fabric: str
    warning: str | None = None


def find_request(
    pod: Mapping[str, Any], namespace: Mapping[str, Any], fabrics: Collection[str]
) -> PodRailRequest | None:
    """Return the request for rails in the annotations `pod` or `namespace`; None if there is none.

    `fabrics` are the names of all Fabrics in the cluster. Raises RailRequestError.
    """
    for annotations, by_pod in ((pod, True), (namespace, False)):
        for name in REQUEST_ANNOTATIONS:
            if name in annotations and (name != SPIDERPOOL_NETWORK or annotations[name] in fabrics):
                fabric = pod.get(FABRIC, namespace.get(FABRIC))
                fabric_name = None if fabric is None else str(fabric)
                return _parse_request(
                    name, str(annotations[name]), by_pod=by_pod, fabric_name=fabric_name, fabrics=fabrics
                )
    return None


def parse_rails(text: str, plan: Plan) -> tuple[int, ...]:
    """Return the rails in a value of annotation trackbed.dev/rails, sorted. Raises RailRequestError."""
    count = len(plan.common.rails)
    if text == NO_RAILS:
        return ()
    if text == ALL:
        return tuple(range(count))
    if len(text) <= 3 * count and _COUNT.fullmatch(text) and int(text) <= count:
        return tuple(range(int(text)))
    if len(text) <= 3 * count and _LIST.fullmatch(text):
        rails = sorted(map(int, text.split(",")))
        if rails[-1] < count and len(set(rails)) == len(rails):
            return tuple(rails)
    raise RailRequestError(f"annotation {ANNOTATION} is {quote_value(text)}{describe_valid_values(plan)}")


def quote_value(text: str) -> str:
    """Return an annotation's value in quotes for a message; a description if it is long or not printable ASCII."""
    return json.dumps(text) if _SHOWN.fullmatch(text) else "too long or no plain text"


def _parse_request(
    annotation: str, value: str, *, by_pod: bool, fabric_name: str | None, fabrics: Collection[str]
) -> PodRailRequest:
    if annotation == ANNOTATION:
        return PodRailRequest(
            value, by_pod, annotation, "" if value == NO_RAILS else _select_fabric(fabric_name, fabrics)
        )
    if value in fabrics:
        return PodRailRequest(ALL, by_pod, annotation, value)
    fabric = _select_fabric(fabric_name, fabrics)
    warning = f"no Fabric is called {quote_value(value)} as {annotation} says; took {fabric}"
    return PodRailRequest(ALL, by_pod, annotation, fabric, warning)


def _select_fabric(name: str | None, fabrics: Collection[str]) -> str:
    """Return the name of the requested Fabric; if `name` is None, of the only Fabric. Raises RailRequestError."""
    listing = (
        f"this cluster has {', '.join(sorted(fabrics)[:_MAX_LISTED_FABRICS])}"
        if fabrics
        else "this cluster has no Fabric"
    )
    if name is not None:
        if name not in fabrics:
            raise RailRequestError(f"annotation {FABRIC} is {quote_value(name)}; {listing}")
        return name
    if len(fabrics) != 1:
        remedy = f"; say which in annotation {FABRIC} of pod or namespace" if fabrics else ", so there are no rails"
        raise RailRequestError(f"rails are asked for, and {listing}{remedy}")
    return next(iter(fabrics))
