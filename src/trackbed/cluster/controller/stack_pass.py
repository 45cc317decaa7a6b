"""One pass over a Fabric's stack: the steps of `trackbed apply cluster`, without waiting.

    every object    server-side apply, in order; fields of other managers are left alone
    closed gate     ends the pass; the next pass checks this gate first, and continues only if it is open
    at the end      objects that the stack no longer contains are deleted
    once applied    passes revert drift at a low rate, and skip the gates, so that a node that is down delays nothing

Charts are left out: the controller does not run helm. The first kind that is not served ends the pass, and the outcome
lists the charts.
"""

import asyncio
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import NamedTuple

from lightkube.config.kubeconfig import SingleConfig

from trackbed.cluster.api.client import PATIENT, REQUEST_SECONDS, Client
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import ApiRefusedError, KubeError
from trackbed.cluster.rollout.applyset import build_applyset
from trackbed.cluster.rollout.gates import Gate, check_gate
from trackbed.cluster.rollout.options import OwnedError, RunOptions, ShutError, StuckError, UnservedError
from trackbed.cluster.rollout.stack_run import StackRun
from trackbed.cluster.stacks import stack
from trackbed.cluster.stacks.install.steps import Apply, Install, Step, steps
from trackbed.cluster.stacks.refusals import refusals
from trackbed.cluster.stacks.stack import Until
from trackbed.fabric.plan.plan import Plan

APPLIED = "Applied"
GATE_SECONDS = 10.0
RETRY_SECONDS = 60.0
DRIFT_SECONDS = 600.0
PACE_SECONDS = 0.2
"""Pause between two requests of a pass over an applied stack: at most 5 requests a second."""
_REST_FACTOR = 4
"""Shortest ratio of the pause after a pass to its duration."""


class StackRequest(NamedTuple):
    """The stack that a Fabric names, and its plan."""

    key: object
    """Changes whenever the plan may have changed."""
    name: str
    plan: Plan
    rolled_back: bool
    """Whether an earlier generation applies (rollback)."""
    paused: bool


class PassOutcome(NamedTuple):
    """The outcome of a pass.

    `shut_gate` is the gate that ended the pass, if any. `retry_seconds` of 0 means the default, RETRY_SECONDS.
    """

    reason: str
    message: str
    retry_seconds: float = 0.0
    shut_gate: Until | None = None


async def run_pass(config: SingleConfig, order: StackRequest, previous: PassOutcome | None) -> PassOutcome:
    """Run a pass; `previous` is the outcome of the last pass for the same plan. It may be cancelled."""
    is_applied = previous is not None and previous.reason == APPLIED
    pause = PACE_SECONDS if previous and not previous.shut_gate else 0.0
    policy = replace(PATIENT, timeout_seconds=REQUEST_SECONDS, pause_seconds=pause)
    start = time.monotonic()
    try:
        async with DynamicClient(Client(config, policy)) as client:
            outcome = (
                await _check_gate(client, order.name, previous.shut_gate) if previous and previous.shut_gate else None
            )
            outcome = outcome or await _apply(client, order, is_applied=is_applied)
    except ApiRefusedError as error:
        is_forbidden = error.status == HTTPStatus.FORBIDDEN
        outcome = _explain_rights(order.name, error) if is_forbidden else PassOutcome("Refused", str(error))
    except KubeError as error:
        outcome = PassOutcome("Error", str(error))
    return outcome._replace(
        retry_seconds=max(outcome.retry_seconds or RETRY_SECONDS, _REST_FACTOR * (time.monotonic() - start))
    )


def _prepare(order: StackRequest) -> tuple[str, tuple[Step, ...]]:
    """Return the reason why a stack cannot carry the plan, or empty text and the steps."""
    unit = stack(order.name)
    for problem in refusals(unit, order.plan):
        return problem.message, ()
    return "", steps(unit, order.plan)


async def _apply(client: DynamicClient, order: StackRequest, *, is_applied: bool) -> PassOutcome:
    refusal, all_steps = await asyncio.to_thread(_prepare, order)  # takes seconds for a large fabric
    if refusal:
        return PassOutcome("Unfit", f"stack {order.name} cannot carry this Fabric: {refusal}")
    options = RunOptions(f"trackbed-{order.name}", wait_seconds=0)
    run = StackRun(client, build_applyset(order.plan, order.name), options, report=lambda _: None)
    try:
        await run.apply_steps(_select_steps(all_steps, gated=not is_applied))
    except ShutError as error:
        return _wait_for_gate(error.until, error.gate)
    except UnservedError as error:
        return PassOutcome("KindMissing", f"{_join_lines(error)}{_list_charts(order.name, all_steps)}")
    except OwnedError as error:
        command = f"`trackbed apply cluster {order.name} -f FILE --force`"
        return PassOutcome("Conflict", _join_lines(error).replace("--force takes", f"{command} takes"))
    except StuckError as error:
        return PassOutcome("Waiting", _join_lines(error), GATE_SECONDS)
    return PassOutcome(APPLIED, f"stack {order.name}: {len(run.applied)} objects are as planned", DRIFT_SECONDS)


def _join_lines(error: StuckError) -> str:
    """Return the error in one line, without the advice to run the command again."""
    return " ".join(str(error).replace("; then run this again", "").split())


def _select_steps(all_steps: Iterable[Step], *, gated: bool) -> Iterator[Step]:
    for step in all_steps:
        if isinstance(step, Apply):
            yield step if gated else replace(step, until=())
        elif gated and not isinstance(step, Install):
            yield step


async def _check_gate(client: DynamicClient, name: str, until: Until) -> PassOutcome | None:
    """Check the gate that ended the last pass; return None where it is open now."""
    try:
        gate = await check_gate(client, until)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return _explain_rights(name, error)._replace(shut_gate=until)
    return None if gate.holds else _wait_for_gate(until, gate)


def _wait_for_gate(until: Until, gate: Gate) -> PassOutcome:
    message = f"{until.resource} is not at {until.until}: {'; '.join(gate.missing)}; what to do: {gate.remedy}"
    return PassOutcome("Waiting", message, GATE_SECONDS, until)


def _list_charts(name: str, all_steps: Iterable[Step]) -> str:
    """Return the charts that an operator must install; empty where the stack has none."""
    charts = [step for step in all_steps if isinstance(step, Install)]
    listed = ", ".join(f"{chart.reference} {chart.version or 'of your choice'}".rstrip() for chart in charts)
    how = f"`trackbed apply cluster {name} -f FILE` installs them, `trackbed render stack {name} -f FILE -o DIR` writes"
    return f"; its charts, which the controller does not install: {listed}; {how} their values" if charts else ""


def _explain_rights(name: str, error: ApiRefusedError) -> PassOutcome:
    how = f"`trackbed render rights {name} -f FILE | kubectl apply -f -` grants it (docs/reference/stacks/rights.md)"
    return PassOutcome("Forbidden", f"{error.message}; {how}")
