"""One pass over a Fabric's stack: the steps of `trackbed apply cluster`, without waiting.

    every object    server-side apply, in order; fields of other managers are left alone
    closed gate     ends the pass; the next pass checks this gate first, and continues only if it is open
    at the end      objects that the stack no longer contains are deleted
    once applied    passes revert drift at a low rate, and skip the gates, so that a node that is down causes no delay

Charts are skipped: the controller does not run helm. The first kind that is not served ends the pass, and the outcome
lists the charts.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

from lightkube.config.kubeconfig import SingleConfig

from trackbed.cluster.api.client import PERSISTENT, Client
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.rollout.applyset import build_applyset
from trackbed.cluster.rollout.gates import Gate, check_gate
from trackbed.cluster.rollout.options import (
    FieldConflictError,
    GateTimeoutError,
    KindMissingError,
    RunOptions,
    StuckError,
)
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.steps import ApplyFile, InstallChart, Step, build_steps
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.cluster.stacks.stack import AnyWait
from trackbed.fabric.plan.plan import Plan

APPLIED = "Applied"
"""Reason of a pass after which every object is as planned."""
GATE_SECONDS = 10.0
"""Pause before a closed gate is checked again."""
RETRY_SECONDS = 60.0
"""Pause after a failed pass."""
DRIFT_SECONDS = 600.0
"""Pause after a complete pass."""
PACE_SECONDS = 0.2
"""Pause between two requests of a pass over an applied stack: at most 5 requests a second."""
_REST_FACTOR = 4
"""The pause after a pass lasts at least this many times as long as the pass."""


_log = logging.getLogger(__name__)


class StackRequest(NamedTuple):
    """The stack that a Fabric names, and the Fabric's plan."""

    key: object
    """Key of the plan: it changes whenever the plan may have changed."""
    name: str
    plan: Plan
    rolled_back: bool
    """Whether the plan is that of an earlier generation (rollback)."""
    paused: bool


class PassOutcome(NamedTuple):
    """The outcome of a pass.

    `closed_gate` is the gate that ended the pass, if any. A `retry_seconds` of 0 means RETRY_SECONDS.
    """

    reason: str
    message: str
    retry_seconds: float = 0.0
    closed_gate: AnyWait | None = None


async def run_pass(config: SingleConfig, request: StackRequest, previous: PassOutcome | None) -> PassOutcome:
    """Run one pass; `previous` is the outcome of the last pass for the same plan. Cancellation is safe at any point."""
    is_applied = previous is not None and previous.reason == APPLIED
    gate = previous.closed_gate if previous else None
    policy = replace(PERSISTENT, pause_seconds=PACE_SECONDS if previous and not gate else 0.0)
    start = time.monotonic()
    try:
        async with DynamicClient(Client(config, policy)) as client:
            outcome = await _check_closed_gate(client, request.name, gate) if gate else None
            outcome = outcome or await _apply_stack(client, request, is_applied=is_applied)
    except ApiRefusedError as error:
        is_forbidden = error.status == HTTPStatus.FORBIDDEN
        outcome = _build_forbidden_outcome(request.name, error) if is_forbidden else PassOutcome("Refused", str(error))
    except KubeError as error:
        outcome = PassOutcome("Error", str(error))
    except Exception as error:  # noqa: BLE001 - it belongs to this stack's condition and must not stop other Fabrics
        _log.exception("stack %s: the pass ended with an unexpected error", request.name)
        outcome = PassOutcome("Error", f"a defect of Trackbed, please report it with the controller's log: {error!r}")
    return outcome._replace(
        retry_seconds=max(outcome.retry_seconds or RETRY_SECONDS, _REST_FACTOR * (time.monotonic() - start))
    )


class _StackRefusedError(Exception):
    """The stack does not support the plan; the message is the first reason."""


def _build_steps(request: StackRequest) -> tuple[Step, ...]:
    """Return the steps of a stack for its plan. Raises _StackRefusedError."""
    stack = load_stack(request.name)
    for problem in find_refusals(stack, request.plan):
        raise _StackRefusedError(problem.message)
    return build_steps(stack, request.plan)


async def _apply_stack(client: DynamicClient, request: StackRequest, *, is_applied: bool) -> PassOutcome:
    try:
        all_steps = await asyncio.to_thread(_build_steps, request)  # takes seconds for a large fabric
    except _StackRefusedError as error:
        return PassOutcome("Unfit", f"stack {request.name} cannot carry this Fabric: {error}")
    options = RunOptions(f"trackbed-{request.name}", wait_seconds=0)
    run = StackRun(client, build_applyset(request.plan, request.name), options, report=lambda _: None)
    try:
        await run.apply_steps(_iter_steps(all_steps, with_gates=not is_applied))
    except GateTimeoutError as error:
        return _build_waiting_outcome(error.until, error.gate)
    except KindMissingError as error:
        return PassOutcome("KindMissing", f"{_join_lines(error)}{_format_charts(request.name, all_steps)}")
    except FieldConflictError as error:
        command = f"`trackbed apply cluster {request.name} -f FILE --force`"
        return PassOutcome("Conflict", _join_lines(error).replace("--force takes", f"{command} takes"))
    except StuckError as error:
        return PassOutcome("Waiting", _join_lines(error), GATE_SECONDS)
    return PassOutcome(APPLIED, f"stack {request.name}: {len(run.applied)} objects are as planned", DRIFT_SECONDS)


def _join_lines(error: StuckError) -> str:
    """Return the error as one line, without the advice to run the command again."""
    return " ".join(str(error).replace("; then run this again", "").split())


def _iter_steps(all_steps: Iterable[Step], *, with_gates: bool) -> Iterator[Step]:
    """Yield the steps without charts; unless `with_gates`, also without gates."""
    for step in all_steps:
        if isinstance(step, ApplyFile):
            yield step if with_gates else replace(step, waits=())
        elif with_gates and not isinstance(step, InstallChart):
            yield step


async def _check_closed_gate(client: DynamicClient, name: str, wait: AnyWait) -> PassOutcome | None:
    """Check the gate that ended the last pass; return None if it is open now, else the outcome."""
    try:
        gate = await check_gate(client, wait)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return _build_forbidden_outcome(name, error)._replace(closed_gate=wait)
    return None if gate.holds else _build_waiting_outcome(wait, gate)


def _build_waiting_outcome(wait: AnyWait, gate: Gate) -> PassOutcome:
    """Return the outcome of a pass that a closed gate ended."""
    message = f"{wait.resource} is not at {wait.condition}: {'; '.join(gate.missing)}; what to do: {gate.remedy}"
    return PassOutcome("Waiting", message, GATE_SECONDS, wait)


def _format_charts(name: str, all_steps: Iterable[Step]) -> str:
    """Return the charts that an operator must install, as text; empty if the stack has no charts."""
    charts = [step for step in all_steps if isinstance(step, InstallChart)]
    listed = ", ".join(f"{chart.chart_reference} {chart.version or 'of your choice'}".rstrip() for chart in charts)
    render = f"`trackbed render stack {name} -f FILE --to DIR`"
    how = f"`trackbed apply cluster {name} -f FILE` installs them, {render} writes"
    return f"; its charts, which the controller does not install: {listed}; {how} their values" if charts else ""


def _build_forbidden_outcome(name: str, error: ApiRefusedError) -> PassOutcome:
    """Return the outcome of a pass that lacked rights, with the command that grants them."""
    how = f"`trackbed render rights {name} -f FILE | kubectl apply -f -` grants it (docs/reference/stacks/rights.md)"
    return PassOutcome("Forbidden", f"{error.message}; {how}")
