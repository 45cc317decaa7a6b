"""`trackbed apply --nodes` on emulated servers; requests travel over the servers' channels instead of SSH."""

import sys
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet import boot
from trackbed.fleet.outcome import Outcome, judge_output
from trackbed.fleet.task import build_task
from trackbed_lab.vm.machine import locate_shared_folder
from trackbed_lab.vm.run import SECONDS, CommandDocument, VmRun

_REQUEST = "request"
_COMPLETED = frozenset({"applied", "left", "same"})
"""Outcomes of an apply that ran to its end."""


def apply_over_channel(run: VmRun) -> list[CommandDocument]:
    """Apply the plan on every server; return the document of each server, or why there is none."""
    for node in run.plan.nodes:
        (locate_shared_folder(Path(run.lab.folder), node.name) / _REQUEST).write_bytes(_build_request(node))
    results = run.run_on_servers(["sh", "-c", _build_command()])
    return [
        _to_document(
            judge_output(
                node.name,
                "apply",
                result.status,
                result.output.decode().splitlines(),
                result.errors.decode().splitlines(),
            )
        )
        for node, result in zip(run.plan.nodes, results, strict=True)
    ]


def _build_request(node: NodePlan) -> bytes:
    return boot.build_payload(build_task("apply", node, "auto", int(SECONDS)))


def _build_command() -> str:
    """Return the command that runs a request with this Python, which servers share and which compiled the request."""
    return f"PATH={Path(sys.executable).parent}:$PATH; {boot.build_command()} < /run/own/{_REQUEST}"


def _to_document(outcome: Outcome) -> CommandDocument:
    if outcome.kind in _COMPLETED:
        return dict(outcome.answer), ""
    return None, f"{outcome.node}: {outcome.message}"
