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
from trackbed.cluster.stacks.native.choice import ANNOTATION, LONGEST_SHOWN, NONE, allowed
from trackbed.fabric.plan.plan import Plan

ALL = "all"
FABRIC = FABRIC_LABEL
"""Annotation of a pod or namespace; nodes have a label of the same name."""
SPIDERPOOL = "cni.spidernet.io/rdma-resource-inject"
SPIDERPOOL_NETWORK = "cni.spidernet.io/network-resource-inject"
REQUEST_ANNOTATIONS = (ANNOTATION, SPIDERPOOL, SPIDERPOOL_NETWORK)
"""Annotations of a pod or namespace that request rails."""

_LONGEST_LIST = 8
"""Fabrics that a message lists at most."""
_COUNT = re.compile(r"[1-9][0-9]?")
_LIST = re.compile(r"(0|[1-9][0-9]?)(,(0|[1-9][0-9]?))+")
_SHOWN = re.compile(rf"[ -~]{{0,{LONGEST_SHOWN}}}")


class RailRequestError(ValueError):
    """An invalid annotation; the message lists the valid values."""


class PodRailRequest(msgspec.Struct, frozen=True):
    """A pod's request: the rails as text, the annotation, and the Fabric; no Fabric for `none`."""

    rails: str
    by_pod: bool
    """Whether the pod has the annotation, rather than its namespace."""
    annotation: str
    fabric: str
    warning: str | None = None


def find_request(
    pod: Mapping[str, Any], namespace: Mapping[str, Any], fabrics: Collection[str]
) -> PodRailRequest | None:
    """Return the request in annotations of a pod and its namespace; None if there is none. Raises RailRequestError.

    `fabrics` are the names of all Fabrics of the cluster.
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
    """Return the rails in a value of trackbed.dev/rails, in rail order. Raises RailRequestError."""
    count = len(plan.common.rails)
    if text == NONE:
        return ()
    if text == ALL:
        return tuple(range(count))
    if len(text) <= 3 * count and _COUNT.fullmatch(text) and int(text) <= count:
        return tuple(range(int(text)))
    if len(text) <= 3 * count and _LIST.fullmatch(text):
        rails = sorted(map(int, text.split(",")))
        if rails[-1] < count and len(set(rails)) == len(rails):
            return tuple(rails)
    raise RailRequestError(f"annotation {ANNOTATION} is {quote_value(text)}{allowed(plan)}")


def quote_value(text: str) -> str:
    """Return an annotation's value for a message."""
    return json.dumps(text) if _SHOWN.fullmatch(text) else "too long or no plain text"


def _parse_request(
    annotation: str, value: str, *, by_pod: bool, fabric_name: str | None, fabrics: Collection[str]
) -> PodRailRequest:
    if annotation == ANNOTATION:
        return PodRailRequest(value, by_pod, annotation, "" if value == NONE else _select_fabric(fabric_name, fabrics))
    if value in fabrics:
        return PodRailRequest(ALL, by_pod, annotation, value)
    fabric = _select_fabric(fabric_name, fabrics)
    warning = f"no Fabric is called {quote_value(value)} as {annotation} says; took {fabric}"
    return PodRailRequest(ALL, by_pod, annotation, fabric, warning)


def _select_fabric(name: str | None, fabrics: Collection[str]) -> str:
    """Return the named Fabric, or the only one. Raises RailRequestError."""
    listing = (
        f"this cluster has {', '.join(sorted(fabrics)[:_LONGEST_LIST])}" if fabrics else "this cluster has no Fabric"
    )
    if name is not None:
        if name not in fabrics:
            raise RailRequestError(f"annotation {FABRIC} is {quote_value(name)}; {listing}")
        return name
    if len(fabrics) != 1:
        remedy = f"; say which in annotation {FABRIC} of pod or namespace" if fabrics else ", so there are no rails"
        raise RailRequestError(f"rails are asked for, and {listing}{remedy}")
    return next(iter(fabrics))
