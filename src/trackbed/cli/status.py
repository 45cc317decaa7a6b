"""`trackbed status`: what of ours is on a cluster, and how it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.cluster import CLUSTER, applyset_of, connected
from trackbed.cli.options import emit_json, output_option, read_fabric
from trackbed.cli.tables import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trackbed.cluster.rollout.applyset import ApplySet
    from trackbed.cluster.rollout.carried import Carried, Unsound
    from trackbed.cluster.rollout.status import Installed, Node, Wanted
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

_ROWS = 40
"""Nodes that are listed for people: first those with which something is the matter."""
_FABRIC_COLUMNS = ("FABRIC", "NODES", "SOUND", "CHANGING", "WAITING", "FAILED", "ABSENT", "OFFERED", "STATE", "WHY")
_NOTHING = "no stack of Trackbed is on this cluster: `trackbed apply cluster STACK -f fabric.yaml` puts one there"
_RUNS = {"begun": "broke off", "done": "done", "undone": "undone", "": "-"}


@click.command("status")
@click.option("-f", "--fabric", "fabric_file", metavar="FILE|-", help="A Fabric, to judge gates and nodes by its plan.")
@CLUSTER[0]
@CLUSTER[1]
@output_option("table", "json")
def command(fabric_file: str | None, kubeconfig: str | None, context: str | None, form: str) -> None:
    """Show which stacks are on a cluster, how their gates stand, and what rails its nodes offer; nothing is changed.

    Where `trackbed controller` carries Fabrics out: how each of them stands, and which nodes are not sound and why.
    Exits with 0 when all holds, 1 when something does not, 3 when the server does not answer.

    \b
    Examples:
      trackbed status
      trackbed status -f fabric.yaml
      trackbed status -f fabric.yaml -o json
    """
    from trackbed.cluster.rollout import applyset, carried, status
    from trackbed.cluster.stacks.install.steps import steps

    plan = read_fabric(fabric_file)[1] if fabric_file else None
    with connected(kubeconfig, context) as client:
        own = _stacks(plan, tuple(applyset.sets(client))) if plan else {}
        found = status.installed(client, lambda of: steps(own[of], plan) if plan and of in own else None)
        nodes = status.nodes(client, _wanted(plan, tuple(own.values())) if plan else None)
        fabrics, unsound = carried.carried(client), carried.unsound(client)
    wrong = any(node.wrong for node in nodes) or any(one.wrong for one in fabrics)
    holds = bool(found or fabrics) and all(map(_sound, found)) and not wrong
    if form == "json":
        emit_json({"holds": holds, "stacks": found, "nodes": nodes, "fabrics": fabrics, "unsound": unsound})
    else:
        _show_fabrics(fabrics, unsound)
        if fabrics and found:
            click.echo()
        _show(found, nodes, _NOTHING if not fabrics else "")
    raise SystemExit(0 if holds else 1)


def _stacks(plan: Plan, sets: Sequence[ApplySet]) -> dict[ApplySet, Stack]:
    """The stacks that are on the cluster for this plan, as far as they can carry it."""
    from trackbed.cluster.stacks import MODULES, stack
    from trackbed.cluster.stacks.refusals import refusals

    names = {applyset_of(plan, name): name for name in MODULES}
    there = {of: stack(names[of]) for of in sets if of in names}
    return {of: one for of, one in there.items() if not list(refusals(one, plan))}


def _wanted(plan: Plan, stacks: Sequence[Stack]) -> Wanted:
    """What its stacks want of the plan's nodes: the resource of each rail they have a port on, and the label."""
    from trackbed.cluster.rollout.status import Wanted

    by_rail = [rails for one in stacks if len(rails := one.access(plan).resources) == len(plan.common.rails)]
    nodes = tuple(
        (node.name, tuple(rails[port.rail][0] for rails in by_rail for port in node.ports)) for node in plan.nodes
    )
    return Wanted(nodes, plan.common.fabric if any(one.labels_nodes for one in stacks) else "")


def _sound(one: Installed) -> bool:
    return one.run != "begun" and all(gate.holds for gate in one.gates)


def _show_fabrics(fabrics: Sequence[Carried], unsound: Sequence[Unsound]) -> None:
    if fabrics:
        table(_FABRIC_COLUMNS, [_fabric(one) for one in fabrics])
    if unsound:
        click.echo()
        rows = [(one.name, one.fabric, one.stage or "-", one.since or "-", one.why) for one in unsound[:_ROWS]]
        table(("NODE", "FABRIC", "STAGE", "SINCE", "WHY"), rows)
        if len(unsound) > _ROWS:
            click.echo(f"and {len(unsound) - _ROWS} more; -o json has all")


def _fabric(one: Carried) -> tuple[str, ...]:
    counts = map(str, (one.nodes, one.sound, one.changing, one.waiting, one.failed, one.absent))
    offered = "-" if one.offered is None else str(one.offered)
    return (one.name, *counts, offered, one.state or "-", one.why or ("" if one.state else "no controller has seen it"))


def _show(found: Sequence[Installed], nodes: Sequence[Node], otherwise: str) -> None:
    if found:
        columns = ("STACK", "NAMESPACE", "OBJECTS", "GENERATION", "LAST RUN")
        rows = [
            (one.name, one.namespace, str(one.members), str(one.generation or "-"), _RUNS[one.run]) for one in found
        ]
        table(columns, rows)
    for one in found:
        click.echo()
        table(("WAITS FOR", one.name.upper()), [(gate.what, "holds" if gate.holds else "stuck") for gate in one.gates])
    _nodes(nodes)
    for line in dict.fromkeys(_next(found, nodes, otherwise)):
        click.echo(line)


def _nodes(nodes: Sequence[Node]) -> None:
    wrong = [node for node in nodes if node.wrong]
    click.echo(f"\n{len(nodes) - len(wrong)} of {len(nodes)} nodes are as they should be")
    listed = [*wrong, *(node for node in nodes if not node.wrong)][:_ROWS]
    rows = [
        (
            node.name,
            node.fabric or "-",
            str(node.rails),
            f"{node.used} of {node.allocatable}",
            "; ".join(node.wrong) or "ready",
        )
        for node in listed
    ]
    if rows:
        table(("NODE", "FABRIC", "RAILS", "IN USE", "STATE"), rows)
    if len(nodes) > _ROWS:
        click.echo(f"and {len(nodes) - _ROWS} more; -o json has all")


def _next(found: Sequence[Installed], nodes: Sequence[Node], otherwise: str) -> Iterator[str]:
    """What is missing, and what to do next; `otherwise` where there is no stack."""
    if not found and otherwise:
        yield otherwise
    for one in found:
        if one.run == "begun":
            yield f"{one.name}: its last run broke off: run `trackbed apply cluster` again, or with --undo"
        for gate in one.gates:
            yield from (f"{one.name}: {line}" for line in gate.missing)
            yield from (f"{one.name}: what to do: {gate.remedy}",) if gate.remedy else ()
    if any("offers no" in why for node in nodes for why in node.wrong):
        yield "`trackbed doctor` on a node says why it does not offer a rail"
