"""Conditions of objects, by the Kubernetes API conventions ("Typical status properties").

The transition time of a condition changes only with its status.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Status = Literal["True", "False", "Unknown"]


class Condition(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A condition of an object: a statement that is true, false or unknown."""

    type: str
    """Type of the condition, such as Prepared."""
    status: Status
    """Whether the statement is true."""
    reason: str = ""
    """Reason for the status, in one word (CamelCase)."""
    message: str = ""
    """Reason for the status in a sentence, with a remedy if something is wrong."""
    last_transition_time: str = ""
    """Time of the last change of `status` (RFC 3339)."""
    observed_generation: int = 0
    """Generation of the object that the condition describes."""


def find_condition(conditions: Iterable[Condition], condition_type: str) -> Condition:
    """Return the condition of a type; if there is none, a condition with status Unknown."""
    return next(
        (condition for condition in conditions if condition.type == condition_type),
        Condition(condition_type, "Unknown"),
    )


def put_condition(conditions: Sequence[Condition], new: Condition, now: str) -> tuple[Condition, ...]:
    """Return the conditions with `new` in place of the condition of the same type.

    The transition time of the old condition is kept if the status is unchanged, else it is set to `now`.
    """
    previous = find_condition(conditions, new.type)
    since = previous.last_transition_time if previous.status == new.status and previous.last_transition_time else now
    updated = msgspec.structs.replace(new, last_transition_time=since)
    return (*(condition for condition in conditions if condition.type != new.type), updated)
