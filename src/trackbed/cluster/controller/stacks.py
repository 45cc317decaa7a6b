"""Application of Fabrics' stacks while this process leads; the command line lists the stacks that it may apply.

The condition StackApplied of a Fabric reports the progress. It has its own field manager: a controller that no longer
applies stacks removes the condition, and other writers of the status leave it alone.

    Applying    a pass is under way for a plan that was not applied before
    Waiting     a gate is closed; Stuck, once its timeout has passed
    Conflict, Forbidden, KindMissing, Refused, Unfit, Error    an operator must act; retried every minute
    Applied     every object is as planned; checked again every ten minutes
"""

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Self

import msgspec

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller.events import record_event
from trackbed.cluster.controller.objects import FABRICS, FabricObject
from trackbed.cluster.controller.stack_pass import APPLIED, PassOutcome, StackRequest, run_pass
from trackbed.cluster.resources.conditions import Condition, find, put
from trackbed.cluster.resources.railnode import API_VERSION
from trackbed.cluster.stacks.stack import Until

STACK_APPLIED = "StackApplied"
MANAGER = "trackbed-stacks"
NATIVE = "native"
"""A stack whose objects come with the control plane's chart."""
_IDLE_SECONDS = 60.0
_LONGEST_MESSAGE = 1024


@dataclass
class _StackState:
    """Progress of one Fabric's stack."""

    key: object = None
    task: asyncio.Task[PassOutcome] | None = None
    last: PassOutcome | None = None
    due: float = 0.0
    shut_gate: tuple[Until | None, float] = (None, 0.0)
    """The closed gate, and when it was first seen closed."""


class Stacks:
    """The stacks of all Fabrics; `changed` is called when a pass ends."""

    def __init__(self, client: Client, allowed: Collection[str], changed: Callable[[], None]) -> None:
        self._client, self._allowed, self._changed = client, allowed, changed
        self._states: dict[str, _StackState] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [state.task for state in self._states.values() if state.task]
        for name in list(self._states):
            self.forget(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def forget(self, name: str) -> None:
        """Cancel the pass of a Fabric, if any; its objects are kept."""
        if (state := self._states.pop(name, None)) and state.task:
            state.task.cancel()

    async def reconcile(self, fabric: FabricObject, order: StackRequest | None) -> float:
        """Start a pass if one is due, and update the condition; return the seconds to wait. Raises KubeError."""
        name = fabric.metadata.name
        if order is None:
            return _IDLE_SECONDS
        if not self._allowed or order.name == NATIVE:
            self.forget(name)
            await self._update_condition(fabric, None)
            return _IDLE_SECONDS
        if order.name not in self._allowed:
            self.forget(name)
            message = (
                f"this controller applies {', '.join(sorted(self._allowed))} (--stacks): add {order.name} there, or "
                f"`trackbed apply cluster {order.name} -f FILE`"
            )
            await self._update_condition(fabric, Condition(STACK_APPLIED, "False", "NotAllowed", message))
            return _IDLE_SECONDS
        state = self._states.setdefault(name, _StackState())
        is_held = self._advance(state, fabric, order)
        await self._update_condition(fabric, _build_condition(state, order))
        if state.task or is_held:
            return _IDLE_SECONDS
        return max(0.0, min(state.due - time.monotonic(), _IDLE_SECONDS))

    def _advance(self, state: _StackState, fabric: FabricObject, order: StackRequest) -> bool:
        """Record a pass that has ended, cancel one for another plan, start one that is due; only one pass runs.

        Return whether a pass is held until the Fabric changes.
        """
        if state.task and state.task.done():
            _record_outcome(state, state.task)
        if state.key != order.key:
            if state.task is None:
                last = _restore_applied(fabric, order) if state.key is None else None
                state.key, state.last, state.due = order.key, last, 0.0
            else:
                state.task.cancel()
        is_held = order.paused and (state.last is None or state.last.reason != APPLIED)
        if state.task is None and not is_held and time.monotonic() >= state.due:
            state.task = asyncio.create_task(run_pass(self._client.config, order, state.last))
            state.task.add_done_callback(self._handle_end)
        return is_held

    def _handle_end(self, task: asyncio.Task[PassOutcome]) -> None:
        """Wake the controller; retrieve the exception, which asyncio would log if the Fabric has been deleted."""
        if not task.cancelled():
            task.exception()
        self._changed()

    async def _update_condition(self, fabric: FabricObject, condition: Condition | None) -> None:
        """Write the condition if it differs, with an event for a new reason; None removes the condition."""
        old = find(fabric.status.conditions, STACK_APPLIED)
        if condition is None:
            if old.last_transition_time:
                await self._apply(fabric, [])
            return
        message = condition.message[:_LONGEST_MESSAGE]
        condition = msgspec.structs.replace(condition, message=message, observed_generation=fabric.metadata.generation)
        (new,) = put([old] if old.last_transition_time else [], condition, format_now())
        if new == old:
            return
        await self._apply(fabric, [new])
        if new.reason not in {old.reason, "Applying"}:
            name, uid = fabric.metadata.name, fabric.metadata.uid
            regarding = {"apiVersion": API_VERSION, "kind": "Fabric", "name": name, "uid": uid}
            is_normal = new.reason in {APPLIED, "Waiting", "Paused"}
            await record_event(
                self._client, regarding, f"Stack{new.reason}", new.message, "Normal" if is_normal else "Warning"
            )

    async def _apply(self, fabric: FabricObject, conditions: list[Condition]) -> None:
        status = {"conditions": msgspec.to_builtins(conditions)}
        metadata = {"name": fabric.metadata.name}
        body = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": metadata, "status": status}
        await self._client.apply(f"{FABRICS}/{fabric.metadata.name}/status", body, MANAGER)


def drop_stack_condition(fabric: FabricObject) -> FabricObject:
    """Return the Fabric without condition StackApplied, for the writer of the other conditions."""
    others = tuple(condition for condition in fabric.status.conditions if condition.type != STACK_APPLIED)
    return msgspec.structs.replace(fabric, status=msgspec.structs.replace(fabric.status, conditions=others))


def _record_outcome(state: _StackState, task: asyncio.Task[PassOutcome]) -> None:
    """Record how a pass ended."""
    if not task.cancelled():
        state.last = task.result()
        state.due = time.monotonic() + state.last.retry_seconds
        if state.last.shut_gate != state.shut_gate[0]:
            state.shut_gate = (state.last.shut_gate, time.monotonic())
    state.task = None


def _restore_applied(fabric: FabricObject, order: StackRequest) -> PassOutcome | None:
    """Return the outcome that an earlier leader recorded for the same plan; its gates need no second check."""
    condition = find(fabric.status.conditions, STACK_APPLIED)
    is_current = condition.observed_generation == fabric.metadata.generation and not order.rolled_back
    return PassOutcome(APPLIED, condition.message) if is_current and condition.reason == APPLIED else None


def _build_condition(state: _StackState, order: StackRequest) -> Condition:
    if state.last is None or state.key != order.key:
        if order.paused:
            return Condition(STACK_APPLIED, "False", "Paused", "the Fabric is paused; its stack is not touched")
        return Condition(STACK_APPLIED, "False", "Applying", f"stack {order.name} is applied")
    until, since = state.shut_gate
    is_stuck = until is not None and time.monotonic() - since > until.timeout_seconds
    reason = "Stuck" if is_stuck and state.last.reason == "Waiting" else state.last.reason
    return Condition(STACK_APPLIED, "True" if reason == APPLIED else "False", reason, state.last.message)
