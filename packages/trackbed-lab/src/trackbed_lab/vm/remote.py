"""`trackbed apply --nodes` in emulated servers: what it sends to a host goes over their own channel instead of ssh."""

from __future__ import annotations

import sys
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet import boot
from trackbed.fleet.outcome import Outcome, judged
from trackbed.fleet.task import task
from trackbed_lab.vm.machine import locate_shared_folder
from trackbed_lab.vm.run import SECONDS, CommandDocument, VmRun

_REQUEST = "request"
_DONE = frozenset({"applied", "left", "same"})
"""Outcomes of an apply that came to its end."""


def apply_over_channel(course: VmRun) -> list[CommandDocument]:
    """What each server answers; for one that has none, why."""
    for node in course.plan.nodes:
        (locate_shared_folder(Path(course.here.folder), node.name) / _REQUEST).write_bytes(_request(node))
    done = course.run_everywhere(["sh", "-c", _command()])
    return [
        _answer(judged(node.name, one.status, one.output.decode().splitlines(), one.errors.decode().splitlines()))
        for node, one in zip(course.plan.nodes, done, strict=True)
    ]


def _request(node: NodePlan) -> bytes:
    return boot.payload(task("apply", node, "auto", int(SECONDS)))


def _command() -> str:
    """With the Python that the request was compiled by: a server sees all programs of this machine."""
    return f"PATH={Path(sys.executable).parent}:$PATH; {boot.command()} < /run/own/{_REQUEST}"


def _answer(outcome: Outcome) -> CommandDocument:
    if outcome.kind in _DONE:
        return dict(outcome.answer), ""
    return None, f"{outcome.node}: {outcome.told}"
