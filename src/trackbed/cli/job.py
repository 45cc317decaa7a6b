"""`trackbed job`: add rails to a job, write a job with rails, compare a job with the plan."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackbed.cli.options import emit_json, fabric_option, output_option, refuse, stop, suggest
from trackbed.cli.render_stack import load_stack, stack_names

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.cluster.jobs.jobs import Patched
    from trackbed.cluster.jobs.requirements import PodRequirements
    from trackbed.cluster.jobs.round_trip import File
    from trackbed.fabric.plan.plan import Plan

_Result = TypeVar("_Result")


@click.group("job")
def command() -> None:
    """Put rails on a job, write one, compare one with the plan."""


def _stack_option(wrapped: Callable[..., Any]) -> Callable[..., Any]:
    about = "How pods get NICs; `trackbed stacks -f FILE` lists what fits."
    return click.option("--stack", "stack_name", required=True, metavar="NAME", shell_complete=stack_names, help=about)(
        wrapped
    )


@command.command("patch")
@click.argument("file", metavar="FILE|-")
@fabric_option
@_stack_option
@click.option("--in-place", is_flag=True, help="Write the result back to FILE instead of printing it.")
def patch(file: str, fabric_file: str, stack_name: str, in_place: bool) -> None:
    """Add rails to every job in FILE; everything else is kept, comments too.

    Existing values are kept even where the plan differs; each such value is reported on standard error.

    \b
    Examples:
      trackbed job patch train.yaml -f fabric.yaml --stack spiderpool | kubectl apply -f -
      trackbed job patch train.yaml -f fabric.yaml --stack spiderpool --in-place
    """
    from trackbed.cluster.jobs.jobs import put_rails

    _, requirements = _load_requirements(stack_name, fabric_file, file)
    job_file = _read_job_file(file)
    for job in _convert_errors(lambda: put_rails(job_file.documents, requirements)):
        kept = [note for note in job.notes if note.verdict != "missing"]
        for note in kept:
            click.echo(f"{job.title}: {note}", err=True)
        click.echo(f"{job.title}: {len(job.notes) - len(kept)} added, {len(kept)} kept", err=True)
    if in_place and file != "-":
        _replace_file(Path(file), job_file.text())
    else:
        click.echo(job_file.text(), nl=False)


class _HelpWithKinds(click.Command):
    """A command whose help lists the kinds of jobs, which are loaded only for it."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help with the kinds filled in."""
        self.help = (self.help or "").format(kinds=", ".join(_list_kinds()))
        super().format_help_text(ctx, formatter)


@command.command("new", cls=_HelpWithKinds)
@click.argument("kind", shell_complete=lambda *_: _list_kinds())
@fabric_option
@_stack_option
@click.option("--name", default="all-reduce", show_default=True, help="Name of the job.")
@click.option("--image", help="Image of its containers, with NCCL and torchrun (pod, mpijob: nccl-tests).")
@click.option("--nodes", type=click.IntRange(1), help="Nodes it takes. Default: all of the fabric.")
@click.option("--queue", help="Queue it waits in: Kueue's LocalQueue, or Volcano's Queue.")
@click.option("--topology", multiple=True, metavar="LABEL", help="Node label that Kueue keeps pods together by.")
@click.option("--namespace", help="Namespace of the job. Default: the Fabric's.")
def new(
    kind: str,
    fabric_file: str,
    stack_name: str,
    name: str,
    image: str | None,
    nodes: int | None,
    queue: str | None,
    topology: tuple[str, ...],
    namespace: str | None,
) -> None:
    """Write a job of a KIND that measures an all-reduce over all rails; `kueue` writes a queue for such jobs.

    KIND: {kinds}.

    \b
    Examples:
      trackbed job new mpijob -f fabric.yaml --stack spiderpool --image IMAGE | kubectl apply -f -
      trackbed job new kueue -f fabric.yaml --stack spiderpool --name rails
      trackbed job new jobset -f fabric.yaml --stack spiderpool --image IMAGE --nodes 4 --queue rails
    """
    from trackbed.cluster.jobs import kinds
    from trackbed.cluster.jobs.kinds.queued import queue_objects
    from trackbed.fabric.yaml_text import render_documents

    _check_kind(kind)
    planned, requirements = _load_requirements(stack_name, fabric_file)
    _check_arguments(planned, kind, name, image, nodes)
    shape = kinds.shape(planned, requirements, name, image or "", nodes or len(planned.nodes))
    if kind == "kueue":
        objects = queue_objects(planned, requirements, name, shape.gpus, topology)
        if requirements.access.claims:
            click.echo("Kueue counts claims only if its configuration has deviceClassMappings for them", err=True)
    else:
        level = next(iter(topology), None)
        objects, notes = _convert_errors(lambda: kinds.new(kinds.KINDS[kind], requirements, shape, queue, level))
        for note in notes:
            click.echo(note, err=True)
    for text in render_documents(kinds.in_namespace(objects, namespace or planned.kubernetes.namespace)):
        click.echo(text, nl=False)


