"""`trackbed explain ADDRESS`: whose is it."""

from __future__ import annotations

import click

from trackbed.cli.options import emit_json, fabric_option, output_option, read_fabric, refuse


@click.command("explain")
@click.argument("address")
@fabric_option
@output_option("text", "json")
def command(address: str, fabric_file: str, form: str) -> None:
    """Say whose an address is, or whose it would be.

    Exits with 1 when the address belongs to no rail.

    \b
    Examples:
      trackbed explain 172.18.1.10 -f fabric.yaml
      trackbed explain 172.18.1.11 -f fabric.yaml -o json
    """
    from trackbed.fabric.model.ranges import parse_address
    from trackbed.fabric.plan.explain import explain

    try:
        version, number = parse_address(address.partition("/")[0])
    except ValueError:
        refuse(f"{address!r} is no IP address")
    loaded, planned = read_fabric(fabric_file)
    found = explain(loaded.fabric, planned, version, number)
    if form == "json":
        emit_json(found)
    else:
        click.echo(found.text)
    raise SystemExit(1 if found.role == "outside" else 0)
