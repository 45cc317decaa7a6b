"""`trackbed job`: add rails to a job, write a job with rails, compare a job with the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackbed.cli.completion import complete_file
from trackbed.cli.files import replace_file
from trackbed.cli.groups import CommandGroup
from trackbed.cli.job_judge import judge
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import (
    check_job_name,
    check_name,
    check_namespace,
    cluster_options,
    emit_json,
    exit_unknown,
    exit_with_problems,
    fabric_option,
    output_option,
    read_input_or_exit,
    refuse,
)
from trackbed.cli.render_stack import complete_stack_name, load_stack_of_fabric
from trackbed.cli.terminal import emit_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.cluster.jobs.editing.job_file import JobFile
    from trackbed.cluster.jobs.jobs import PatchedJob
    from trackbed.cluster.jobs.kinds.kind import JobParameters
    from trackbed.cluster.jobs.requirements import PodRequirements
    from trackbed.fabric.plan.plan import Plan

_Result = TypeVar("_Result")
_NAME = "all-reduce"
"""Name of a new job."""


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


_stack_option = click.option(
    "--stack",
    "stack_name",
    metavar="NAME",
    shell_complete=complete_stack_name,
    help="How pods get NICs; `trackbed stacks -f FILE` lists what fits. Default: the Fabric's kubernetes.stack.",
)
_rails_option = click.option(
    "--rails", metavar="NUMBERS", help="Rails of each pod, such as 0,2,4,6 or 0-3. Default: all of the fabric."
)
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
@_stack_option
@_rails_option
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

    _, requirements = _load_requirements(stack_name, fabric_file, rails, file)
    job_file = _read_job_file(file)
    jobs = _convert_errors(lambda: inject_into_jobs(job_file.documents, requirements, pod_specs))
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


class _HelpWithKinds(click.Command):
    """A command whose help lists the kinds of jobs, which are loaded only for it."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help text with the kinds inserted."""
        from inspect import cleandoc
        from textwrap import wrap

        from trackbed.cluster.jobs.nccl_options import NCCL_OPTIONS

        lines = [[f"  {name}", *(f"      {line}" for line in wrap(text, 70))] for name, text in NCCL_OPTIONS.items()]
        options = "\n".join("\n".join(part) for part in lines)
        self.help = cleandoc(self.help or "").format(kinds=", ".join(_list_kinds()), options=options)
        super().format_help_text(ctx, formatter)


