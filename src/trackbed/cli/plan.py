"""`trackbed plan`: the addresses and names derived from a Fabric."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import (
    emit_json,
    fabric_option,
    nodes_option,
    output_option,
    read_fabric,
    refuse,
    select_nodes,
)
from trackbed.cli.terminal import emit_document
from trackbed.fabric.counts import format_count

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trackbed.fabric.model.load import LoadedFabric
    from trackbed.fabric.plan.plan import CommonPlan, NodePlan, Plan, PortPlan

COLUMNS = ("node", "unit", "rail", "netdev", "port", "ipv4", "gateway", "pods", "ipv6", "leaf")


@click.command("plan")
@fabric_option
@nodes_option
@refuse_option("--node", instead="--nodes {value}")
@click.option("--rail", type=click.IntRange(min=0), help="Only this rail.")
@output_option("table", "json", "csv", "yaml")
def command(fabric_file: str, nodes: str | None, rail: int | None, output_format: str) -> None:
    """Show every address and name derived from a Fabric.

    \b
    Examples:
      trackbed plan -f fabric.yaml
      trackbed plan -f fabric.yaml --nodes gpu-[0-3] --rail 2 -o csv
      trackbed import netplan ./netplan | trackbed plan -f - -o json
    """
    loaded, plan = read_fabric(fabric_file)
    if rail is not None and rail >= len(plan.common.rails):
        refuse(f"the fabric has rails 0 to {len(plan.common.rails) - 1}, none is {rail}")
    chosen = select_nodes(plan, nodes)
    _warn_of_missing_slots(loaded, plan, fabric_file)
    if output_format in {"json", "yaml"}:
        _print_document(plan, chosen, rail, output_format)
    elif output_format == "csv":
        _print_csv(_build_rows(chosen, rail))
    else:
        _print_plan(plan.common, _build_rows(chosen, rail))


def _warn_of_missing_slots(loaded: LoadedFabric, plan: Plan, fabric_file: str) -> None:
    known = loaded.lock.nodes if loaded.lock else {}
    count = sum(node.name not in known for node in plan.nodes)
    if count:
        subject = f"{format_count(count, 'node')} {'has' if count == 1 else 'have'}"
        advice = f"`trackbed lock -f {fabric_file}`" if fabric_file != "-" else "`trackbed lock` on the file"
        click.echo(f"note: {subject} no slot in a lock yet; {advice} keeps their addresses for good", err=True)


def _build_port_row(node: NodePlan, port: PortPlan) -> tuple[str, ...]:
    from trackbed.fabric.model.ranges import format_address

    v4 = port.v4
    gateway = format_address(v4.version, v4.gateway) if v4 and v4.gateway else "-"
    pods = f"{format_address(v4.version, v4.pods_first)}+{v4.pods_count}" if v4 and v4.pods_count else "-"
    return (
        node.name,
        str(node.unit),
        str(port.rail),
        port.netdev,
        port.pci or port.mac or port.kernel_name or "-",
        str(v4 or "-"),
        gateway,
        pods,
        str(port.v6 or "-"),
        port.leaf,
    )


def _build_rows(nodes: Collection[NodePlan], rail: int | None) -> list[tuple[str, ...]]:
    return [_build_port_row(node, port) for node in nodes for port in node.ports if rail is None or port.rail == rail]


def _print_plan(common: CommonPlan, rows: list[tuple[str, ...]]) -> None:
    from trackbed.cli.tables import print_table

    kept = [i for i, name in enumerate(COLUMNS) if name in {"node", "rail", "netdev"} or any(r[i] != "-" for r in rows)]
    title = (
        f"{common.fabric}: {common.nodes} nodes, {len(common.rails)} rails, {common.scheme}, "
        f"MTU {common.mtu_bytes}, cross-rail {common.cross_rail}"
    )
    print_table([COLUMNS[i] for i in kept], [[row[i] for i in kept] for row in rows], title)


def _print_csv(rows: list[tuple[str, ...]]) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([cell if cell != "-" else "" for cell in row] for row in rows)
    emit_document(buffer.getvalue())


def _print_document(plan: Plan, nodes: Collection[NodePlan], rail: int | None, output_format: str) -> None:
    import msgspec

    from trackbed.fabric.plan.plan_file import encode_plan

    document = encode_plan(plan, nodes, rail)
    if output_format == "json":
        emit_json(msgspec.Raw(document))
    else:
        _print_yaml(msgspec.json.decode(document))


def _print_yaml(builtins: Mapping[str, Any]) -> None:
    import yaml

    click.echo(
        yaml.dump(builtins, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=160), nl=False
    )
