"""`trackbed stacks`: the stacks that provide NICs to pods, their requirements and limits, and which fit a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json, output_option

if TYPE_CHECKING:
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.model.problems import Problem
    from trackbed.fabric.plan.plan import Plan


@click.command("stacks")
@click.argument("name", required=False)
@click.option("-f", "--fabric", "fabric_file", metavar="FILE|-", help="Show which stacks fit this Fabric.")
@output_option("table", "json")
def command(name: str | None, fabric_file: str | None, output_format: str) -> None:
    """List the stacks, or show the requirements and limits of stack NAME.

    \b
    Examples:
      trackbed stacks
      trackbed stacks spiderpool
      trackbed stacks -f fabric.yaml
    """
    from trackbed.cli.options import read_fabric
    from trackbed.cli.render_stack import check_stack_name
    from trackbed.cluster.stacks import MODULES, stack

    chosen = [stack(stack_name) for stack_name in ([check_stack_name(name)] if name else MODULES)]
    planned = read_fabric(fabric_file)[1] if fabric_file else None
    if output_format == "json":
        emit_json([_build_document(member, planned) for member in chosen])
    elif name:
        _print_stack(chosen[0], planned)
    else:
        _print_list(chosen, planned)


def _find_refusals(stack: Stack, planned: Plan | None) -> list[Problem]:
    from trackbed.cluster.stacks.refusals import refusals

    return list(refusals(stack, planned)) if planned else []


def _build_document(stack: Stack, planned: Plan | None) -> dict[str, object]:
    refusals = {"refusals": [str(problem) for problem in _find_refusals(stack, planned)]} if planned else {}
    return {"name": stack.name, "title": stack.title, "needs": stack.needs, "cannot": stack.cannot, **refusals}


def _print_list(chosen: list[Stack], planned: Plan | None) -> None:
    from trackbed.cli.tables import print_table

    if planned is None:
        print_table(("stack", "what attaches what"), [(member.name, member.title) for member in chosen])
        click.echo("\nMore: trackbed stacks NAME; which fit a Fabric: trackbed stacks -f fabric.yaml")
        return
    rows = [(member.name, _render_fit(_find_refusals(member, planned))) for member in chosen]
    print_table(("stack", "this Fabric"), rows)


def _render_fit(refusals: list[Problem]) -> str:
    return f"no: {refusals[0].message.partition(';')[0]}" if refusals else "fits"


def _print_stack(stack: Stack, planned: Plan | None) -> None:
    click.secho(stack.name, bold=True)
    click.echo(stack.title)
    for label, lines in (("Needs", stack.needs), ("Cannot", stack.cannot)):
        if lines:
            click.echo(f"\n{label}:")
        for line in lines:
            click.echo(f"  - {line}")
    for problem in _find_refusals(stack, planned):
        click.echo(f"\n{problem}")
    click.echo(f"\nRender it: trackbed render stack {stack.name} -f fabric.yaml -o DIR")
