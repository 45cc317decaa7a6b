"""`trackbed apply --nodes` on emulated servers; requests travel over the servers' channels instead of SSH."""

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
_COMPLETED = frozenset({"applied", "left", "same"})
"""Outcomes of an apply that ran to its end."""


def apply_over_channel(run: VmRun) -> list[CommandDocument]:
    """Apply the plan on every server; return what each printed, or why it printed nothing."""
    for node in run.plan.nodes:
        (locate_shared_folder(Path(run.lab.folder), node.name) / _REQUEST).write_bytes(_build_request(node))
    results = run.run_everywhere(["sh", "-c", _build_command()])
    return [
        _to_document(
            judged(node.name, result.status, result.output.decode().splitlines(), result.errors.decode().splitlines())
        )
        for node, result in zip(run.plan.nodes, results, strict=True)
    ]


def _build_request(node: NodePlan) -> bytes:
    return boot.payload(task("apply", node, "auto", int(SECONDS)))


def _build_command() -> str:
    """Return the command that runs a request with this Python, which servers see too and which compiled the request."""
    return f"PATH={Path(sys.executable).parent}:$PATH; {boot.command()} < /run/own/{_REQUEST}"


def _to_document(outcome: Outcome) -> CommandDocument:
    if outcome.kind in _COMPLETED:
        return dict(outcome.answer), ""
    return None, f"{outcome.node}: {outcome.told}"
