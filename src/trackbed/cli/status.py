"""`trackbed status`: the stacks, Fabrics, nodes and waiting pods of a cluster, and their state."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.cluster_session import open_cluster
from trackbed.cli.completion import complete_file
from trackbed.cli.options import cluster_options, emit_json, output_option, read_fabric
from trackbed.cli.tables import print_table
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trackbed.cluster.api.dynamic import DynamicClient
    from trackbed.cluster.causes.waiting import WaitingPods
    from trackbed.cluster.resources.fabric import FabricFinding
    from trackbed.cluster.rollout.applyset import ApplySet
    from trackbed.cluster.rollout.fabric_summary import FabricSummary, UnsoundNode
    from trackbed.cluster.rollout.status import ExpectedNodes, Installation, NodeSummary
    from trackbed.cluster.stacks.stack import Stack
    from trackbed.fabric.plan.plan import Plan

_MAX_NODE_ROWS = 40
"""Maximum number of nodes in a table; nodes with problems come first."""
_MAX_CAUSES = 5
"""Maximum number of causes of waiting pods that are shown."""
_FABRIC_COLUMNS = (
    *("FABRIC", "NODES", "SOUND", "CHANGING", "WAITING", "FAILED", "ABSENT", "OFFERED"),
    *("CONSISTENT", "STATE", "WHY"),
)
_NOTHING = "no stack of Trackbed is on this cluster: `trackbed apply cluster STACK -f fabric.yaml` puts one there"
_RUNS = {"begun": "broke off", "done": "done", "undone": "undone", "": "-"}


@click.command("status")
@click.option(
    "-f",
    "--fabric",
    "fabric_file",
    metavar="FILE|-",
    shell_complete=complete_file,
    help="A Fabric, to judge gates and nodes by its plan.",
)
@cluster_options
@output_option("table", "json")
def command(fabric_file: str | None, kubeconfig: str | None, context: str | None, output_format: str) -> None:
    """Show the stacks of a cluster, the state of their gates, and the rails that its nodes offer; nothing is changed.

    Pods that do not start are named with the cause, which the messages of Multus, CNI plugins, IPAM, DRA drivers,
    kubelet and scheduler show. With `trackbed controller`, also the state of each Fabric, faults between its nodes, and
    the nodes that are not sound, with the reason. Exits with 0 when everything is as planned, 1 when something is not,
    3 when the API server does not respond.

    \b
    Examples:
      trackbed status
      trackbed status -f fabric.yaml
      trackbed status -f fabric.yaml -o json
    """
    plan = read_fabric(fabric_file)[1] if fabric_file else None
    with open_cluster(kubeconfig, context) as cluster:
        state = cluster.run(_read_state(cluster.client, plan))
    if output_format == "json":
        emit_json({"holds": state.holds, **state._asdict()})
    else:
        _print_fabrics(state.fabrics, state.unsound)
        if state.fabrics and state.stacks:
            click.echo()
        _print_stacks_and_nodes(state, _NOTHING if not state.fabrics else "")
    raise SystemExit(0 if state.holds else 1)


class _ClusterState(NamedTuple):
    """The stacks, nodes and Fabrics of a cluster, and the nodes that are not sound."""

    stacks: tuple[Installation, ...]
    nodes: tuple[NodeSummary, ...]
    fabrics: tuple[FabricSummary, ...]
    unsound: tuple[UnsoundNode, ...]
    pods: tuple[WaitingPods, ...]

    @property
    def holds(self) -> bool:
        """Whether the cluster has a stack or Fabric, all of them and the nodes are sound, and no pod is stuck."""
        is_wrong = (
            any(node.wrong for node in self.nodes)
            or any(fabric.wrong for fabric in self.fabrics)
            or any(not group.waits for group in self.pods)
        )
        return bool(self.stacks or self.fabrics) and all(map(_is_sound, self.stacks)) and not is_wrong


async def _read_state(client: DynamicClient, plan: Plan | None) -> _ClusterState:
    from datetime import UTC, datetime

    from trackbed.cluster.causes.waiting import list_waiting_pods
    from trackbed.cluster.rollout.applyset import iter_applysets
    from trackbed.cluster.rollout.fabric_summary import list_fabric_summaries, list_unsound_nodes
    from trackbed.cluster.rollout.status import list_installations, list_node_summaries
    from trackbed.cluster.stacks.install.steps import build_steps

    stacks = _match_stacks(plan, [applyset async for applyset in iter_applysets(client)]) if plan else {}
    expected = _expect_nodes(plan, tuple(stacks.values())) if plan else None
    return _ClusterState(
        await list_installations(
            client, lambda key: build_steps(stacks[key], plan) if plan and key in stacks else None
        ),
        await list_node_summaries(client, expected),
        await list_fabric_summaries(client),
        await list_unsound_nodes(client),
        await list_waiting_pods(client, datetime.now(UTC)),
    )


def _match_stacks(plan: Plan, applysets: Sequence[ApplySet]) -> dict[ApplySet, Stack]:
    """Return the stacks of this plan that are installed on the cluster and can implement it."""
    from trackbed.cluster.rollout.applyset import build_applyset
    from trackbed.cluster.stacks import MODULES, load_stack
    from trackbed.cluster.stacks.refusals import find_refusals

    names = {build_applyset(plan, name): name for name in MODULES}
    present = {applyset: load_stack(names[applyset]) for applyset in applysets if applyset in names}
    return {applyset: unit for applyset, unit in present.items() if not list(find_refusals(unit, plan))}


def _expect_nodes(plan: Plan, stacks: Sequence[Stack]) -> ExpectedNodes:
    """Return what each node must offer: a resource for the rail of each of its ports, and the label of the fabric."""
    from trackbed.cluster.rollout.status import ExpectedNodes

    by_rail = [rails for unit in stacks if len(rails := unit.access(plan).resources) == len(plan.common.rails)]
    nodes = tuple(
        (node.name, tuple(rails[port.rail][0] for rails in by_rail for port in node.ports)) for node in plan.nodes
    )
    return ExpectedNodes(nodes, plan.common.fabric if any(unit.labels_nodes for unit in stacks) else "")


def _is_sound(installation: Installation) -> bool:
    return installation.run != "begun" and all(gate.holds for gate in installation.gates)


def _print_fabrics(fabrics: Sequence[FabricSummary], unsound: Sequence[UnsoundNode]) -> None:
    if fabrics:
        print_table(_FABRIC_COLUMNS, [_build_fabric_row(summary) for summary in fabrics])
        _print_faults(fabrics)
    if unsound:
        click.echo()
        rows = [
            (summary.name, summary.fabric, summary.stage or "-", summary.since or "-", summary.why)
            for summary in unsound[:_MAX_NODE_ROWS]
        ]
        print_table(("NODE", "FABRIC", "STAGE", "SINCE", "WHY"), rows)
        if len(unsound) > _MAX_NODE_ROWS:
            click.echo(f"and {len(unsound) - _MAX_NODE_ROWS} more; -o json has all")


def _build_fabric_row(fabric: FabricSummary) -> tuple[str, ...]:
    counts = map(str, (fabric.nodes, fabric.sound, fabric.changing, fabric.waiting, fabric.failed, fabric.absent))
    offered = "-" if fabric.offered is None else str(fabric.offered)
    return (
        fabric.name,
        *counts,
        offered,
        fabric.consistent or "-",
        fabric.state or "-",
        fabric.why or ("" if fabric.state else "no controller has seen it"),
    )


def _print_faults(fabrics: Sequence[FabricSummary]) -> None:
    """Print the faults between nodes, and what is not known of them."""
    rows = [
        (finding.code, summary.name, _format_ends(finding), finding.message)
        for summary in fabrics
        for finding in summary.findings
    ]
    if rows:
        click.echo()
        print_table(("FAULT", "FABRIC", "BETWEEN", "WHY"), rows)
    for summary in fabrics:
        if summary.consistent == "Unknown":
            print_line(f"{summary.name}: {summary.consistency}")


def _format_ends(finding: FabricFinding) -> str:
    from msgspec import UNSET

    ends = [end.node if end.rail is UNSET else f"{end.node} rail {end.rail}" for end in finding.ends]
    omitted = finding.end_count - len(ends)
    return ", ".join(ends) + (f" and {omitted} more" if omitted > 0 else "")


def _print_stacks_and_nodes(state: _ClusterState, otherwise: str) -> None:
    stacks = state.stacks
    if stacks:
        columns = ("STACK", "NAMESPACE", "OBJECTS", "GENERATION", "LAST RUN")
        rows = [
            (
                stack.name,
                stack.namespace,
                str(stack.members),
                str(stack.generation or "-"),
                _RUNS.get(stack.run, stack.run),
            )
            for stack in stacks
        ]
        print_table(columns, rows)
    for stack in stacks:
        click.echo()
        print_table(
            ("WAITS FOR", stack.name.upper()), [(gate.what, "holds" if gate.holds else "stuck") for gate in stack.gates]
        )
    _print_nodes(state.nodes)
    for line in dict.fromkeys(_iter_next_steps(state, otherwise)):
        print_line(line)


def _print_nodes(nodes: Sequence[NodeSummary]) -> None:
    wrong = [node for node in nodes if node.wrong]
    click.echo(f"\n{len(nodes) - len(wrong)} of {len(nodes)} nodes are as they should be")
    listed = [*wrong, *(node for node in nodes if not node.wrong)][:_MAX_NODE_ROWS]
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
    if len(nodes) > _MAX_NODE_ROWS:
        click.echo(f"and {len(nodes) - _MAX_NODE_ROWS} more; -o json has all")


def _iter_next_steps(state: _ClusterState, otherwise: str) -> Iterator[str]:
    """Yield what is missing and what to do next. Without a stack, yield `otherwise`."""
    from trackbed.cluster.causes.waiting import describe_pods

    if not state.stacks and otherwise:
        yield otherwise
    for stack in state.stacks:
        if stack.run == "begun":
            yield f"{stack.name}: its last run was interrupted: run `trackbed apply cluster` again, or with --undo"
        for gate in stack.gates:
            yield from (f"{stack.name}: {line}" for line in gate.missing)
            yield from (f"{stack.name}: what to do: {gate.remedy}",) if gate.remedy else ()
    for group in state.pods[:_MAX_CAUSES]:
        yield from (f"pods: {line}" for line in describe_pods(group))
    if len(state.pods) > _MAX_CAUSES:
        yield f"pods: and {len(state.pods) - _MAX_CAUSES} more causes; -o json has all"
    if any("offers no" in why for node in state.nodes for why in node.wrong):
        yield "`trackbed doctor` on a node says why it does not offer a rail"
