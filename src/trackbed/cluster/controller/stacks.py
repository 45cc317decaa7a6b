"""Passes over the stacks of all Fabrics while this process leads, for the stacks that the command line permits.

Condition StackApplied of a Fabric reports the progress. It has its own field manager, so other writers of the status
leave it alone. A controller that may no longer apply stacks removes it.

    Applying    a pass is under way for a plan that was not applied before
    Waiting     a gate is closed; Stuck once its timeout has passed
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
from trackbed.cluster.api.events import Event, record_event
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.times import format_now
from trackbed.cluster.controller.objects import FABRICS, FabricObject
from trackbed.cluster.controller.pace import IDLE_SECONDS
from trackbed.cluster.controller.stack_pass import APPLIED, PassOutcome, StackRequest, run_pass
from trackbed.cluster.resources.conditions import Condition, find_condition, put_condition
from trackbed.cluster.resources.railnode import API_VERSION
from trackbed.cluster.stacks.stack import AnyWait

STACK_APPLIED = "StackApplied"
"""Condition of a Fabric: whether every object of its stack is as planned."""
FIELD_MANAGER = "trackbed-stacks"
NATIVE = "native"
"""The stack whose objects are part of the control plane's chart, so that no pass is needed."""
_LONGEST_MESSAGE = 1024


@dataclass
class _StackState:
    """State of a Fabric's stack: the running pass, and the outcome of the last one for `key`."""

    key: object = None
    task: asyncio.Task[PassOutcome] | None = None
    outcome: PassOutcome | None = None
    due_at: float = 0.0
    closed_gate: tuple[AnyWait | None, float] = (None, 0.0)
    """The closed gate, and the time at which it was first found closed (monotonic)."""


class Stacks:
    """Runs the passes over the stacks of all Fabrics; `on_change` is called when a pass ends."""

    def __init__(self, client: Client, allowed: Collection[str], on_change: Callable[[], None]) -> None:
        self._client, self._allowed, self._on_change = client, allowed, on_change
        self._states: dict[str, _StackState] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = [state.task for state in self._states.values() if state.task]
        for name in list(self._states):
            self.drop_fabric(name)
        await asyncio.gather(*tasks, return_exceptions=True)

    def drop_fabric(self, name: str) -> None:
        """Forget a Fabric, and cancel its pass. Objects of its stack are kept."""
        if (state := self._states.pop(name, None)) and state.task:
            state.task.cancel()

    async def reconcile(self, fabric: FabricObject, request: StackRequest | None) -> float:
        """Start a pass if it is due, and update condition StackApplied; return the seconds until the next call.

        `request` is None before the Fabric's first plan. Raises KubeError.
        """
        name = fabric.metadata.name
        if request is None:
            return IDLE_SECONDS
        if not self._allowed or request.name == NATIVE:
            self.drop_fabric(name)
            await self._update_condition(fabric, None)
            return IDLE_SECONDS
        if request.name not in self._allowed:
            self.drop_fabric(name)
            message = (
                f"this controller applies {', '.join(sorted(self._allowed))} (--stacks): add {request.name} there, or "
                f"`trackbed apply cluster {request.name} -f FILE`"
            )
            await self._update_condition(fabric, Condition(STACK_APPLIED, "False", "NotAllowed", message))
            return IDLE_SECONDS
        state = self._states.setdefault(name, _StackState())
        is_held = self._advance_state(state, fabric, request)
        await self._update_condition(fabric, _build_condition(state, request))
        if state.task or is_held:
            return IDLE_SECONDS
        return max(0.0, min(state.due_at - time.monotonic(), IDLE_SECONDS))

    def _advance_state(self, state: _StackState, fabric: FabricObject, request: StackRequest) -> bool:
        """Record a pass that has ended, cancel a pass for another plan, and start a pass that is due.

        Only one pass runs at a time. Return whether the next pass is held, since the Fabric is paused.
        """
        if state.task and state.task.done():
            _record_outcome(state, state.task)
        if state.key != request.key:
            if state.task is None:
                last = _restore_applied(fabric, request) if state.key is None else None
                state.key, state.outcome, state.due_at = request.key, last, 0.0
            else:
                state.task.cancel()
        is_held = request.paused and (state.outcome is None or state.outcome.reason != APPLIED)
        if state.task is None and not is_held and time.monotonic() >= state.due_at:
            state.task = asyncio.create_task(run_pass(self._client.config, request, state.outcome))
            state.task.add_done_callback(self._handle_pass_end)
        return is_held

    def _handle_pass_end(self, task: asyncio.Task[PassOutcome]) -> None:
        """Wake the controller. Retrieve the exception, since asyncio would log it if the Fabric has been deleted."""
        if not task.cancelled():
            task.exception()
        self._on_change()

    async def _update_condition(self, fabric: FabricObject, condition: Condition | None) -> None:
        """Write condition StackApplied if it differs, and an event if its reason is new. None removes the condition."""
        old = find_condition(fabric.status.conditions, STACK_APPLIED)
        if condition is None:
            if old.last_transition_time:
                await self._apply_conditions(fabric, [])
            return
        message = condition.message[:_LONGEST_MESSAGE]
        condition = msgspec.structs.replace(condition, message=message, observed_generation=fabric.metadata.generation)
        (new,) = put_condition([old] if old.last_transition_time else [], condition, format_now())
        if new == old:
            return
        await self._apply_conditions(fabric, [new])
        if new.reason not in {old.reason, "Applying"}:
            name, uid = fabric.metadata.name, fabric.metadata.uid
            regarding = {"apiVersion": API_VERSION, "kind": "Fabric", "name": name, "uid": uid}
            is_normal = new.reason in {APPLIED, "Waiting", "Paused"}
            event = Event(f"Stack{new.reason}", new.message, "Normal" if is_normal else "Warning")
            await record_event(self._client, regarding, event)

    async def _apply_conditions(self, fabric: FabricObject, conditions: list[Condition]) -> None:
        status = {"conditions": msgspec.to_builtins(conditions)}
        metadata = {"name": fabric.metadata.name}
        body = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": metadata, "status": status}
        await self._client.apply(join_path(FABRICS, fabric.metadata.name, "status"), body, FIELD_MANAGER)


