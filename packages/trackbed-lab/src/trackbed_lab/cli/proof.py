"""Proofs for commands of the lab: by workers that a launcher starts, or in pods."""

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


def screen_in_pods(stack: str, kubeconfig: str, plan: Plan, rungs: Sequence[str]) -> ProofReport:
    """Screen one rail of a plan on these rungs from pods of the lab's image; return the report."""
    from trackbed.cli.prove import run_proof
    from trackbed.cli.prove_answers import AnswerFile
    from trackbed.cli.prove_pods import PodOptions, run_in_pods
    from trackbed.cluster.jobs.requirements import build_requirements, narrow_plan
    from trackbed.cluster.stacks import load_stack
    from trackbed.prove.proof import prove
    from trackbed.prove.report import build_report
    from trackbed_lab.kubernetes.proof import PROVED_PORT
    from trackbed_lab.kubernetes.proof_image import PROOF_IMAGE

    rails = [plan.common.rails[PROVED_PORT].rail]
    requirements = build_requirements(load_stack(stack), plan, rails)
    plan = narrow_plan(plan, rails)
    options = PodOptions(
        pods=True, image=PROOF_IMAGE, stack_name=stack, idle=False, namespace=None, kubeconfig=kubeconfig, context=None
    )
    answers = AnswerFile()
    run = partial(run_in_pods, plan, requirements, options, "screen", tuple(rungs), answers)
    proof, _ = run_proof(prove(plan, "screen", tuple(rungs), in_pods=True), run, answers)
    return build_report(proof)
