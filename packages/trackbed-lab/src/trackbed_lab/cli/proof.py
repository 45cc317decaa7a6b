"""Proofs whose workers a launcher starts, for commands of the lab."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.fabric.plan.plan import Plan
    from trackbed.prove.report import ProofReport


def run_screen(plan: Plan, rungs: Sequence[str], launcher: Sequence[str]) -> ProofReport:
    """Screen all nodes of a plan on these rungs; return the report."""
    from trackbed.cli.prove import run_proof
    from trackbed.cli.prove_answers import AnswerFile
    from trackbed.fleet.proof_ssh import run_sheets
    from trackbed.fleet.run import SshOptions
    from trackbed.prove.proof import prove
    from trackbed.prove.report import build_report

    names = [node.name for node in plan.nodes]
    ssh = SshOptions(launcher=tuple(launcher))
    proof, _ = run_proof(prove(plan, "screen", tuple(rungs)), partial(run_sheets, names, ssh), AnswerFile())
    return build_report(proof)
