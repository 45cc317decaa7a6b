"""`trackbed status`: the stacks, Fabrics and nodes of a cluster, and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.cluster import CLUSTER
from trackbed.cli.cluster_session import open_cluster
from trackbed.cli.options import emit_json, output_option, read_fabric
from trackbed.cli.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trackbed.cluster.api.dynamic import DynamicClient
    from trackbed.cluster.rollout.applyset import ApplySet
    from trackbed.cluster.rollout.fabric_summary import FabricSummary, UnsoundNode
    from trackbed.cluster.rollout.status import ExpectedNodes, Installation, NodeSummary
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

_ROWS = 40
"""Nodes that are listed; nodes with problems come first."""
_FABRIC_COLUMNS = ("FABRIC", "NODES", "SOUND", "CHANGING", "WAITING", "FAILED", "ABSENT", "OFFERED", "STATE", "WHY")
_NOTHING = "no stack of Trackbed is on this cluster: `trackbed apply cluster STACK -f fabric.yaml` puts one there"
_RUNS = {"begun": "broke off", "done": "done", "undone": "undone", "": "-"}


@click.command("status")
@click.option("-f", "--fabric", "fabric_file", metavar="FILE|-", help="A Fabric, to judge gates and nodes by its plan.")
@CLUSTER[0]
@CLUSTER[1]
@output_option("table", "json")
def command(fabric_file: str | None, kubeconfig: str | None, context: str | None, output_format: str) -> None:
    """Show which stacks are on a cluster, how their gates stand, and what rails its nodes offer; nothing is changed.

    With `trackbed controller`, also the state of each Fabric, and the nodes that are not sound, with the reason. Exits
    with 0 when everything holds, 1 when something does not, 3 when the server does not answer.

    \b
    Examples:
      trackbed status
      trackbed status -f fabric.yaml
      trackbed status -f fabric.yaml -o json
    """
    plan = read_fabric(fabric_file)[1] if fabric_file else None
    with open_cluster(kubeconfig, context) as cluster:
        state = cluster.run(_read(cluster.client, plan))
    if output_format == "json":
        emit_json({"holds": state.holds, **state._asdict()})
    else:
        _show_fabrics(state.fabrics, state.unsound)
        if state.fabrics and state.stacks:
            click.echo()
        _show(state.stacks, state.nodes, _NOTHING if not state.fabrics else "")
    raise SystemExit(0 if state.holds else 1)


class _ClusterState(NamedTuple):
    """The state of a cluster."""

    stacks: tuple[Installation, ...]
    nodes: tuple[NodeSummary, ...]
    fabrics: tuple[FabricSummary, ...]
    unsound: tuple[UnsoundNode, ...]

    @property
    def holds(self) -> bool:
        """Whether the cluster has a stack or Fabric, and all of them and the nodes are sound."""
        is_wrong = any(node.wrong for node in self.nodes) or any(fabric.wrong for fabric in self.fabrics)
        return bool(self.stacks or self.fabrics) and all(map(_is_sound, self.stacks)) and not is_wrong


async def _read(client: DynamicClient, plan: Plan | None) -> _ClusterState:
    from trackbed.cluster.rollout.applyset import list_applysets
    from trackbed.cluster.rollout.fabric_summary import list_fabrics, list_unsound_nodes
    from trackbed.cluster.rollout.status import list_installations, list_nodes
    from trackbed.cluster.stacks.install.steps import steps

    stacks = _match_stacks(plan, [applyset async for applyset in list_applysets(client)]) if plan else {}
    expected = _expect_nodes(plan, tuple(stacks.values())) if plan else None
    return _ClusterState(
        await list_installations(client, lambda key: steps(stacks[key], plan) if plan and key in stacks else None),
        await list_nodes(client, expected),
        await list_fabrics(client),
        await list_unsound_nodes(client),
    )


def _match_stacks(plan: Plan, sets: Sequence[ApplySet]) -> dict[ApplySet, Stack]:
    """Return the stacks of this plan that are on the cluster and can carry it."""
    from trackbed.cluster.rollout.applyset import build_applyset
    from trackbed.cluster.stacks import MODULES, stack
    from trackbed.cluster.stacks.refusals import refusals

    names = {build_applyset(plan, name): name for name in MODULES}
    present = {applyset: stack(names[applyset]) for applyset in sets if applyset in names}
    return {applyset: unit for applyset, unit in present.items() if not list(refusals(unit, plan))}


def _expect_nodes(plan: Plan, stacks: Sequence[Stack]) -> ExpectedNodes:
    """Return what nodes must offer: the resource of each rail that they have a port on, and the label."""
    from trackbed.cluster.rollout.status import ExpectedNodes

    by_rail = [rails for unit in stacks if len(rails := unit.access(plan).resources) == len(plan.common.rails)]
    nodes = tuple(
        (node.name, tuple(rails[port.rail][0] for rails in by_rail for port in node.ports)) for node in plan.nodes
    )
    return ExpectedNodes(nodes, plan.common.fabric if any(unit.labels_nodes for unit in stacks) else "")


def _is_sound(installation: Installation) -> bool:
    return installation.run != "begun" and all(gate.holds for gate in installation.gates)


def _show_fabrics(fabrics: Sequence[FabricSummary], unsound: Sequence[UnsoundNode]) -> None:
    if fabrics:
        print_table(_FABRIC_COLUMNS, [_render_fabric(summary) for summary in fabrics])
    if unsound:
        click.echo()
        rows = [
            (summary.name, summary.fabric, summary.stage or "-", summary.since or "-", summary.why)
            for summary in unsound[:_ROWS]
        ]
        print_table(("NODE", "FABRIC", "STAGE", "SINCE", "WHY"), rows)
        if len(unsound) > _ROWS:
            click.echo(f"and {len(unsound) - _ROWS} more; -o json has all")


def _render_fabric(fabric: FabricSummary) -> tuple[str, ...]:
    counts = map(str, (fabric.nodes, fabric.sound, fabric.changing, fabric.waiting, fabric.failed, fabric.absent))
    offered = "-" if fabric.offered is None else str(fabric.offered)
    return (
        fabric.name,
        *counts,
        offered,
        fabric.state or "-",
        fabric.why or ("" if fabric.state else "no controller has seen it"),
    )


def _show(stacks: Sequence[Installation], nodes: Sequence[NodeSummary], otherwise: str) -> None:
    if stacks:
        columns = ("STACK", "NAMESPACE", "OBJECTS", "GENERATION", "LAST RUN")
        rows = [
            (stack.name, stack.namespace, str(stack.members), str(stack.generation or "-"), _RUNS[stack.run])
            for stack in stacks
        ]
        print_table(columns, rows)
    for stack in stacks:
        click.echo()
        print_table(
            ("WAITS FOR", stack.name.upper()), [(gate.what, "holds" if gate.holds else "stuck") for gate in stack.gates]
        )
    _show_nodes(nodes)
    for line in dict.fromkeys(_list_next_steps(stacks, nodes, otherwise)):
        click.echo(line)


def _show_nodes(nodes: Sequence[NodeSummary]) -> None:
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
        print_table(("NODE", "FABRIC", "RAILS", "IN USE", "STATE"), rows)
    if len(nodes) > _ROWS:
        click.echo(f"and {len(nodes) - _ROWS} more; -o json has all")


def _list_next_steps(stacks: Sequence[Installation], nodes: Sequence[NodeSummary], otherwise: str) -> Iterator[str]:
    """Yield what is missing and what to do next; `otherwise` without a stack."""
    if not stacks and otherwise:
        yield otherwise
    for stack in stacks:
        if stack.run == "begun":
            yield f"{stack.name}: its last run was interrupted: run `trackbed apply cluster` again, or with --undo"
        for gate in stack.gates:
            yield from (f"{stack.name}: {line}" for line in gate.missing)
            yield from (f"{stack.name}: what to do: {gate.remedy}",) if gate.remedy else ()
    if any("offers no" in why for node in nodes for why in node.wrong):
        yield "`trackbed doctor` on a node says why it does not offer a rail"