def drop_stack_condition(fabric: FabricObject) -> FabricObject:
    """Return the Fabric without condition StackApplied, for the writer of the other conditions."""
    others = tuple(condition for condition in fabric.status.conditions if condition.type != STACK_APPLIED)
    return msgspec.structs.replace(fabric, status=msgspec.structs.replace(fabric.status, conditions=others))


def _record_outcome(state: _StackState, task: asyncio.Task[PassOutcome]) -> None:
    """Record the outcome of a pass that has ended, unless it was cancelled."""
    if not task.cancelled():
        state.outcome = task.result()
        state.due_at = time.monotonic() + state.outcome.retry_seconds
        if state.outcome.closed_gate != state.closed_gate[0]:
            state.closed_gate = (state.outcome.closed_gate, time.monotonic())
    state.task = None


def _restore_applied(fabric: FabricObject, request: StackRequest) -> PassOutcome | None:
    """Return outcome Applied if an earlier leader recorded it for the same plan, else None; its gates are skipped."""
    condition = find_condition(fabric.status.conditions, STACK_APPLIED)
    is_current = condition.observed_generation == fabric.metadata.generation and not request.rolled_back
    return PassOutcome(APPLIED, condition.message) if is_current and condition.reason == APPLIED else None


def _build_condition(state: _StackState, request: StackRequest) -> Condition:
    """Return condition StackApplied for the state of a stack."""
    if state.outcome is None or state.key != request.key:
        if request.paused:
            return Condition(STACK_APPLIED, "False", "Paused", "the Fabric is paused; its stack is not touched")
        return Condition(STACK_APPLIED, "False", "Applying", f"stack {request.name} is applied")
    until, since = state.closed_gate
    is_stuck = until is not None and time.monotonic() - since > until.timeout_seconds
    reason = "Stuck" if is_stuck and state.outcome.reason == "Waiting" else state.outcome.reason
    return Condition(STACK_APPLIED, "True" if reason == APPLIED else "False", reason, state.outcome.message)
