"""What a pod asks for, by its own annotations or by its namespace's: which rails, and of which Fabric.

    trackbed.dev/rails                            all | 3 | 0,2,4 | none, as stack native's admission policies have it
    trackbed.dev/fabric                           the Fabric, where there are several
    cni.spidernet.io/rdma-resource-inject         sites that come from Spiderpool: all rails of the Fabric of that name,
                                                  else of the one that trackbed.dev/fabric names, or of the only one
    cni.spidernet.io/network-resource-inject      the same, only where a Fabric has that name: other groups are no rails

The pod's own word comes before its namespace's, and ours before Spiderpool's. A value may be hostile: its length is
looked at first, and only short, plain text of it is repeated.
"""

from __future__ import annotations

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
"""Annotation of pod or namespace; nodes have a label of the same name."""
SPIDERPOOL = "cni.spidernet.io/rdma-resource-inject"
SPIDERPOOL_NETWORK = "cni.spidernet.io/network-resource-inject"
ASKING = (ANNOTATION, SPIDERPOOL, SPIDERPOOL_NETWORK)
"""Annotations by which a pod or a namespace asks for rails."""

_COUNT = re.compile(r"[1-9][0-9]?")
_LIST = re.compile(r"(0|[1-9][0-9]?)(,(0|[1-9][0-9]?))+")
_SHOWN = re.compile(rf"[ -~]{{0,{LONGEST_SHOWN}}}")


class AskError(ValueError):
    """An annotation that nothing can be made of; the message says what may stand there."""


class Ask(msgspec.Struct, frozen=True):
    """One pod's wish: the rails as text, whose word it is, and the Fabric where one was named."""

    rails: str
    own: bool
    """Whether the pod itself says so, else its namespace."""
    annotation: str
    fabric: str
    warning: str | None = None


def asked(pod: Mapping[str, Any], namespace: Mapping[str, Any], fabrics: Collection[str]) -> Ask | None:
    """What annotations ask for, those of a pod and of its namespace; None if for nothing. Raises AskError.

    `fabrics` are the names of all Fabrics of the cluster.
    """
    for held, own in ((pod, True), (namespace, False)):
        for name in ASKING:
            if name in held and (name != SPIDERPOOL_NETWORK or held[name] in fabrics):
                return _ask(name, str(held[name]), own=own, named=_named(pod, namespace), fabrics=fabrics)
    return None


def rails(text: str, plan: Plan) -> tuple[int, ...]:
    """The rails that a value of trackbed.dev/rails names, in rail order. Raises AskError."""
    count = len(plan.common.rails)
    if text == NONE:
        return ()
    if text == ALL:
        return tuple(range(count))
    if len(text) <= 3 * count and _COUNT.fullmatch(text) and int(text) <= count:
        return tuple(range(int(text)))
    if len(text) <= 3 * count and _LIST.fullmatch(text):
        found = sorted(map(int, text.split(",")))
        if found[-1] < count and len(set(found)) == len(found):
            return tuple(found)
    raise AskError(f"annotation {ANNOTATION} is {shown(text)}{allowed(plan)}")


def shown(text: str) -> str:
    """A value for a message."""
    return json.dumps(text) if _SHOWN.fullmatch(text) else "too long or no plain text"


def _named(pod: Mapping[str, Any], namespace: Mapping[str, Any]) -> str | None:
    found = pod.get(FABRIC, namespace.get(FABRIC))
    return None if found is None else str(found)


def _ask(name: str, value: str, *, own: bool, named: str | None, fabrics: Collection[str]) -> Ask:
    if name == ANNOTATION:
        return Ask(value, own, name, "" if value == NONE else _fabric(named, fabrics))
    if value in fabrics:
        return Ask(ALL, own, name, value)
    fabric = _fabric(named, fabrics)
    return Ask(ALL, own, name, fabric, f"no Fabric is called {shown(value)} as {name} says; took {fabric}")


def _fabric(named: str | None, fabrics: Collection[str]) -> str:
    there = f"this cluster has {', '.join(sorted(fabrics)[:_LISTED])}" if fabrics else "this cluster has no Fabric"
    if named is not None:
        if named not in fabrics:
            raise AskError(f"annotation {FABRIC} is {shown(named)}; {there}")
        return named
    if len(fabrics) != 1:
        remedy = f"; say which in annotation {FABRIC} of pod or namespace" if fabrics else ", so there are no rails"
        raise AskError(f"rails are asked for, and {there}{remedy}")
    return next(iter(fabrics))


_LISTED = 8
"""Fabrics that a message names at most."""
