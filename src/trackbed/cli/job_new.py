"""`trackbed job new`: write a job that measures an all-reduce over all rails, or a queue for such jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.job_options import (
    choose_gpus_or_refuse,
    choose_rails_or_refuse,
    convert_errors,
    load_requirements,
    rails_option,
    stack_option,
)
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import check_job_name, check_name, check_namespace, fabric_option, refuse
from trackbed.cli.terminal import emit_document

if TYPE_CHECKING:
    from trackbed.cluster.jobs.kinds.kind import JobParameters
    from trackbed.cluster.jobs.requirements import PodRequirements
    from trackbed.cluster.stacks.objects import Manifest
    from trackbed.fabric.plan.plan import Plan

_NAME = "all-reduce"
"""Name of a new job."""
_LONGEST_LABEL = 63
"""Characters of a label's value, which is where a job names its queue."""
_ON_NVLINK = "on one node the all-reduce stays on NVLink and uses no rail; take --node-count 2 or more, or --no-nvlink"


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


@click.command("new", cls=_HelpWithKinds)
@click.argument("kind", shell_complete=lambda *_: _list_kinds())
@fabric_option
@stack_option
@rails_option
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
@click.option("--gpu-resource", metavar="NAME", help="GPUs, as amd.com/gpu, where nodes have those of several vendors.")
@click.option("--cpu", type=click.IntRange(1), help="CPUs of each pod. Default: none; 4 a GPU where CPUs are pinned.")
@click.option("--memory", metavar="QUANTITY", help="Memory of each pod, as 256Gi. Default: as for --cpu, 32Gi a GPU.")
@click.option("--hugepages", metavar="SIZE=QUANTITY", help="Huge pages of each pod, as 2Mi=4Gi.")
@click.option("--nccl", multiple=True, metavar="NAME=VALUE", help="Option of NCCL; see below.")
@click.option("--no-nvlink", is_flag=True, help="Keep GPUs off NVLink and shared memory: one node measures its rails.")
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
    gpu_resource: str | None,
    cpu: int | None,
    memory: str | None,
    hugepages: str | None,
    nccl: tuple[str, ...],
    no_nvlink: bool,
    by_rail: bool,
    queue: str | None,
    topology: tuple[str, ...],
    namespace: str | None,
) -> None:
    """Write a job of a KIND that measures an all-reduce over all rails; `kueue` writes a queue for such jobs.

    KIND: {kinds}.

    `proof` writes a Job of `trackbed prove`, which measures the rails of all nodes on which no pod holds devices.

    With CPU and memory the pods are Guaranteed: kubelet's static policy gives them CPUs of their own. A job on one node
    stays on NVLink and measures no rail, unless --no-nvlink keeps it off.

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
    from trackbed.cluster.jobs.nccl_options import NVLINK_OFF

    check_name(kind, _list_kinds(), "kind", f"there are {', '.join(_list_kinds())}")
    if kind == "proof":
        from trackbed.cli.job_proof import write_proof_job

        texts = {"--rails": rails, "--memory": memory, "--hugepages": hugepages, "--queue": queue}
        texts |= {"--gpu-resource": gpu_resource}
        others = {**texts, "--node-count": nodes, "--cpu": cpu, "--nccl": nccl, "--topology": topology}
        others |= {"--by-rail": by_rail, "--no-nvlink": no_nvlink}
        write_proof_job(fabric_file, stack_name, name, image, namespace, others)
        return
    name = name or _NAME
    plan, requirements = load_requirements(stack_name, fabric_file, rails)
    plan, requirements = _choose_gpus(kind, plan, requirements, gpu_resource)
    _check_arguments(plan, kind, name, namespace, image, nodes)
    _check_queue(queue)
    if no_nvlink:
        _check_one_node(kind, nodes, by_rail=by_rail)
        nodes, nccl = 1, (*nccl, *NVLINK_OFF)
    requirements = _add_nccl_options(requirements, nccl)
    params = kinds.build_job_parameters(plan, requirements, name, image or "", nodes or _choose_node_count(kind, plan))
    params = _set_compute(params, cpu, memory, hugepages)
    params = _set_namespace(params, namespace or plan.kubernetes.namespace)
    params = _split_by_rail(params, kind, plan, rails) if by_rail else params
    if params.node_count == 1 and kind != "kueue" and not no_nvlink:
        click.echo(_ON_NVLINK, err=True)
    if kind == "kueue":
        objects = build_queue_objects(plan, requirements, name, params.gpus_per_node, topology)
        if requirements.access.claims:
            click.echo("Kueue counts claims only if its configuration has deviceClassMappings for them", err=True)
    else:
        level = next(iter(topology), None)
        objects, notes = convert_errors(lambda: kinds.build_job(kinds.KINDS[kind], requirements, params, queue, level))
        for note in notes:
            click.echo(note, err=True)
    _print_objects(objects, namespace or plan.kubernetes.namespace)


def _print_objects(objects: list[Manifest], namespace: str) -> None:
    from trackbed.cluster.jobs.kinds import set_namespace
    from trackbed.fabric.yaml_text import render_documents

    for text in render_documents(set_namespace(objects, namespace)):
        emit_document(text)


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
        refuse(f"--node-count {nodes}: fabric {plan.common.fabric!r} has {len(plan.nodes)} with these rails and GPUs")


def _choose_gpus(
    kind: str, plan: Plan, requirements: PodRequirements, gpu_resource: str | None
) -> tuple[Plan, PodRequirements]:
    """Return the nodes that a job may take, and its requirements; a queue has all, with a quota for each vendor."""
    if kind != "kueue":
        return choose_gpus_or_refuse(plan, requirements, gpu_resource)
    if gpu_resource:
        refuse("--gpu-resource is for jobs: a queue has a quota for the GPUs of each vendor; leave it out")
    return plan, requirements


def _check_one_node(kind: str, nodes: int | None, *, by_rail: bool) -> None:
    if kind == "kueue" or by_rail or (nodes or 1) > 1:
        refuse("--no-nvlink is for an all-reduce on one node; leave out kind kueue, --by-rail and --node-count")


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
    if hugepages and not (_is_quantity(size) and _is_quantity(quantity)):
        refuse(f"--hugepages {hugepages}: write SIZE=QUANTITY, such as 2Mi=4Gi")
    if memory and not _is_quantity(memory):
        refuse(f"--memory {memory}: write a quantity of Kubernetes, such as 256Gi")
    if bool(cpu) != bool(memory) and not compute:
        refuse("name --cpu and --memory together: with one of them the pods are not Guaranteed")
    compute |= {"cpu": str(cpu)} if cpu else {}
    compute |= {"memory": memory} if memory else {}
    compute |= {f"hugepages-{size}": quantity} if hugepages else {}
    if hugepages and "memory" not in compute:
        refuse("name --cpu and --memory with --hugepages: the API server refuses huge pages alone")
    return msgspec.structs.replace(params, compute=tuple(compute.items()))


def _set_namespace(params: JobParameters, namespace: str) -> JobParameters:
    import msgspec

    return msgspec.structs.replace(params, namespace=namespace)


def _is_quantity(text: str) -> bool:
    """Return whether a text is a quantity of Kubernetes above 0."""
    from trackbed.fabric.quantities import parse_quantity

    return (parse_quantity(text) or 0) > 0


def _check_queue(queue: str | None) -> None:
    from trackbed.fabric.text_syntax import DNS_LABEL

    is_name = queue is None or (len(queue) <= _LONGEST_LABEL and all(map(DNS_LABEL.fullmatch, queue.split("."))))
    if not is_name:
        refuse(f"--queue {queue!r}: lower-case letters, digits, - and . only, {_LONGEST_LABEL} at most")


def _split_by_rail(params: JobParameters, kind: str, plan: Plan, rails: str | None) -> JobParameters:
    import msgspec

    if kind != "mpijob":
        refuse("--by-rail is for mpijob: nccl-tests alone can split its ranks")
    count, gpus = len(choose_rails_or_refuse(plan, rails)), params.gpus_per_node
    if gpus != count:
        refuse(f"--by-rail needs one GPU for each rail: a node has {gpus} GPUs, and the job {count} rails")
    return msgspec.structs.replace(params, by_rail=True)
