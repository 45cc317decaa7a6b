"""Carries out the steps of a stack on a cluster: charts, objects, gates; then removes what is wanted no longer.

    step: chart     helm upgrade --install, given the values on its standard input
    step: objects   server-side apply, one after the other; what others own is left alone and told
    its gates       looked at until they hold, or until their time is over
    at the end      members of the set that no step named are deleted; never a namespace or a CRD, which hold others'

Each run does all of it again and changes only what differs, so one that broke off is mended by the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from trackbed.cluster.api.answer import Object
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError, RefusedError, UnknownKindError
from trackbed.cluster.rollout import applyset, gates
from trackbed.cluster.rollout.applyset import ApplySet, Place
from trackbed.cluster.rollout.farewell import SECONDS, farewell, is_agents
from trackbed.cluster.stacks.install.steps import Apply, Install, Labelled, Step
from trackbed.cluster.stacks.stack import Until

_CREATED, _CONFLICT = 201, 409
_POLL_SECONDS = 2.0
_SERVED_SECONDS = 30
_REST = 4
"""Pauses are at least so many times as long as the look before."""
_KEPT = frozenset({"Namespace", "CustomResourceDefinition"})


class StuckError(Exception):
    """A step did not come to its end; the message says what is missing and what to do."""


class OwnedError(StuckError):
    """Others own fields that are wanted."""


class UnservedError(StuckError):
    """The server does not serve a kind: its operator is missing."""


class ShutError(StuckError):
    """A gate stays shut."""

    def __init__(self, until: Until, gate: gates.Gate, seconds: int) -> None:
        self.until, self.gate = until, gate
        told = "".join(f"\n  {line}" for line in (*gate.missing, f"what to do: {gate.remedy}; then run this again"))
        super().__init__(f"{until.resource} did not get to {until.until} in {seconds} s:{told}")


@dataclass(frozen=True, slots=True)
class Change:
    """What became, or would become, of one object: created, changed, same, removed, conflict."""

    what: str
    outcome: str
    fields: tuple[str, ...] = ()
    """A line for each field that differs, where somebody looked."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How a roll-out goes about it."""

    manager: str
    """Field manager of server-side apply."""
    force: bool = False
    """Take over fields that others own."""
    wait_seconds: int | None = None
    """Wait so long for each gate, instead of the gate's own time."""
    install: Callable[[Install], None] | None = None
    """Installs a chart; None: charts are somebody else's doing."""
    joins: bool = True
    """What is applied becomes a member of the set; not what an undo puts back as it was."""

    def applied(self, of: ApplySet, one: Object) -> Object:
        """An object as it is applied: a member of the set, unless its kind is kept."""
        return of.member(one) if self.joins and not kept(one["kind"]) else one


