"""One pass over a Fabric's stack: the steps of `trackbed apply cluster`, without any waiting.

    every object    server-side apply, in order; others' fields are left alone
    a shut gate     ends the pass; the next one begins with this gate, and with all the rest only if it is open
    at the end      what the stack wants no longer is removed
    once applied    passes put right what somebody changed, slowly, and ask no gate: a node that is down hinders nothing

Charts are left out: the controller runs no helm. The first kind that is not served ends the pass, and its outcome names
the charts.
"""

from __future__ import annotations

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
AGAIN_SECONDS = 60.0
DRIFT_SECONDS = 600.0
PACE_SECONDS = 0.2
"""Between two requests of a pass over what is applied: 5 a second at most, however large a stack is."""
_REST = 4
"""Pauses are at least so many times as long as the pass before."""


class StackOrder(NamedTuple):
    """The stack that a Fabric names, and its plan."""

    key: object
    """Another one where the plan may be another."""
    name: str
    plan: Plan
    back: bool
    """Whether a generation before is carried out (rollback)."""
    paused: bool


class PassOutcome(NamedTuple):
    """How a pass ended: a word, what a person reads, seconds until the next, and the gate that it begins with.

    0 seconds stand for AGAIN_SECONDS.
    """

    reason: str
    message: str
    again: float = 0.0
    shut: Until | None = None


async def run_pass(config: SingleConfig, order: StackOrder, last: PassOutcome | None) -> PassOutcome:
    """Do a pass; `last` is the outcome of the one before for the same plan. Cancel it to end it."""
    is_applied = last is not None and last.reason == APPLIED
    pause = PACE_SECONDS if last and not last.shut else 0.0
    policy = replace(PATIENT, timeout_seconds=REQUEST_SECONDS, pause_seconds=pause)
    began = time.monotonic()
    try:
        async with DynamicClient(Client(config, policy)) as client:
            outcome = await _check_shut(client, order.name, last.shut) if last and last.shut else None
            outcome = outcome or await _apply(client, order, is_applied=is_applied)
    except ApiRefusedError as error:
        is_forbidden = error.status == HTTPStatus.FORBIDDEN
        outcome = _explain_rights(order.name, error) if is_forbidden else PassOutcome("Refused", str(error))
    except KubeError as error:
        outcome = PassOutcome("Error", str(error))
    return outcome._replace(again=max(outcome.again or AGAIN_SECONDS, _REST * (time.monotonic() - began)))


def _prepare(order: StackOrder) -> tuple[str, tuple[Step, ...]]:
    """Return why a stack cannot carry the plan (empty where it can), and its steps."""
    unit = stack(order.name)
    for problem in refusals(unit, order.plan):
        return problem.message, ()
    return "", steps(unit, order.plan)


async def _apply(client: DynamicClient, order: StackOrder, *, is_applied: bool) -> PassOutcome:
    why, all_steps = await asyncio.to_thread(_prepare, order)  # seconds for a large fabric
    if why:
        return PassOutcome("Unfit", f"stack {order.name} cannot carry this Fabric: {why}")
    options = RunOptions(f"trackbed-{order.name}", wait_seconds=0)
    run = StackRun(client, build_applyset(order.plan, order.name), options, report=lambda _: None)
    try:
        await run.apply_steps(_select_steps(all_steps, gated=not is_applied))
    except ShutError as error:
        return _wait_for_gate(error.until, error.gate)
    except UnservedError as error:
        return PassOutcome("KindMissing", f"{_join_lines(error)}{_list_charts(order.name, all_steps)}")
    except OwnedError as error:
        forced = f"`trackbed apply cluster {order.name} -f FILE --force`"
        return PassOutcome("Conflict", _join_lines(error).replace("--force takes", f"{forced} takes"))
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


async def _check_shut(client: DynamicClient, name: str, until: Until) -> PassOutcome | None:
    """Check the gate that ended the last pass; None where it is open now."""
    try:
        gate = await check_gate(client, until)
    except ApiRefusedError as error:
        if error.status != HTTPStatus.FORBIDDEN:
            raise
        return _explain_rights(name, error)._replace(shut=until)
    return None if gate.holds else _wait_for_gate(until, gate)


def _wait_for_gate(until: Until, gate: Gate) -> PassOutcome:
    message = f"{until.resource} is not at {until.until}: {'; '.join(gate.missing)}; what to do: {gate.remedy}"
    return PassOutcome("Waiting", message, GATE_SECONDS, until)


def _list_charts(name: str, all_steps: Iterable[Step]) -> str:
    """Return the charts that a person must install; empty where the stack has none."""
    charts = [step for step in all_steps if isinstance(step, Install)]
    listed = ", ".join(f"{chart.reference} {chart.version or 'of your choice'}".rstrip() for chart in charts)
    how = f"`trackbed apply cluster {name} -f FILE` installs them, `trackbed render stack {name} -f FILE -o DIR` writes"
    return f"; its charts, which the controller does not install: {listed}; {how} their values" if charts else ""


def _explain_rights(name: str, error: ApiRefusedError) -> PassOutcome:
    how = f"`trackbed render rights {name} -f FILE | kubectl apply -f -` grants it (docs/reference/stacks/rights.md)"
    return PassOutcome("Forbidden", f"{error.message}; {how}")
