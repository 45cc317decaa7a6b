"""The stacks of Fabrics, applied for as long as this process leads; which it may apply its command line says.

The condition StackApplied of a Fabric says how it stands. It has a field manager of its own: whoever applies no stack
any more takes the condition away, and all others leave it alone.

    Applying    a pass is under way for a plan that was not applied before
    Waiting     a gate is shut; Stuck, once that lasts longer than the gate may take
    Conflict, Forbidden, KindMissing, Refused, Unfit, Error    a person must look; it is tried again every minute
    Applied     every object is as planned; looked at again every ten minutes
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Self

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.times import now
from trackbed.cluster.controller.events import tell_of
from trackbed.cluster.controller.objects import FABRICS, FabricObject
from trackbed.cluster.controller.stack_pass import APPLIED, PassOutcome, StackOrder, run_pass
from trackbed.cluster.resources.conditions import Condition, find, put
from trackbed.cluster.resources.railnode import API_VERSION
from trackbed.cluster.stacks.stack import Until

STACK_APPLIED = "StackApplied"
MANAGER = "trackbed-stacks"
NATIVE = "native"
"""Its objects come with the control plane's chart."""
_QUIET_SECONDS = 60.0
_LONGEST_MESSAGE = 1024


@dataclass
class _StackState:
    """How far one Fabric's stack is."""

    key: object = None
    task: asyncio.Task[PassOutcome] | None = None
    last: PassOutcome | None = None
    due: float = 0.0
    shut: tuple[Until | None, float] = (None, 0.0)
    """The gate that is shut, and since when."""


class Stacks:
    """All of them; `changed` is called when a pass ends."""

    def __init__(self, client: Client, allowed: Collection[str], changed: Callable[[], None]) -> None:
        self._client, self._allowed, self._changed = client, allowed, changed
        self._states: dict[str, _StackState] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        passes = [state.task for state in self._states.values() if state.task]
        for name in list(self._states):
            self.forget(name)
        await asyncio.gather(*passes, return_exceptions=True)

    def forget(self, name: str) -> None:
        """Cancel the pass of a Fabric, if any; its objects are kept."""
        if (state := self._states.pop(name, None)) and state.task:
            state.task.cancel()

    async def look(self, fabric: FabricObject, wanted: StackOrder | None) -> float:
        """Begin a pass where one is due, and tell how it stands; seconds until to look again. Raises KubeError."""
        name = fabric.metadata.name
        if wanted is None:
            return _QUIET_SECONDS
        if not self._allowed or wanted.name == NATIVE:
            self.forget(name)
            await self._tell(fabric, None)
            return _QUIET_SECONDS
        if wanted.name not in self._allowed:
            self.forget(name)
            why = (
                f"this controller applies {', '.join(sorted(self._allowed))} (--stacks): add {wanted.name} there, or "
                f"`trackbed apply cluster {wanted.name} -f FILE`"
            )
            await self._tell(fabric, Condition(STACK_APPLIED, "False", "NotAllowed", why))
            return _QUIET_SECONDS
        state = self._states.setdefault(name, _StackState())
        held = self._step(state, fabric, wanted)
        await self._tell(fabric, _condition(state, wanted))
        return _QUIET_SECONDS if state.task or held else max(0.0, min(state.due - time.monotonic(), _QUIET_SECONDS))

    def _step(self, state: _StackState, fabric: FabricObject, wanted: StackOrder) -> bool:
        """Take note of a pass that has ended, end one for another plan, begin one that is due: one at a time.

        Whether one is held back, until the Fabric is another.
        """
        if state.task and state.task.done():
            _ended(state)
        if state.key != wanted.key:
            if state.task is None:
                before = _applied_before(fabric, wanted) if state.key is None else None
                state.key, state.last, state.due = wanted.key, before, 0.0
            else:
                state.task.cancel()
        held = wanted.paused and (state.last is None or state.last.reason != APPLIED)
        if state.task is None and not held and time.monotonic() >= state.due:
            state.task = asyncio.create_task(run_pass(self._client.config, wanted, state.last))
            state.task.add_done_callback(self._heard)
        return held

    def _heard(self, task: asyncio.Task[PassOutcome]) -> None:
        """A pass has ended; what one ends with that nobody waits for any more is looked at by nobody else."""
        if not task.cancelled():
            task.exception()
        self._changed()

    async def _tell(self, fabric: FabricObject, wanted: Condition | None) -> None:
        """Have the Fabric say so, where it does not; None: nothing is said of it any more."""
        old = find(fabric.status.conditions, STACK_APPLIED)
        if wanted is None:
            if old.last_transition_time:
                await self._apply(fabric, [])
            return
        one = msgspec.structs.replace(
            wanted, message=wanted.message[:_LONGEST_MESSAGE], observed_generation=fabric.metadata.generation
        )
        (new,) = put([old] if old.last_transition_time else [], one, now())
        if new == old:
            return
        await self._apply(fabric, [new])
        if new.reason not in {old.reason, "Applying"}:
            about = {"apiVersion": API_VERSION, "kind": "Fabric", **_named(fabric), "uid": fabric.metadata.uid}
            well = new.reason in {APPLIED, "Waiting", "Paused"}
            await tell_of(self._client, about, f"Stack{new.reason}", new.message, "Normal" if well else "Warning")

    async def _apply(self, fabric: FabricObject, conditions: list[Condition]) -> None:
        status = {"conditions": msgspec.to_builtins(conditions)}
        one = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": _named(fabric), "status": status}
        await self._client.apply(f"{FABRICS}/{fabric.metadata.name}/status", one, MANAGER)


def without(fabric: FabricObject) -> FabricObject:
    """The Fabric as those see it who write its other conditions."""
    others = tuple(one for one in fabric.status.conditions if one.type != STACK_APPLIED)
    return msgspec.structs.replace(fabric, status=msgspec.structs.replace(fabric.status, conditions=others))


def _named(fabric: FabricObject) -> dict[str, str]:
    return {"name": fabric.metadata.name}


def _ended(state: _StackState) -> None:
    """Take note of how a pass ended."""
    assert state.task is not None  # noqa: S101 - by its caller
    if not state.task.cancelled():
        state.last = state.task.result()
        state.due = time.monotonic() + state.last.again
        if state.last.shut != state.shut[0]:
            state.shut = (state.last.shut, time.monotonic())
    state.task = None


def _applied_before(fabric: FabricObject, wanted: StackOrder) -> PassOutcome | None:
    """What a leader before has said of the same plan: all was applied, so gates need not be asked again."""
    said = find(fabric.status.conditions, STACK_APPLIED)
    same = said.observed_generation == fabric.metadata.generation and said.reason == APPLIED and not wanted.back
    return PassOutcome(APPLIED, said.message) if same else None


def _condition(state: _StackState, wanted: StackOrder) -> Condition:
    if state.last is None or state.key != wanted.key:
        if wanted.paused:
            return Condition(STACK_APPLIED, "False", "Paused", "the Fabric is paused; its stack is not touched")
        return Condition(STACK_APPLIED, "False", "Applying", f"stack {wanted.name} is applied")
    until, since = state.shut
    stuck = until is not None and time.monotonic() - since > until.timeout_seconds
    reason = "Stuck" if stuck and state.last.reason == "Waiting" else state.last.reason
    return Condition(STACK_APPLIED, "True" if reason == APPLIED else "False", reason, state.last.message)