@dataclass(slots=True)
class Rollout:
    """One run of a stack's steps on one cluster."""

    client: Client
    of: ApplySet
    manner: Manner
    tell: Callable[[str], None]
    """Hears what is done and what is waited for, a line each."""
    changes: list[Change] = field(default_factory=list)
    _kinds: set[str] = field(default_factory=set)
    _namespaces: set[str] = field(default_factory=set)
    wanted: set[Place] = field(default_factory=set)
    """What has been applied."""

    def carry_out(self, steps: Iterable[Step]) -> None:
        """Do all steps, then prune. Raises StuckError, KubeError."""
        self._kinds, self._namespaces = map(set, applyset.known(self.client, self.of))
        there = list(applyset.members(self.client, self.of))
        for step in steps:
            self._step(step)
            for wait in step.until:
                self.wait_for(wait)
        self._prune(there)
        kinds = {(f"{kind}.{group}" if group else kind) for group, kind, _, _ in self.wanted if not kept(kind)}
        self._say(kinds, {namespace for _, kind, namespace, _ in self.wanted if not kept(kind)})

    def remove(self) -> None:
        """Delete every member of the set, and what says that there is one. Raises KubeError."""
        self._prune(list(applyset.members(self.client, self.of)))
        self.client.delete(self.of.parent((), ()))

    def _step(self, step: Step) -> None:
        if isinstance(step, Install):
            if self.manner.install is not None:
                self.tell(f"chart {step.release} {step.version or ''}".rstrip())
                self.manner.install(step)
        elif isinstance(step, Labelled):
            self._labelled(step)
        else:
            self._apply(step)

    def _apply(self, step: Apply) -> None:
        self.tell(f"applying {step.what}")
        refused = [why for one in step.objects if (why := self._put(one))]
        if refused:
            told = "".join(f"\n  {why}" for why in refused)
            raise OwnedError(f"{step.what}: others own fields that are wanted here; --force takes them over:{told}")

    def _put(self, one: Object) -> str:
        """Apply one object; why not, where others own its fields."""
        self._served(one)
        self._note(one)
        version = self._version(one)
        try:
            answer = self.client.apply(
                self.manner.applied(self.of, one), manager=self.manner.manager, force=self.manner.force
            )
        except RefusedError as error:
            if error.status == _CONFLICT:
                return str(error)
            raise
        same = version == answer.body["metadata"]["resourceVersion"]
        outcome = "created" if answer.status == _CREATED else "same" if same else "changed"
        self.wanted.add(applyset.place(answer.body))
        self.changes.append(Change(called(answer.body), outcome))
        return ""

    def _served(self, one: Object) -> None:
        """Wait for an object's kind: for a moment after its CRD is established a server does not tell of it yet."""
        for _ in self._tries(_SERVED_SECONDS):
            try:
                self.client.resource(one["apiVersion"], one["kind"])
            except UnknownKindError as error:
                why = str(error)
                self.tell(why)
            else:
                return
        raise UnservedError(f"{called(one)}: {why}, or see why its operator does not; then run this again")

    def _version(self, one: Object) -> str | None:
        """Which version is there just before it is applied: controllers write into objects all the time."""
        metadata = one["metadata"]
        found = self.client.find(one["apiVersion"], one["kind"], metadata["name"], metadata.get("namespace"))
        return found["metadata"]["resourceVersion"] if found else None

    def _note(self, one: Object) -> None:
        """Have the parent name a kind and a namespace before there is a member of it there."""
        if kept(one["kind"]):
            return
        kind, namespace = applyset.group_kind(one), one["metadata"].get("namespace", "")
        if kind not in self._kinds or namespace not in {*self._namespaces, ""}:
            self._kinds.add(kind)
            self._namespaces.add(namespace)
            self._say(self._kinds, self._namespaces)

    def _say(self, kinds: Iterable[str], namespaces: Iterable[str]) -> None:
        self.client.apply(self.of.parent(kinds, namespaces), manager=self.manner.manager, force=True)

    def _labelled(self, step: Labelled) -> None:
        """Wait for all nodes of the fabric to have its label; go on with those that have it, if there are any."""
        count = 0
        for _ in self._tries(step.seconds):
            count = gates.labelled(self.client, step.label)
            if count >= step.nodes:
                return
            self.tell(f"{count} of {step.nodes} nodes have label {step.label}")
        if not count:
            raise StuckError(f"no node has label {step.label}: {gates.LABELLING}")
        self.tell(f"going on with {count} of {step.nodes} nodes: the others get the label once they are up")

    def wait_for(self, until: Until) -> None:
        """Wait for a gate. Raises StuckError with what is missing."""
        gate = gates.Gate(holds=False)
        for _ in self._tries(until.timeout_seconds):
            before, gate = gate, self._look(until)
            if gate.holds:
                return
            if gate.missing != before.missing:
                self.tell(f"waiting for {until.resource}: {'; '.join(gate.missing)}")
        raise ShutError(until, gate, self._seconds(until.timeout_seconds))

    def _look(self, until: Until) -> gates.Gate:
        try:
            return gates.look(self.client, until)
        except KubeError as error:
            return gates.Gate(holds=False, missing=(str(error),), remedy="see that the API server answers")

    def _tries(self, seconds: int) -> Iterator[None]:
        """A try every few seconds; fewer where each takes long, so that a large cluster is not kept busy by it."""
        deadline = time.monotonic() + self._seconds(seconds)
        while True:
            began = time.monotonic()
            yield
            now = time.monotonic()
            if now >= deadline:
                return
            time.sleep(min(max(_POLL_SECONDS, _REST * (now - began)), deadline - now))

    def _seconds(self, own: int) -> int:
        return own if self.manner.wait_seconds is None else self.manner.wait_seconds

    def _prune(self, there: Iterable[Object]) -> None:
        left = [one for one in there if applyset.place(one) not in self.wanted]
        for one in left:
            if is_agents(one):
                farewell(self.client, one["metadata"]["namespace"], self.tell, self._seconds(int(SECONDS)))
            self.client.delete(one)
            self.changes.append(Change(called(one), "removed"))


def kept(kind: str) -> bool:
    """Whether objects of this kind hold things of others, and so are never members and never removed."""
    return kind in _KEPT


def called(one: Object) -> str:
    """An object in words: its kind, name, and namespace."""
    metadata = one["metadata"]
    where = f" in {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{one['kind']} {metadata['name']}{where}"
