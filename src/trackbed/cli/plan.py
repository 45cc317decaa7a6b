"""`trackbed plan`: the addresses and names that are derived from a Fabric."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json, fabric_option, output_option, read_fabric, refuse

if TYPE_CHECKING:
    from trackbed.fabric.model.load import LoadedFabric
    from trackbed.fabric.plan.plan import CommonPlan, NodePlan, Plan, PortPlan

COLUMNS = ("node", "unit", "rail", "netdev", "port", "ipv4", "gateway", "pods", "ipv6", "leaf")


@click.command("plan")
@fabric_option
@click.option("--node", "node_names", metavar="NODES", help="Only these nodes; ranges as in gpu-[0-3].")
@click.option("--rail", type=click.IntRange(min=0), help="Only this rail.")
@output_option("table", "json", "csv", "yaml")
def command(fabric_file: str, node_names: str | None, rail: int | None, output_format: str) -> None:
    """Show every address and name that is derived from a Fabric.

    \b
    Examples:
      trackbed plan -f fabric.yaml
      trackbed plan -f fabric.yaml --node gpu-[0-3] --rail 2 -o csv
      trackbed import netplan ./netplan | trackbed plan -f - -o json
    """
    import msgspec

    from trackbed.fabric.plan.plan_file import write_plan

    loaded, planned = read_fabric(fabric_file)
    if rail is not None and rail >= len(planned.common.rails):
        refuse(f"the fabric has rails 0 to {len(planned.common.rails) - 1}, none is {rail}")
    nodes = _select_nodes(planned, node_names)
    _warn_of_missing_slots(loaded, planned, fabric_file)
    if output_format == "json":
        emit_json(msgspec.Raw(write_plan(planned, nodes, rail)))
    elif output_format == "yaml":
        _print_yaml(write_plan(planned, nodes, rail))
    elif output_format == "csv":
        _print_csv(_render_rows(nodes, rail))
    else:
        _print_plan(planned.common, _render_rows(nodes, rail))


def _select_nodes(planned: Plan, node_names: str | None) -> list[NodePlan]:
    if node_names is None:
        return list(planned.nodes)
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import expand_hosts

    try:
        wanted = set(expand_hosts(node_names))
    except PydanticCustomError as error:
        refuse(error.message())
    nodes = [node for node in planned.nodes if node.name in wanted]
    missing = wanted - {node.name for node in nodes}
    if missing:
        refuse(f"the fabric has no node {min(missing)!r}")
    return nodes


def _warn_of_missing_slots(loaded: LoadedFabric, planned: Plan, fabric_file: str) -> None:
    known = loaded.lock.nodes if loaded.lock else {}
    count = sum(node.name not in known for node in planned.nodes)
    if count:
        advice = f"`trackbed lock -f {fabric_file}`" if fabric_file != "-" else "`trackbed lock` on the file"
        click.echo(f"note: {count} nodes have no slot in a lock yet; {advice} keeps their addresses for good", err=True)


def _render_cells(node: NodePlan, port: PortPlan) -> tuple[str, ...]:
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


def _render_rows(nodes: list[NodePlan], rail: int | None) -> list[tuple[str, ...]]:
    return [_render_cells(node, port) for node in nodes for port in node.ports if rail is None or port.rail == rail]


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
    click.echo(buffer.getvalue(), nl=False)


def _print_yaml(document: bytes) -> None:
    import msgspec
    import yaml

    builtins = msgspec.json.decode(document)
    click.echo(
        yaml.dump(builtins, Dumper=yaml.CSafeDumper, sort_keys=False, default_flow_style=None, width=160), nl=False
    )
