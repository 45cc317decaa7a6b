"""Conditions of objects, by the Kubernetes API conventions ("Typical status properties").

A condition's time changes with its status alone, so that it tells since when something is so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Status = Literal["True", "False", "Unknown"]


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One statement about an object."""

    type: str
    """What is stated: Prepared."""
    status: Status
    """Whether it is so."""
    reason: str = ""
    """Why, in one word for machines and narrow tables."""
    message: str = ""
    """Why, for people; what to do where something is wrong."""
    last_transition_time: str = ""
    """Since when `status` is what it is (RFC 3339)."""
    observed_generation: int = 0
    """The generation of the object that this is about."""


def find(conditions: Iterable[Condition], kind: str) -> Condition:
    """A condition by its type; one of status Unknown where there is none."""
    return next((one for one in conditions if one.type == kind), Condition(kind, "Unknown"))


def put(conditions: Sequence[Condition], new: Condition, now: str) -> tuple[Condition, ...]:
    """The conditions with `new` in the place of the one of its type; its time stays where its status does."""
    old = find(conditions, new.type)
    since = old.last_transition_time if old.status == new.status and old.last_transition_time else now
    fresh = msgspec.structs.replace(new, last_transition_time=since)
    return (*(one for one in conditions if one.type != new.type), fresh)
