"""What the commands of `trackbed job` share: the stack, the rails, and what pods with them need."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import click

from trackbed.cli.options import refuse
from trackbed.cli.render_stack import complete_stack_name, load_stack_of_fabric
from trackbed.fabric.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.cluster.jobs.requirements import PodRequirements
    from trackbed.fabric.plan.plan import Plan

_Result = TypeVar("_Result")

stack_option = click.option(
    "--stack",
    "stack_name",
    metavar="NAME",
    shell_complete=complete_stack_name,
    help="How pods get NICs; `trackbed stacks -f FILE` lists what fits. Default: the Fabric's kubernetes.stack.",
)
rails_option = click.option(
    "--rails", metavar="NUMBERS", help="Rails of each pod, such as 0,2,4,6 or 0-3. Default: all of the fabric."
)


def load_requirements(
    stack_name: str | None, fabric_file: str, rails: str | None, file: str = ""
) -> tuple[Plan, PodRequirements]:
    """Return the plan of the nodes that have the rails, and the requirements of pods with them; else exit with 2."""
    from trackbed.cluster.jobs.rail_choice import describe_other_nodes, keep_nodes
    from trackbed.cluster.jobs.requirements import build_requirements

    if file == fabric_file == "-":
        refuse("the job and the Fabric cannot both come from standard input; name a file for one of them")
    stack, plan = load_stack_of_fabric(stack_name, fabric_file)
    numbers = choose_rails_or_refuse(plan, rails)
    requirements = build_requirements(stack, plan, numbers)
    if not requirements.has_rails:
        refuse(f"stack {stack.name} gives no rails to pods; `trackbed stacks` lists those that do")
    if warning := describe_other_nodes(plan, numbers):
        click.echo(f"warning: {warning}", err=True)
    return keep_nodes(plan, numbers), requirements


def choose_gpus_or_refuse(
    plan: Plan, requirements: PodRequirements, resource: str | None
) -> tuple[Plan, PodRequirements]:
    """Return the nodes with GPUs of one resource, and requirements of pods with them; else exit with status 2."""
    import msgspec

    counts = Counter(plan.get_gpu_resource(node.name) for node in plan.nodes)
    offers = ", ".join(f"{name} ({format_count(count, 'node')})" for name, count in counts.items())
    if resource is None and len(counts) > 1:
        refuse(f"the nodes have GPUs of several vendors, and a job uses one: name it with --gpu-resource: {offers}")
    if resource is not None and resource not in counts:
        refuse(f"--gpu-resource {resource}: the nodes have {offers}; the Fabric's kubernetes.gpuResource changes it")
    chosen = resource or next(iter(counts))
    nodes = tuple(node for node in plan.nodes if plan.get_gpu_resource(node.name) == chosen)
    return plan._replace(nodes=nodes), msgspec.structs.replace(requirements, gpu_resource=chosen)


def choose_rails_or_refuse(plan: Plan, rails: str | None) -> tuple[int, ...]:
    """Return the rails of a pod, None for all; exit with status 2 if the fabric has them not."""
    from trackbed.cluster.jobs.rail_choice import choose_rails

    try:
        return choose_rails(plan, rails)
    except ValueError as error:
        refuse(f"--rails {rails}: {error}")


def convert_errors(work: Callable[[], _Result]) -> _Result:
    """Return what some work on a job returns; exit with status 2 if it is no job."""
    from trackbed.cluster.jobs.template import NotAJobError

    try:
        return work()
    except NotAJobError as error:
        refuse(error)
