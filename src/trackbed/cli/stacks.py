"""`trackbed stacks`: the ways of giving NICs to pods, what each needs and cannot do, and which of them a plan fits."""

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
@click.option("-f", "--fabric", "fabric_file", metavar="FILE|-", help="Say which stacks this Fabric can have.")
@output_option("table", "json")
def command(name: str | None, fabric_file: str | None, form: str) -> None:
    """List the stacks, or show what stack NAME needs and cannot do.

    \b
    Examples:
      trackbed stacks
      trackbed stacks spiderpool
      trackbed stacks -f fabric.yaml
    """
    from trackbed.cli.options import read_fabric
    from trackbed.cli.render_stack import known_stack
    from trackbed.cluster.stacks import MODULES, stack

    chosen = [stack(one) for one in ([known_stack(name)] if name else MODULES)]
    planned = read_fabric(fabric_file)[1] if fabric_file else None
    if form == "json":
        emit_json([_document(one, planned) for one in chosen])
    elif name:
        _page(chosen[0], planned)
    else:
        _list(chosen, planned)


def _refusals(one: Stack, planned: Plan | None) -> list[Problem]:
    from trackbed.cluster.stacks.refusals import refusals

    return list(refusals(one, planned)) if planned else []


def _document(one: Stack, planned: Plan | None) -> dict[str, object]:
    refusals = {"refusals": [str(problem) for problem in _refusals(one, planned)]} if planned else {}
    return {"name": one.name, "title": one.title, "needs": one.needs, "cannot": one.cannot, **refusals}


def _list(chosen: list[Stack], planned: Plan | None) -> None:
    from trackbed.cli.tables import table

    if planned is None:
        table(("stack", "what attaches what"), [(one.name, one.title) for one in chosen])
        click.echo("\nMore: trackbed stacks NAME; which fit a Fabric: trackbed stacks -f fabric.yaml")
        return
    rows = [(one.name, _fit(_refusals(one, planned))) for one in chosen]
    table(("stack", "this Fabric"), rows)


def _fit(refusals: list[Problem]) -> str:
    return f"no: {refusals[0].message.partition(';')[0]}" if refusals else "fits"


def _page(one: Stack, planned: Plan | None) -> None:
    click.secho(one.name, bold=True)
    click.echo(one.title)
    for label, lines in (("Needs", one.needs), ("Cannot", one.cannot)):
        if lines:
            click.echo(f"\n{label}:")
        for line in lines:
            click.echo(f"  - {line}")
    for problem in _refusals(one, planned):
        click.echo(f"\n{problem}")
    click.echo(f"\nRender it: trackbed render stack {one.name} -f fabric.yaml -o DIR")
