"""`trackbed job`: add rails to a job, write a job with rails, compare a job with the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.completion import complete_file
from trackbed.cli.files import replace_file
from trackbed.cli.groups import CommandGroup
from trackbed.cli.job_judge import judge
from trackbed.cli.job_new import new
from trackbed.cli.job_options import convert_errors, load_requirements, rails_option, stack_option
from trackbed.cli.options import (
    cluster_options,
    emit_json,
    exit_unknown,
    exit_with_problems,
    fabric_option,
    output_option,
    read_input_or_exit,
    refuse,
)
from trackbed.cli.terminal import emit_document

if TYPE_CHECKING:
    from trackbed.cluster.jobs.editing.job_file import JobFile
    from trackbed.cluster.jobs.jobs import PatchedJob


@click.group("job", cls=CommandGroup)
def command() -> None:
    """Add rails to a job, write a job with rails, compare a job with the plan, or judge what it measured.

    \b
    Examples:
      trackbed job patch train.yaml -f fabric.yaml > train-with-rails.yaml
      trackbed job diff train.yaml -f fabric.yaml
      trackbed job new pytorchjob -f fabric.yaml
    """


command.add_command(judge)
command.add_command(new)


_pod_spec_option = click.option(
    "--pod-spec",
    "pod_specs",
    multiple=True,
    metavar="PATH",
    help="Path of a pod template or pod spec in a kind that is not known, such as spec.groups[0].podSpec.",
)


@command.command("patch")
@click.argument("file", metavar="FILE|-", shell_complete=complete_file)
@fabric_option
@stack_option
@rails_option
@_pod_spec_option
@click.option("--in-place", is_flag=True, help="Write the result back to FILE instead of printing it.")
def patch(
    file: str, fabric_file: str, stack_name: str | None, rails: str | None, pod_specs: tuple[str, ...], in_place: bool
) -> None:
    """Add rails to every job in FILE; everything else stays byte for byte.

    Existing values are kept even where the plan differs; each such value is reported on standard error. A job with
    hostNetwork is refused on a stack that gives pods interfaces of their own.

    \b
    Examples:
      trackbed job patch train.yaml -f fabric.yaml --stack spiderpool \\
          | kubectl apply -f -
      trackbed job patch train.yaml -f fabric.yaml --stack spiderpool --in-place
    """
    from trackbed.cluster.jobs.jobs import inject_into_jobs

    _, requirements = load_requirements(stack_name, fabric_file, rails, file)
    job_file = _read_job_file(file)
    jobs = convert_errors(lambda: inject_into_jobs(job_file.documents, requirements, pod_specs))
    _refuse_host_network(jobs)
    for job in jobs:
        kept = [note for note in job.notes if note.verdict != "missing"]
        for note in kept:
            click.echo(f"{job.title}: {note}", err=True)
        click.echo(f"{job.title}: {len(job.notes) - len(kept)} added, {len(kept)} kept", err=True)
    text = _render_or_exit(job_file)
    if in_place and file != "-":
        replace_file(Path(file), text.encode())
    else:
        emit_document(text)


@command.command("diff")
@click.argument("file", metavar="[FILE|-]", default="", shell_complete=complete_file)
@fabric_option
@stack_option
@rails_option
@_pod_spec_option
@click.option("--pod", metavar="NAMESPACE/NAME", help="Look at a pod of a cluster instead of a file.")
@cluster_options
@output_option("table", "json")
def diff(
    file: str,
    fabric_file: str,
    stack_name: str | None,
    rails: str | None,
    pod_specs: tuple[str, ...],
    pod: str | None,
    kubeconfig: str | None,
    context: str | None,
    output_format: str,
) -> None:
    """Show how the jobs in FILE, or a pod, differ from the plan, and what each difference breaks.

    Exits with 0 when nothing differs, 1 when something does, 2 on wrong use or input, 3 when the cluster does not
    respond.

    \b
    Examples:
      trackbed job diff train.yaml -f fabric.yaml --stack spiderpool
      trackbed job diff --pod training/w-0 -f fabric.yaml --stack spiderpool
    """
    from trackbed.cluster.jobs.jobs import compare_jobs

    if bool(file) == bool(pod):
        refuse("name either a FILE or a pod with --pod")
    _, requirements = load_requirements(stack_name, fabric_file, rails, file)
    documents = [_read_live_pod(pod, kubeconfig, context)] if pod else _read_job_file(file).documents
    jobs = convert_errors(lambda: compare_jobs(documents, requirements, pod_specs))
    if output_format == "json":
        emit_json([{"job": job.title, "notes": job.notes} for job in jobs])
    else:
        _print_differences(jobs)
    if any(job.notes for job in jobs):
        raise SystemExit(1)


def _read_live_pod(pod: str, kubeconfig: str | None, context: str | None) -> dict[str, Any]:
    from trackbed.cli.cluster_session import ClusterSession
    from trackbed.cluster.api.errors import KubeError, UnreachableError

    namespace, _, name = pod.rpartition("/")
    try:
        with ClusterSession(kubeconfig, context) as cluster:
            return cluster.run(cluster.client.get("v1", "Pod", name, namespace or None))
    except UnreachableError as error:
        exit_unknown(error)
    except KubeError as error:
        refuse(error)


def _print_differences(jobs: list[PatchedJob]) -> None:
    from trackbed.cli.tables import print_table

    rows = [(job.title, note.role, note.verdict, note.difference, note.breaks) for job in jobs for note in job.notes]
    if any(role for _, role, *_ in rows):
        print_table(("job", "role", "", "what", "breaks"), rows)
    elif rows:
        print_table(("job", "", "what", "breaks"), [(title, *cells) for title, _, *cells in rows])
    else:
        click.echo(f"{', '.join(job.title for job in jobs)}: as planned")


def _read_job_file(file: str) -> JobFile:
    from trackbed.cluster.jobs.editing.job_file import MAX_BYTES, JobFile
    from trackbed.fabric.model.problems import SpecError

    raw = read_input_or_exit(file, MAX_BYTES)
    try:
        return JobFile(raw, "<stdin>" if file == "-" else file)
    except SpecError as error:
        exit_with_problems(error.problems)


def _refuse_host_network(jobs: list[PatchedJob]) -> None:
    from trackbed.cluster.jobs.placement import HOST_NETWORK_CONFLICT

    for job in jobs:
        for note in job.notes:
            if note.code == HOST_NETWORK_CONFLICT.code:
                refuse(f"{job.title}: {note.path}: {note.difference}: {note.breaks} [{note.code}]")


def _render_or_exit(job_file: JobFile) -> str:
    from trackbed.fabric.model.problems import SpecError

    try:
        return job_file.render()
    except SpecError as error:
        exit_with_problems(error.problems)