@command.command("diff")
@click.argument("file", metavar="[FILE|-]", default="")
@fabric_option
@_stack_option
@click.option("--pod", metavar="NAMESPACE/NAME", help="Look at a pod of a cluster instead of a file.")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster. Default: as kubectl does.")
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@output_option("table", "json")
def diff(
    file: str,
    fabric_file: str,
    stack_name: str,
    pod: str | None,
    kubeconfig: str | None,
    context: str | None,
    output_format: str,
) -> None:
    """Show how the jobs in FILE, or a pod, differ from the plan, and what each difference breaks.

    Exit status: 0 nothing differs, 1 something does, 2 wrong use or input, 3 the cluster does not answer.

    \b
    Examples:
      trackbed job diff train.yaml -f fabric.yaml --stack spiderpool
      trackbed job diff --pod training/w-0 -f fabric.yaml --stack spiderpool
    """
    from trackbed.cluster.jobs.jobs import compare

    if bool(file) == bool(pod):
        refuse("name either a FILE or a pod with --pod")
    _, requirements = _load_requirements(stack_name, fabric_file, file)
    documents = [_read_live_pod(pod, kubeconfig, context)] if pod else _read_job_file(file).documents
    jobs = _convert_errors(lambda: compare(documents, requirements))
    if output_format == "json":
        emit_json([{"job": job.title, "notes": job.notes} for job in jobs])
    else:
        _show_differences(jobs)
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
        click.echo(f"trackbed: {error}", err=True)
        raise SystemExit(3) from error
    except KubeError as error:
        refuse(str(error))


def _show_differences(jobs: list[Patched]) -> None:
    from trackbed.cli.tables import print_table

    rows = [(job.title, note.verdict, note.what, note.breaks) for job in jobs for note in job.notes]
    if rows:
        print_table(("job", "", "what", "breaks"), rows)
    else:
        click.echo(f"{', '.join(job.title for job in jobs)}: as planned")


def _list_kinds() -> list[str]:
    from trackbed.cluster.jobs.kinds import KINDS

    return [*KINDS, "kueue"]


def _check_kind(kind: str) -> None:
    if kind not in _list_kinds():
        refuse(f"no kind {kind!r}{suggest(kind, _list_kinds(), 'there are ' + ', '.join(_list_kinds()))}")


def _check_arguments(planned: Plan, kind: str, name: str, image: str | None, nodes: int | None) -> None:
    from trackbed.cluster.jobs.kinds.kind import NAME

    if not NAME.fullmatch(name):
        refuse(f"--name {name!r}: lower-case letters, digits and - only, beginning with a letter, 40 at most")
    if image is None and kind != "kueue":
        refuse("name an image with --image; it must hold NCCL and, for pod and mpijob, nccl-tests")
    if nodes and nodes > len(planned.nodes):
        refuse(f"--nodes {nodes}: fabric {planned.common.fabric!r} has {len(planned.nodes)}")


def _load_requirements(stack_name: str, fabric_file: str, file: str = "") -> tuple[Plan, PodRequirements]:
    from trackbed.cluster.jobs.requirements import build_requirements

    if file == fabric_file == "-":
        refuse("the job and the Fabric cannot both come from standard input; name a file for one of them")
    stack, planned = load_stack(stack_name, fabric_file)
    requirements = build_requirements(stack, planned)
    if not requirements.has_rails:
        refuse(f"stack {stack_name} gives no rails to pods; `trackbed stacks` lists those that do")
    return planned, requirements


def _read_job_file(file: str) -> File:
    from trackbed.cluster.jobs.round_trip import MAX_BYTES, File
    from trackbed.fabric.model.problems import SpecError

    try:
        if file == "-":
            raw = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:
                raw = stream.read(MAX_BYTES + 1)
        return File(raw, "<stdin>" if file == "-" else file)
    except OSError as error:
        refuse(f"cannot read {file}: {error.strerror}")
    except SpecError as error:
        stop(error.problems)


def _convert_errors(work: Callable[[], _Result]) -> _Result:
    from trackbed.cluster.jobs.template import NotAJobError

    try:
        return work()
    except NotAJobError as error:
        refuse(str(error))


def _replace_file(path: Path, text: str) -> None:
    """Replace a file atomically, with its permissions."""
    path = path.resolve()
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(path.stat().st_mode & 0o7777)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        refuse(f"cannot write {path}: {error.strerror}")
