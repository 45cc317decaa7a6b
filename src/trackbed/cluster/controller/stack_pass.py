"""One pass over a Fabric's stack, in a thread of its own: the steps of `trackbed apply cluster`, without any waiting.

    every object    server-side apply, in order; others' fields are left alone
    a shut gate     ends the pass; the next one begins with this gate, and with all the rest only if it is open
    at the end      what the stack wants no longer is removed
    once applied    passes put right what somebody changed, slowly, and ask no gate: a node that is down hinders nothing

Charts are left out: the controller runs no helm. The first kind that is not served ends the pass, and its outcome names
the charts.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from threading import Event
from typing import NamedTuple

from lightkube.config.kubeconfig import SingleConfig

from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import KubeError, RefusedError
from trackbed.cluster.api.live import REQUEST_SECONDS
from trackbed.cluster.rollout import applyset, gates
from trackbed.cluster.rollout.gates import Gate
from trackbed.cluster.rollout.rollout import Manner, OwnedError, Rollout, ShutError, StuckError, UnservedError
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
_FORBIDDEN = 403


class Wanted(NamedTuple):
    """What is wanted of a Fabric's stack."""

    key: object
    """Another one where the plan may be another."""
    name: str
    plan: Plan
    back: bool
    """Whether a generation before is carried out (rollback)."""
    paused: bool


class Outcome(NamedTuple):
    """How a pass ended: a word, what a person reads, seconds until the next, and the gate that it begins with.

    0 seconds stand for AGAIN_SECONDS.
    """

    reason: str
    message: str
    again: float = 0.0
    shut: Until | None = None


class StoppedError(Exception):
    """The pass was told to end: this process leads no more, or another plan is wanted."""


def go(config: SingleConfig, wanted: Wanted, last: Outcome | None, stop: Event) -> Outcome:
    """Do a pass; `last` is the outcome of the one before for the same plan. Raises StoppedError."""
    applied = last is not None and last.reason == APPLIED
    pace = PACE_SECONDS if last and not last.shut else 0.0

    def before() -> None:
        if stop.wait(pace):
            raise StoppedError

    began = time.monotonic()
    try:
        with Client(config, timeout_seconds=REQUEST_SECONDS, before=before) as client:
            found = _still_shut(client, wanted.name, last.shut) if last and last.shut else None
            found = found or _carried_out(client, wanted, applied=applied)
    except RefusedError as error:
        found = _forbidden(wanted.name, error) if error.status == _FORBIDDEN else Outcome("Refused", str(error))
    except KubeError as error:
        found = Outcome("Error", str(error))
    return found._replace(again=max(found.again or AGAIN_SECONDS, _REST * (time.monotonic() - began)))


def _carried_out(client: Client, wanted: Wanted, *, applied: bool) -> Outcome:
    one = stack(wanted.name)
    if problems := list(refusals(one, wanted.plan)):
        return Outcome("Unfit", f"stack {wanted.name} cannot carry this Fabric: {problems[0].message}")
    all_steps = steps(one, wanted.plan)
    manner = Manner(f"trackbed-{wanted.name}", wait_seconds=0)
    work = Rollout(client, applyset.of_stack(wanted.plan, wanted.name), manner, tell=lambda _: None)
    try:
        work.carry_out(_objects(all_steps, gated=not applied))
    except ShutError as error:
        return _shut(error.until, error.gate)
    except UnservedError as error:
        return Outcome("KindMissing", f"{_line(error)}{_charts(wanted.name, all_steps)}")
    except OwnedError as error:
        forced = f"`trackbed apply cluster {wanted.name} -f FILE --force`"
        return Outcome("Conflict", _line(error).replace("--force takes", f"{forced} takes"))
    except StuckError as error:
        return Outcome("Waiting", _line(error), GATE_SECONDS)
    return Outcome(APPLIED, f"stack {wanted.name}: {len(work.wanted)} objects are as planned", DRIFT_SECONDS)


def _line(error: StuckError) -> str:
    """What went wrong in one line; nobody need run anything again here."""
    return " ".join(str(error).replace("; then run this again", "").split())


def _objects(all_steps: Iterable[Step], *, gated: bool) -> Iterator[Step]:
    for step in all_steps:
        if isinstance(step, Apply):
            yield step if gated else replace(step, until=())
        elif gated and not isinstance(step, Install):
            yield step


def _still_shut(client: Client, name: str, until: Until) -> Outcome | None:
    try:
        gate = gates.look(client, until)
    except RefusedError as error:
        if error.status != _FORBIDDEN:
            raise
        return _forbidden(name, error)._replace(shut=until)
    return None if gate.holds else _shut(until, gate)


def _shut(until: Until, gate: Gate) -> Outcome:
    told = f"{until.resource} is not at {until.until}: {'; '.join(gate.missing)}; what to do: {gate.remedy}"
    return Outcome("Waiting", told, GATE_SECONDS, until)


def _charts(name: str, all_steps: Iterable[Step]) -> str:
    """What a person must install, where the stack has any."""
    charts = [one for one in all_steps if isinstance(one, Install)]
    listed = ", ".join(f"{one.reference} {one.version or 'of your choice'}".rstrip() for one in charts)
    how = f"`trackbed apply cluster {name} -f FILE` installs them, `trackbed render stack {name} -f FILE -o DIR` writes"
    return f"; its charts, which the controller does not install: {listed}; {how} their values" if charts else ""


def _forbidden(name: str, error: RefusedError) -> Outcome:
    how = f"`trackbed render rights {name} -f FILE | kubectl apply -f -` grants it (docs/reference/stacks/rights.md)"
    return Outcome("Forbidden", f"{error.message}; {how}")
