"""Options of a run, the outcome for each object, and the errors that end a run."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Self

from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout.applyset import ApplySet
from trackbed.cluster.rollout.gates import Gate
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart
from trackbed.cluster.stacks.stack import AnyWait

REFUSED = "refused"
"""Outcome for an object of another ApplySet."""
_SHARED_KINDS = frozenset({"Namespace", "CustomResourceDefinition"})


class StuckError(Exception):
    """A step cannot finish; the message names the missing objects and a remedy."""


class FieldConflictError(StuckError):
    """Other field managers own fields that the stack needs."""


class ForeignMemberError(FieldConflictError):
    """Objects of the stack belong to another ApplySet; they are left alone, also with --force."""


class KindMissingError(StuckError):
    """The server does not serve a kind: its operator is not installed."""


class GateTimeoutError(StuckError):
    """A gate did not open in time."""

    def __init__(self, until: AnyWait, gate: Gate, seconds: int) -> None:
        self.until, self.gate = until, gate
        lines = "".join(f"\n  {line}" for line in (*gate.missing, f"what to do: {gate.remedy}; then run this again"))
        super().__init__(f"{until.resource} did not get to {until.condition} in {seconds} s:{lines}")


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The outcome for one object or chart: created, changed, same, removed, conflict, refused."""

    what: str
    outcome: str
    fields: tuple[str, ...] = ()
    """A line for each field that differs; only a preview compares fields."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run: how it applies objects, waits for gates and installs charts."""

    manager: str
    """Field manager of server-side apply."""
    force: bool = False
    """Whether to take over fields of other managers."""
    wait_seconds: int | None = None
    """Time limit of each gate; None means the gate's own limit."""
    install: Callable[[InstallChart], Awaitable[None]] | None = None
    """Function that installs a chart; charts are skipped if it is None."""
    adds_label: bool = True
    """Whether applied objects become members of the set. An undo restores each object with or without the label."""

    def add_label(self, applyset: ApplySet, body: Object) -> Object:
        """Return the object to apply: with the label of the set, unless its kind is shared or `adds_label` is false."""
        return applyset.add_label(body) if self.adds_label and not is_shared_kind(body["kind"]) else body

    def adapt_to_step(self, step: ApplyFile) -> Self:
        """Return the options for the objects of a step.

        A step with `force` has objects that the platform creates: their fields are taken over, and they become no
        members of the set, so that they are never deleted.
        """
        return replace(self, force=True, adds_label=False) if step.force else self

    def get_timeout(self, default_seconds: int) -> int:
        """Return the time limit in seconds of a gate whose own limit is `default_seconds`."""
        return default_seconds if self.wait_seconds is None else self.wait_seconds


def is_shared_kind(kind: str) -> bool:
    """Return whether objects of a kind are shared with other software, and so are never members and never deleted."""
    return kind in _SHARED_KINDS


def format_object_name(body: Object) -> str:
    """Return an object's kind, name and namespace as text: `Pod x in y`."""
    metadata = body["metadata"]
    where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{body['kind']} {metadata['name']}{where}"
