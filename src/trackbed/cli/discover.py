"""`trackbed discover`: the NICs and GPUs of a machine, and the rails among its NICs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import emit_json, output_option
from trackbed.cli.terminal import print_line
from trackbed.fabric.counts import format_count
from trackbed.fabric.host_ranges import fold_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trackbed.host.discover.inventory import Inventory, Nic

COLUMNS = (
    "rail",
    "gpu",
    "near",
    "pci",
    "interface",
    "rdma",
    "model",
    "speed",
    "numa",
    "driver",
    "VFs",
    "switch",
    "why",
)


@click.command("discover")
@click.option(
    "--root",
    type=click.Path(exists=True, path_type=Path),
    default="/",
    show_default=True,
    help="Folder that holds the machine's files, or an archive of `trackbed capture`.",
)
@click.option("--nodes", "--host", metavar="SET", help="Query these hosts over SSH instead: gpu-0, or gpu-[0-63].")
@click.option(
    "--lldp",
    "listen",
    type=click.FloatRange(0, 300),
    default=0.0,
    metavar="SECONDS",
    help="Listen to switches (LLDP) on this machine, as root. They send every 30 s: use 31.",
)
@refuse_option("--listen", instead="--lldp {value}")
@output_option("text", "json")
def command(root: Path, nodes: str | None, listen: float, output_format: str) -> None:
    """Show the NICs and GPUs of this machine, and which NIC is which rail.

    Reads sysfs, the routes, and nvidia-smi if installed; changes nothing. Other hosts are queried over SSH and need
    Trackbed installed. Exits with 0 when rails were found, 1 without rails, 3 when a host did not answer.

    \b
    Examples:
      trackbed discover
      trackbed discover -o json >gpu-0.json
      trackbed discover --root gpu-0.tar.gz
      trackbed discover --nodes gpu-[0-63] -o json >gpus.json
    """
    from trackbed.cli.inventories import add_neighbours, query_hosts, read_single_inventory
    from trackbed.host.discover.rails import choose_rails

    inventories, silent = ([read_single_inventory(root)], False) if nodes is None else query_hosts(nodes)
    if listen:
        inventories = (
            [add_neighbours(inventory, root, listen) for inventory in inventories] if nodes is None else inventories
        )
    bare = [inventory.host for inventory in inventories if not choose_rails(inventory).rails]
    if output_format == "json":
        emit_json(inventories if nodes is not None else inventories[0])
        if bare:
            print_line(f"no rails on {fold_hosts(bare)}; without -o json the reasons are shown", err=True)
    else:
        for inventory in inventories:
            print_inventory(inventory)
    raise SystemExit(3 if silent else 1 if bare else 0)


def print_inventory(inventory: Inventory) -> None:
    """Print the NICs of a machine: rails first, then the others."""
    from trackbed.cli.tables import print_table
    from trackbed.host.discover.crosscheck import crosscheck
    from trackbed.host.discover.rails import choose_rails

    layout = choose_rails(inventory)
    name, differs = crosscheck(inventory, layout)
    rows = [
        (
            str(n),
            _join_gpus(rail.gpus),
            rail.proximity.name if rail.proximity is not None else "-",
            *_build_nic_row(inventory, rail.nic),
            "",
        )
        for n, rail in enumerate(layout.rails)
    ]
    rows += [
        ("-", "-", "-", *_build_nic_row(inventory, excluded.nic), f"{excluded.role.value}: {excluded.reason}")
        for excluded in layout.excluded
    ]
    product = " ".join(filter(None, (inventory.vendor, inventory.product))) or "a machine of unknown model"
    gpus, nics = format_count(len(inventory.gpus), "GPU"), format_count(len(inventory.nics), "NIC function")
    print_line(f"{inventory.host}: {product}, {gpus}, {nics}")
    if rows:
        print_table(COLUMNS, rows)
    if name is not None and not differs:
        click.echo(f"as {name} in the catalogue (`trackbed servers {name}`)")
    for doubt in (*layout.warnings, *differs):
        print_line(f"note: {doubt}", err=True)


def _build_nic_row(inventory: Inventory, nic: Nic) -> tuple[str, ...]:
    speed = nic.speed or nic.max_speed
    return (
        nic.pci,
        nic.netdev or "-",
        nic.rdma or "-",
        nic.model or nic.id,
        f"{speed // 1000}G" if speed else "-",
        "-" if nic.numa is None else str(nic.numa),
        nic.driver or "-",
        "-" if nic.vfs is None else str(nic.vfs),
        inventory.neighbours.get(nic.netdev or "", "-"),
    )


def _join_gpus(gpus: Iterable[int]) -> str:
    return ",".join(map(str, gpus)) or "-"