@command.command("new", cls=_HelpWithKinds)
@click.argument("kind", shell_complete=lambda *_: _list_kinds())
@fabric_option
@_stack_option
@_rails_option
@click.option("--name", help="Name of the job. Default: all-reduce, or proof.")
@click.option(
    "--image",
    help="Image of its containers, with NCCL and torchrun (mpijob: nccl-tests; proof: Trackbed, rping, perftest).",
)
@click.option(
    "--node-count",
    "nodes",
    type=click.IntRange(1),
    metavar="N",
    help="Nodes it takes. Default: all that have the rails.",
)
@refuse_option("--nodes", instead="--node-count {value}")
@click.option("--cpu", type=click.IntRange(1), help="CPUs of each pod. Default: none; 4 a GPU where CPUs are pinned.")
@click.option("--memory", metavar="QUANTITY", help="Memory of each pod, as 256Gi. Default: as for --cpu, 32Gi a GPU.")
@click.option("--hugepages", metavar="SIZE=QUANTITY", help="Huge pages of each pod, as 2Mi=4Gi.")
@click.option("--nccl", multiple=True, metavar="NAME=VALUE", help="Option of NCCL; see below.")
@click.option("--by-rail", is_flag=True, help="Measure each rail by itself, all at once (mpijob); see `job judge`.")
@click.option("--queue", help="Queue it waits in: Kueue's LocalQueue, or Volcano's Queue.")
@click.option("--topology", multiple=True, metavar="LABEL", help="Node label that Kueue keeps pods together by.")
@click.option("--namespace", help="Namespace of the job. Default: the Fabric's; proof: trackbed-proof.")
def new(
    kind: str,
    fabric_file: str,
    stack_name: str | None,
    rails: str | None,
    name: str | None,
    image: str | None,
    nodes: int | None,
    cpu: int | None,
    memory: str | None,
    hugepages: str | None,
    nccl: tuple[str, ...],
    by_rail: bool,
    queue: str | None,
    topology: tuple[str, ...],
    namespace: str | None,
) -> None:
    """Write a job of a KIND that measures an all-reduce over all rails; `kueue` writes a queue for such jobs.

    KIND: {kinds}.

    `proof` writes a Job of `trackbed prove`, which measures the rails of all nodes on which no pod holds devices.

    With CPU and memory the pods are Guaranteed: kubelet's static policy gives them CPUs of their own. A job on one node
    stays on NVLink and measures no rail.

    \b
    Options of NCCL:
    {options}

    \b
    Examples:
      trackbed job new mpijob -f fabric.yaml --stack spiderpool --image IMAGE \\
          | kubectl apply -f -
      trackbed job new kueue -f fabric.yaml --stack spiderpool --name rails
      trackbed job new jobset -f fabric.yaml --stack spiderpool --image IMAGE \\
          --node-count 4 --queue rails
      trackbed job new proof -f fabric.yaml --image IMAGE >proof.yaml
    """
    from trackbed.cluster.jobs import kinds
    from trackbed.cluster.jobs.kinds.queued import build_queue_objects
    from trackbed.fabric.yaml_text import render_documents

    check_name(kind, _list_kinds(), "kind", f"there are {', '.join(_list_kinds())}")
    if kind == "proof":
        from trackbed.cli.job_proof import write_proof_job

        texts = {"--rails": rails, "--memory": memory, "--hugepages": hugepages, "--queue": queue}
        others = {**texts, "--node-count": nodes, "--cpu": cpu, "--nccl": nccl, "--topology": topology}
        others["--by-rail"] = by_rail
        write_proof_job(fabric_file, stack_name, name, image, namespace, others)
        return
    name = name or _NAME
    plan, requirements = _load_requirements(stack_name, fabric_file, rails)
    _check_arguments(plan, kind, name, namespace, image, nodes)
    requirements = _add_nccl_options(requirements, nccl)
    params = kinds.build_job_parameters(plan, requirements, name, image or "", nodes or _choose_node_count(kind, plan))
    params = _set_compute(params, cpu, memory, hugepages)
    params = _split_by_rail(params, kind, plan, rails) if by_rail else params
    if params.node_count == 1 and kind != "kueue":
        click.echo("on one node the all-reduce stays on NVLink and uses no rail; take --node-count 2 or more", err=True)
    if kind == "kueue":
        objects = build_queue_objects(plan, requirements, name, params.gpus_per_node, topology)
        if requirements.access.claims:
            click.echo("Kueue counts claims only if its configuration has deviceClassMappings for them", err=True)
    else:
        level = next(iter(topology), None)
        objects, notes = _convert_errors(lambda: kinds.build_job(kinds.KINDS[kind], requirements, params, queue, level))
        for note in notes:
            click.echo(note, err=True)
    for text in render_documents(kinds.set_namespace(objects, namespace or plan.kubernetes.namespace)):
        emit_document(text)


@command.command("diff")
@click.argument("file", metavar="[FILE|-]", default="", shell_complete=complete_file)
@fabric_option
@_stack_option
@_rails_option
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
    _, requirements = _load_requirements(stack_name, fabric_file, rails, file)
    documents = [_read_live_pod(pod, kubeconfig, context)] if pod else _read_job_file(file).documents
    jobs = _convert_errors(lambda: compare_jobs(documents, requirements, pod_specs))
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


def _list_kinds() -> list[str]:
    from trackbed.cluster.jobs.kinds import KINDS

    return [*KINDS, "kueue", "proof"]


