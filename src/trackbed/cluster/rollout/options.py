"""Options of a run of a stack, the change of each object, and the errors that end a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.gates import Gate
from trackbed.cluster.stacks.install.steps import Install
from trackbed.cluster.stacks.stack import Until

_SHARED = frozenset({"Namespace", "CustomResourceDefinition"})


class StuckError(Exception):
    """A step did not finish; the message names the missing objects and a remedy."""


class OwnedError(StuckError):
    """Other field managers own fields that the stack needs."""


class UnservedError(StuckError):
    """The server does not serve a kind: its operator is missing."""


class ShutError(StuckError):
    """A gate did not open in time."""

    def __init__(self, until: Until, gate: Gate, seconds: int) -> None:
        self.until, self.gate = until, gate
        lines = "".join(f"\n  {line}" for line in (*gate.missing, f"what to do: {gate.remedy}; then run this again"))
        super().__init__(f"{until.resource} did not get to {until.until} in {seconds} s:{lines}")


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The outcome for one object: created, changed, same, removed, conflict."""

    what: str
    outcome: str
    fields: tuple[str, ...] = ()
    """A line for each field that differs; empty in a run, which does not compare fields."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a run applies objects, waits and installs charts."""

    manager: str
    """Field manager of server-side apply."""
    force: bool = False
    """Take over fields that others own."""
    wait_seconds: int | None = None
    """Wait so long for each gate, instead of the gate's own time."""
    install: Callable[[Install], Awaitable[None]] | None = None
    """Installs a chart; None leaves charts out."""
    joins: bool = True
    """Applied objects become members of the set; an undo restores objects as they were, members or not."""

    def label(self, applyset: ApplySet, body: Object) -> Object:
        """Return an object as it is applied: a member of the set, unless its kind is shared."""
        return applyset.label(body) if self.joins and not is_shared(body["kind"]) else body

    def limit(self, seconds: int) -> int:
        """Return how long to wait for a gate whose own time is `seconds`."""
        return seconds if self.wait_seconds is None else self.wait_seconds


def is_shared(kind: str) -> bool:
    """Return whether objects of a kind hold objects of others: they are never members and never removed."""
    return kind in _SHARED


def name_object(body: Object) -> str:
    """Return an object's kind, name and namespace as text."""
    metadata = body["metadata"]
    where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{body['kind']} {metadata['name']}{where}"
