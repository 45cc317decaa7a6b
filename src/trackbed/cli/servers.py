"""`trackbed servers`: the catalogue of servers whose ports are known before one is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.options import emit_json, meant, output_option, refuse

if TYPE_CHECKING:
    from trackbed.fabric.model.servers import CatalogueServer

COLUMNS = ("server", "model", "GPUs", "NIC", "rails", "ports")


@click.command("servers")
@click.argument("name", required=False)
@output_option("text", "json")
def command(name: str | None, form: str) -> None:
    """List the servers that a Fabric may name, or show one.

    A node group with `server: NAME` takes its ports, their NIC and the number of GPUs from here; what the group says
    itself goes first. Servers without ports need them written down.

    \b
    Examples:
      trackbed servers
      trackbed servers dgx-h100
      trackbed servers -o json
    """
    from trackbed.fabric.model.servers import load_servers

    known = load_servers()
    if name is not None and name not in known:
        refuse(f"the catalogue has no server {name!r}{meant(name, known, '`trackbed servers` lists all')}")
    if form == "json":
        emit_json(known if name is None else {name: known[name]})
    elif name is None:
        _listed(known)
    else:
        _one(name, known[name])


def _listed(known: dict[str, CatalogueServer]) -> None:
    from trackbed.cli.tables import table

    rows = [
        (
            name,
            one.model,
            str(one.gpus.count),
            _nic(one),
            str(len(one.ports)) if one.ports else "-",
            "known" if one.ports else "write them",
        )
        for name, one in known.items()
    ]
    table(COLUMNS, rows)


def _one(name: str, server: CatalogueServer) -> None:
    from trackbed.cli.tables import table

    click.echo(f"{name}: {server.model}, {server.gpus.count} GPUs ({server.gpus.model}), rails of {_nic(server)}")
    rows = [(str(rail), pci, "") for rail, pci in enumerate(server.ports or ())]
    rows += [("-", aside.pci or "-", f"{aside.nic or ''}: {aside.role}".lstrip(": ")) for aside in server.aside]
    if rows:
        table(("rail", "pci", "no rail, because"), rows)
    if server.ports is None:
        click.echo("nobody has published the PCI addresses of its rails; `trackbed init` on one finds them")
    click.echo(f"{server.certainty}; source: {server.source}")


def _nic(server: CatalogueServer) -> str:
    return f"{server.nic.model} {server.nic.gbps:g}G" if server.nic.gbps else server.nic.model
