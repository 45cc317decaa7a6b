"""`trackbed stacks`: the stacks that provide NICs to pods, compared for a Fabric, with a recommendation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_file, complete_stack
from trackbed.cli.options import emit_json, output_option

if TYPE_CHECKING:
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan


@click.command("stacks")
@click.argument("name", required=False, shell_complete=complete_stack)
@click.option(
    "-f",
    "--fabric",
    "fabric_file",
    metavar="FILE|-",
    shell_complete=complete_file,
    help="Compare the stacks for this Fabric.",
)
@output_option("table", "wide", "json")
def command(name: str | None, fabric_file: str | None, output_format: str) -> None:
    """List the stacks, compare them for a Fabric, or show the requirements and limits of stack NAME.

    With a Fabric: what pods get, how many fit on a node, what each stack asks of the cluster, what was tried of it,
    which to take and why, and every reason against those that do not fit.

    \b
    Examples:
      trackbed stacks
      trackbed stacks spiderpool
      trackbed stacks -f fabric.yaml
      trackbed stacks -f fabric.yaml -o wide
      trackbed stacks spiderpool -f fabric.yaml
    """
    from trackbed.cli.options import read_fabric
    from trackbed.cli.render_stack import check_stack_name
    from trackbed.cli.stack_tables import print_stack, print_stacks
    from trackbed.cluster.stacks import MODULES, load_stack

    chosen = [load_stack(stack_name) for stack_name in ([check_stack_name(name)] if name else MODULES)]
    plan = read_fabric(fabric_file)[1] if fabric_file else None
    if output_format == "json":
        emit_json([_build_document(stack) for stack in chosen] if plan is None else _build_comparison(chosen, plan))
    elif name:
        print_stack(chosen[0], plan, fabric_file or "fabric.yaml")
    elif plan is None or fabric_file is None:
        print_stacks(chosen)
    else:
        _print_comparison(chosen, plan, fabric_file, wide=output_format == "wide")


def _print_comparison(stacks: list[Stack], plan: Plan, fabric_file: str, *, wide: bool) -> None:
    from trackbed.cli.stack_tables import print_candidates, print_recommendation, print_refusals
    from trackbed.cluster.stacks.comparison import compare_stack
    from trackbed.cluster.stacks.recommendation import recommend

    candidates = [compare_stack(stack, plan) for stack in stacks]
    print_candidates(candidates, wide=wide)
    print_recommendation(recommend(candidates, plan), fabric_file)
    print_refusals(candidates)


def _build_document(stack: Stack) -> dict[str, object]:
    from trackbed.cluster.stacks.comparison import find_evidence

    return {
        "name": stack.name,
        "title": stack.title,
        "onlyFor": stack.traits.only_for,
        "maturity": stack.traits.maturity,
        "maturityReason": stack.traits.maturity_reason,
        "evidence": find_evidence(stack),
        "needs": stack.needs,
        "cannot": stack.cannot,
    }


def _build_comparison(stacks: list[Stack], plan: Plan) -> list[dict[str, object]]:
    """Return the stacks as documents; the one to take has its reasons."""
    import msgspec

    from trackbed.cluster.stacks import MODULES, load_stack
    from trackbed.cluster.stacks.comparison import compare_stack
    from trackbed.cluster.stacks.recommendation import recommend

    every = {name: compare_stack(load_stack(name), plan) for name in MODULES}
    advice = recommend(every.values(), plan)
    return [
        msgspec.to_builtins(every[stack.name])
        | {"recommendation": msgspec.to_builtins(advice) if advice and advice.name == stack.name else None}
        for stack in stacks
    ]