def _check_arguments(
    plan: Plan, kind: str, name: str, namespace: str | None, image: str | None, nodes: int | None
) -> None:
    check_job_name(name)
    if namespace is not None:
        check_namespace(namespace)
    if image is None and kind != "kueue":
        refuse("name an image with --image; it must hold NCCL and torchrun, for mpijob nccl-tests")
    if nodes and nodes > len(plan.nodes):
        refuse(f"--node-count {nodes}: fabric {plan.common.fabric!r} has {len(plan.nodes)} with these rails")


def _choose_node_count(kind: str, plan: Plan) -> int:
    """Return the nodes of a new job: all; two for pods, each of which is an object of its own."""
    return min(2, len(plan.nodes)) if kind == "pod" else len(plan.nodes)


def _add_nccl_options(requirements: PodRequirements, settings: tuple[str, ...]) -> PodRequirements:
    import msgspec

    from trackbed.cluster.jobs.nccl_options import parse_nccl_options

    try:
        options = parse_nccl_options(settings)
    except ValueError as error:
        refuse(f"--nccl: {error}")
    return msgspec.structs.replace(requirements, variables=requirements.variables + options)


def _set_compute(params: JobParameters, cpu: int | None, memory: str | None, hugepages: str | None) -> JobParameters:
    import msgspec

    compute = dict(params.compute)
    size, _, quantity = (hugepages or "").partition("=")
    if hugepages and not (size and quantity):
        refuse(f"--hugepages {hugepages}: write SIZE=QUANTITY, such as 2Mi=4Gi")
    if bool(cpu) != bool(memory) and not compute:
        refuse("name --cpu and --memory together: with one of them the pods are not Guaranteed")
    compute |= {"cpu": str(cpu)} if cpu else {}
    compute |= {"memory": memory} if memory else {}
    compute |= {f"hugepages-{size}": quantity} if hugepages else {}
    if hugepages and "memory" not in compute:
        refuse("name --cpu and --memory with --hugepages: the API server refuses huge pages alone")
    return msgspec.structs.replace(params, compute=tuple(compute.items()))


def _split_by_rail(params: JobParameters, kind: str, plan: Plan, rails: str | None) -> JobParameters:
    import msgspec

    from trackbed.cluster.jobs.rail_choice import choose_rails

    if kind != "mpijob":
        refuse("--by-rail is for mpijob: nccl-tests alone can split its ranks")
    count, gpus = len(choose_rails(plan, rails)), params.gpus_per_node
    if gpus != count:
        refuse(f"--by-rail needs one GPU for each rail: a node has {gpus} GPUs, and the job {count} rails")
    return msgspec.structs.replace(params, by_rail=True)


def _load_requirements(
    stack_name: str | None, fabric_file: str, rails: str | None, file: str = ""
) -> tuple[Plan, PodRequirements]:
    """Return the plan of the nodes that have the rails, and the requirements of pods with them."""
    from trackbed.cluster.jobs.rail_choice import choose_rails, describe_other_nodes, keep_nodes
    from trackbed.cluster.jobs.requirements import build_requirements

    if file == fabric_file == "-":
        refuse("the job and the Fabric cannot both come from standard input; name a file for one of them")
    stack, plan = load_stack_of_fabric(stack_name, fabric_file)
    try:
        numbers = choose_rails(plan, rails)
    except ValueError as error:
        refuse(f"--rails {rails}: {error}")
    requirements = build_requirements(stack, plan, numbers)
    if not requirements.has_rails:
        refuse(f"stack {stack.name} gives no rails to pods; `trackbed stacks` lists those that do")
    if warning := describe_other_nodes(plan, numbers):
        click.echo(f"warning: {warning}", err=True)
    return keep_nodes(plan, numbers), requirements


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


def _convert_errors(work: Callable[[], _Result]) -> _Result:
    from trackbed.cluster.jobs.template import NotAJobError

    try:
        return work()
    except NotAJobError as error:
        refuse(error)
