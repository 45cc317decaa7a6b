"""`trackbed explain ADDRESS`: the owner of an address."""

from __future__ import annotations

import click

from trackbed.cli.options import emit_json, fabric_option, output_option, read_fabric, refuse


@click.command("explain")
@click.argument("address")
@fabric_option
@output_option("text", "json")
def command(address: str, fabric_file: str, output_format: str) -> None:
    """Explain which node, rail or pod an address belongs to, or would belong to.

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
        refuse(f"{address!r} is not an IP address")
    loaded, planned = read_fabric(fabric_file)
    explanation = explain(loaded.fabric, planned, version, number)
    if output_format == "json":
        emit_json(explanation)
    else:
        click.echo(explanation.text)
    raise SystemExit(1 if explanation.role == "outside" else 0)
