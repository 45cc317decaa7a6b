"""`trackbed servers`: the catalogue of servers whose ports are known in advance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_server
from trackbed.cli.options import emit_json, output_option, refuse, suggest_name

if TYPE_CHECKING:
    from trackbed.fabric.model.servers import CatalogueServer

COLUMNS = ("server", "model", "GPUs", "NIC", "rails", "ports")


@click.command("servers")
@click.argument("name", required=False, shell_complete=complete_server)
@output_option("text", "json")
def command(name: str | None, output_format: str) -> None:
    """List the servers that a Fabric may name, or show one; a part of a name, model or NIC lists those that have it.

    A node group with `server: NAME` inherits its ports, their NIC and the number of GPUs; values of the group itself
    take precedence. For servers without ports, the group has to list them.

    \b
    Examples:
      trackbed servers
      trackbed servers dgx-h100
      trackbed servers mi300x
      trackbed servers -o json
    """
    from trackbed.fabric.model.servers import load_servers

    catalogue = load_servers()
    chosen = _find_servers(catalogue, name) if name else catalogue
    if output_format == "json":
        emit_json(chosen)
    elif name in chosen:
        _print_server(name, chosen[name])
    else:
        _print_catalogue(chosen)


def _find_servers(catalogue: dict[str, CatalogueServer], name: str) -> dict[str, CatalogueServer]:
    """Return the server of this name, else those that have it as a part; exit with status 2 without any."""
    if name in catalogue:
        return {name: catalogue[name]}
    similar = {
        key: server
        for key, server in catalogue.items()
        if name.lower() in f"{key} {server.model} {_render_nic(server)}".lower()
    }
    if not similar:
        refuse(f"the catalogue has no server {name!r}{suggest_name(name, catalogue, '`trackbed servers` lists all')}")
    return similar


def _print_catalogue(catalogue: dict[str, CatalogueServer]) -> None:
    from trackbed.cli.tables import print_table

    rows = [
        (
            name,
            server.model,
            str(server.gpus.count),
            _render_nic(server),
            str(len(server.ports)) if server.ports else "-",
            "known" if server.ports else "write them",
        )
        for name, server in catalogue.items()
    ]
    print_table(COLUMNS, rows)


def _print_server(name: str, server: CatalogueServer) -> None:
    from trackbed.cli.tables import print_table

    click.echo(
        f"{name}: {server.model}, {server.gpus.count} GPUs ({server.gpus.model}), rails of {_render_nic(server)}"
    )
    rows = [(str(rail), pci, "") for rail, pci in enumerate(server.ports or ())]
    rows += [("-", aside.pci or "-", f"{aside.nic or ''}: {aside.role}".lstrip(": ")) for aside in server.aside]
    if rows:
        print_table(("rail", "pci", "no rail, because"), rows)
    if server.ports is None:
        click.echo("the PCI addresses of its rails are not published; `trackbed init` on such a server finds them")
    click.echo(f"{server.certainty}; source: {server.source}")


def _render_nic(server: CatalogueServer) -> str:
    """Return the NIC's model and rate; many models have the rate in their name."""
    rate = f"{server.nic.gbps:g}G" if server.nic.gbps else ""
    return server.nic.model if rate in ["", *server.nic.model.split()] else f"{server.nic.model} {rate}"
