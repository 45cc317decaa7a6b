"""`trackbed discover`: what this machine has, and which of its NICs are rails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json, output_option

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
    help="Folder that holds the machine's files, or what `trackbed capture` wrote.",
)
@click.option("--nodes", "--host", metavar="HOSTS", help="Ask these hosts over SSH instead: gpu-0, or gpu-[0-63].")
@click.option(
    "--listen",
    type=click.FloatRange(0, 300),
    default=0.0,
    metavar="SECONDS",
    help="Listen to switches (LLDP) on this machine, as root. They speak every 30 s: take 31.",
)
@output_option("text", "json")
def command(root: Path, nodes: str | None, listen: float, form: str) -> None:
    """Read this machine: its NICs, its GPUs, and which NIC is which rail.

    Reads sysfs, the routes, and nvidia-smi where there is one; changes nothing. Other hosts are asked over SSH and need
    Trackbed installed. Exits with 0 when rails were found, 1 where there are none, 3 when a host did not answer.

    \b
    Examples:
      trackbed discover
      trackbed discover -o json >gpu-0.json
      trackbed discover --root gpu-0.tar.gz
      trackbed discover --nodes gpu-[0-63] -o json >gpus.json
    """
    from trackbed.cli.inventories import asked, heard, read_source
    from trackbed.host.discover.rails import choose_rails

    found, silent = ([read_source(root)], False) if nodes is None else asked(nodes)
    if listen:
        found = [heard(one, root, listen) for one in found] if nodes is None else found
    if form == "json":
        emit_json(found if nodes is not None else found[0])
    else:
        for one in found:
            show(one)
    raise SystemExit(3 if silent else 0 if all(choose_rails(one).rails for one in found) else 1)


def show(inventory: Inventory) -> None:
    """Print one machine: rails first, then what was set aside."""
    from trackbed.cli.tables import table
    from trackbed.host.discover.crosscheck import crosscheck
    from trackbed.host.discover.rails import choose_rails

    found = choose_rails(inventory)
    name, differs = crosscheck(inventory, found)
    rows = [
        (
            str(n),
            _list(rail.gpus),
            rail.near.name if rail.near is not None else "-",
            *_cells(inventory, rail.nic),
            "",
        )
        for n, rail in enumerate(found.rails)
    ]
    rows += [("-", "-", "-", *_cells(inventory, one.nic), f"{one.role.value}: {one.reason}") for one in found.aside]
    product = " ".join(filter(None, (inventory.vendor, inventory.product))) or "a machine that does not tell its model"
    click.echo(f"{inventory.host}: {product}, {len(inventory.gpus)} GPUs, {len(inventory.nics)} NIC functions")
    if rows:
        table(COLUMNS, rows)
    if name is not None and not differs:
        click.echo(f"as {name} in the catalogue (`trackbed servers {name}`)")
    for doubt in (*found.doubts, *differs):
        click.echo(f"note: {doubt}", err=True)


def _cells(inventory: Inventory, nic: Nic) -> tuple[str, ...]:
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


def _list(gpus: Iterable[int]) -> str:
    return ",".join(map(str, gpus)) or "-"
