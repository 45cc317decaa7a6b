"""`trackbed job new proof`: a Job that proves the rails of the cluster's idle nodes."""

from __future__ import annotations

from collections.abc import Mapping

import click

from trackbed.cli.options import check_job_name, check_namespace, read_with_lock, refuse
from trackbed.cli.prove_source import check_pairs
from trackbed.cli.render_stack import choose_stack
from trackbed.cli.terminal import emit_document

_NAME, _NAMESPACE, _MODE = "proof", "trackbed-proof", "screen"
_MOST_BYTES = 1_000_000
"""Of a ConfigMap, which an API server takes up to 1 MiB of."""


def write_proof_job(
    fabric_file: str,
    stack_name: str | None,
    name: str | None,
    image: str | None,
    namespace: str | None,
    others: Mapping[str, object],
) -> None:
    """Print the objects of the Job. `others` are options of other kinds. Exit with status 2 on wrong use."""
    from trackbed.cluster.jobs.requirements import build_requirements
    from trackbed.cluster.proof.job import ProofJob, build_proof_job
    from trackbed.fabric.yaml_text import render_documents

    if unused := [option for option, value in others.items() if value]:
        refuse(f"{unused[0]} is no option of kind proof, which takes all rails of all idle nodes; leave it out")
    name, namespace = name or _NAME, namespace or _NAMESPACE
    check_job_name(name)
    check_namespace(namespace)
    if not image or image.split() != [image]:
        refuse("name an image with --image; it must hold Trackbed, rping and perftest")
    text, loaded, plan = read_with_lock(fabric_file)
    if len(text) > _MOST_BYTES:
        refuse(f"the Fabric and its lock have {len(text):,} bytes, and a ConfigMap takes 1 MiB; use the chart's proof")
    stack = choose_stack(stack_name, loaded.fabric, plan, loaded.locate)
    if not build_requirements(stack, plan).has_rails:
        refuse(f"stack {stack.name} gives no rails to pods; `trackbed stacks` lists those that do")
    check_pairs(plan, _MODE)
    job = ProofJob(name, namespace, plan.kubernetes.namespace, image, stack.name, text.decode())
    click.echo(
        f"a Job in namespace {namespace}, with pods in {job.pod_namespace}; a ClusterRole lets it look for idle nodes",
        err=True,
    )
    for document in render_documents(build_proof_job(job)):
        emit_document(document)
