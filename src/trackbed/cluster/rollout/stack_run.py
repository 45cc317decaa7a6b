"""Applies the steps of a stack to a cluster: charts, objects, gates; then removes objects that no step names.

    step: chart     helm upgrade --install, with the values on its standard input
    step: objects   server-side apply, one after the other; fields of others are left alone and reported
    its gates       checked until they hold, or until their time is over
    at the end      members of the set that no step named are deleted; never a namespace or a CRD

Each run does all of it again and changes only what differs, so an interrupted run is completed by the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar, cast

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError, UnknownKindError
from trackbed.cluster.api.response import Object
from trackbed.cluster.rollout import gates
from trackbed.cluster.rollout.agent_removal import SECONDS, is_agent_daemon_set, remove_agents
from trackbed.cluster.rollout.applyset import ApplySet, ObjectKey, find_live, list_members, locate, read_scope
from trackbed.cluster.rollout.options import (
    ObjectChange,
    OwnedError,
    RunOptions,
    ShutError,
    StuckError,
    UnservedError,
    is_shared,
    name_object,
)
from trackbed.cluster.stacks.install.steps import Apply, Install, Labelled, Step
from trackbed.cluster.stacks.stack import Until

_T = TypeVar("_T")
_END = object()
_POLL_SECONDS = 2.0
_SERVED_SECONDS = 30
_REST_FACTOR = 4
"""Shortest ratio of the pause after a check to its duration."""


@dataclass(slots=True)
class StackRun:
    """One run of a stack's steps on one cluster."""

    client: DynamicClient
    applyset: ApplySet
    options: RunOptions
    report: Callable[[str], None]
    """Called with a line for each action and each wait."""
    changes: list[ObjectChange] = field(default_factory=list)
    _kinds: set[str] = field(default_factory=set)
    _namespaces: set[str] = field(default_factory=set)
    applied: set[ObjectKey] = field(default_factory=set)

    async def apply_steps(self, steps: Iterable[Step]) -> None:
        """Apply all steps, then prune. Raises StuckError, KubeError."""
        self._kinds, self._namespaces = map(set, await read_scope(self.client, self.applyset))
        before = [member async for member in list_members(self.client, self.applyset)]
        for step in steps:
            await self._apply_step(step)
            for until in step.until:
                await self.wait_for(until)
        await self._prune(before)
        kept = [key for key in self.applied if not is_shared(key.kind)]
        await self._write_parent({key.group_kind for key in kept}, {key.namespace for key in kept})

    async def remove(self) -> None:
        """Delete every member of the set, and its parent. Raises KubeError."""
        await self._prune([member async for member in list_members(self.client, self.applyset)])
        await self.client.delete(self.applyset.build_parent((), ()))

    async def wait_for(self, until: Until) -> None:
        """Wait for a gate. Raises ShutError with what is missing."""
        gate = gates.Gate(holds=False)
        async for _ in self._attempts(until.timeout_seconds):
            before, gate = gate, await self._check(until)
            if gate.holds:
                return
            if gate.missing != before.missing:
                self.report(f"waiting for {until.resource}: {'; '.join(gate.missing)}")
        raise ShutError(until, gate, self.options.limit(until.timeout_seconds))

    async def _apply_step(self, step: Step) -> None:
        if isinstance(step, Install):
            if self.options.install is not None:
                self.report(f"chart {step.release} {step.version or ''}".rstrip())
                await self.options.install(step)
        elif isinstance(step, Labelled):
            await self._wait_for_labels(step)
        else:
            await self._apply(step)

    async def _apply(self, step: Apply) -> None:
        self.report(f"applying {step.what}")
        conflicts = [why async for body in _iterate_in_thread(step.objects) if (why := await self._put(body))]
        if conflicts:
            lines = "".join(f"\n  {why}" for why in conflicts)
            raise OwnedError(f"{step.what}: others own fields that are wanted here; --force takes them over:{lines}")

    async def _put(self, body: Object) -> str:
        """Apply one object; return the conflict where others own its fields."""
        await self._wait_for_kind(body)
        await self._announce(body)
        version = await self._read_version(body)
        labelled = self.options.label(self.applyset, body)
        try:
            response = await self.client.apply(labelled, manager=self.options.manager, force=self.options.force)
        except ApiRefusedError as error:
            if error.status == HTTPStatus.CONFLICT:
                return str(error)
            raise
        is_same = version == response.body["metadata"]["resourceVersion"]
        outcome = "created" if response.status == HTTPStatus.CREATED else "same" if is_same else "changed"
        self.applied.add(locate(response.body))
        self.changes.append(ObjectChange(name_object(response.body), outcome))
        return ""

    async def _wait_for_kind(self, body: Object) -> None:
        """Wait for an object's kind: a server lists it a moment after its CRD is established. Raises UnservedError."""
        why = ""
        async for _ in self._attempts(_SERVED_SECONDS):
            try:
                await self.client.find_resource(body["apiVersion"], body["kind"])
            except UnknownKindError as error:
                why = str(error)
                self.report(why)
            else:
                return
        raise UnservedError(f"{name_object(body)}: {why}, or see why its operator does not; then run this again")

    async def _read_version(self, body: Object) -> str | None:
        """Return the version just before an object is applied: controllers write into objects all the time."""
        live = await find_live(self.client, body)
        return live["metadata"]["resourceVersion"] if live else None

    async def _announce(self, body: Object) -> None:
        """Add a kind and a namespace to the parent before the set has a member there."""
        if is_shared(body["kind"]):
            return
        kind, namespace = locate(body).group_kind, body["metadata"].get("namespace", "")
        if kind not in self._kinds or namespace not in {*self._namespaces, ""}:
            self._kinds.add(kind)
            self._namespaces.add(namespace)
            await self._write_parent(self._kinds, self._namespaces)

    async def _write_parent(self, kinds: Iterable[str], namespaces: Iterable[str]) -> None:
        parent = self.applyset.build_parent(kinds, namespaces)
        await self.client.apply(parent, manager=self.options.manager, force=True)

    async def _wait_for_labels(self, step: Labelled) -> None:
        """Wait for all nodes of the fabric to have its label; later go on with those that have it, if any."""
        count = 0
        async for _ in self._attempts(step.seconds):
            count = await gates.count_labelled_nodes(self.client, step.label)
            if count >= step.nodes:
                return
            self.report(f"{count} of {step.nodes} nodes have label {step.label}")
        if not count:
            raise StuckError(f"no node has label {step.label}: {gates.LABELLING}")
        self.report(f"going on with {count} of {step.nodes} nodes: the others get the label once they are up")

    async def _check(self, until: Until) -> gates.Gate:
        try:
            return await gates.check_gate(self.client, until)
        except KubeError as error:
            return gates.Gate(holds=False, missing=(str(error),), remedy="see that the API server answers")

    async def _attempts(self, seconds: int) -> AsyncIterator[None]:
        """Yield every few seconds; less often where each attempt is slow, to spare a large cluster."""
        deadline = time.monotonic() + self.options.limit(seconds)
        while True:
            began = time.monotonic()
            yield
            now = time.monotonic()
            if now >= deadline:
                return
            await asyncio.sleep(min(max(_POLL_SECONDS, _REST_FACTOR * (now - began)), deadline - now))

    async def _prune(self, candidates: Iterable[Object]) -> None:
        for body in [body for body in candidates if locate(body) not in self.applied]:
            if is_agent_daemon_set(body):
                limit = self.options.limit(int(SECONDS))
                await remove_agents(self.client, body["metadata"]["namespace"], self.report, limit)
            await self.client.delete(body)
            self.changes.append(ObjectChange(name_object(body), "removed"))


async def _iterate_in_thread(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Yield the items of an iterable, computed in a thread: one object of a large fabric takes seconds to render."""
    iterator = iter(items)
    while (item := await asyncio.to_thread(next, iterator, _END)) is not _END:
        yield cast("_T", item)
