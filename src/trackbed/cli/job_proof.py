"""`trackbed job new proof`: a Job that proves the rails of the cluster's idle nodes."""

from __future__ import annotations

from collections.abc import Mapping

import click

from trackbed.cli.options import read_with_lock, refuse
from trackbed.cli.render_stack import choose_stack
from trackbed.cli.terminal import emit_document

_NAME = "proof"
_MOST_BYTES = 1_000_000
"""Of a ConfigMap, which an API server takes up to 1 MiB of."""


def check_job_name(name: str) -> None:
    """Exit with status 2 if no job can have a name."""
    from trackbed.cluster.jobs.kinds.kind import JOB_NAME_PATTERN

    if not JOB_NAME_PATTERN.fullmatch(name):
        refuse(f"--name {name!r}: lower-case letters, digits and - only, beginning with a letter, 40 at most")


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
    from trackbed.cluster.proof.job import build_proof_job
    from trackbed.fabric.yaml_text import render_documents

    if unused := [option for option, value in others.items() if value]:
        refuse(f"{unused[0]} is no option of kind proof, which takes all rails of all idle nodes; leave it out")
    check_job_name(name or _NAME)
    if image is None:
        refuse("name an image with --image; it must hold Trackbed, rping and perftest")
    text, loaded, plan = read_with_lock(fabric_file)
    if len(text) > _MOST_BYTES:
        refuse(f"the Fabric and its lock have {len(text):,} bytes, and a ConfigMap takes 1 MiB; use the chart's proof")
    stack = choose_stack(stack_name, loaded.fabric, plan, loaded.locate)
    if not build_requirements(stack, plan).has_rails:
        refuse(f"stack {stack.name} gives no rails to pods; `trackbed stacks` lists those that do")
    click.echo("it creates a ClusterRole, to find the nodes on which no pod holds devices", err=True)
    objects = build_proof_job(name or _NAME, namespace or plan.kubernetes.namespace, image, text.decode(), stack.name)
    for document in render_documents(objects):
        emit_document(document)
