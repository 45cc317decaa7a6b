"""`trackbed faults`: the catalogue of faults."""

from __future__ import annotations

import click

from trackbed.cli.options import emit_json, output_option, refuse, suggest


@click.command("faults")
@click.argument("fault_id", required=False)
@output_option("table", "json")
def command(fault_id: str | None, output_format: str) -> None:
    """List the faults that doctor knows, or explain one.

    \b
    Examples:
      trackbed faults
      trackbed faults route-rule-missing
    """
    from trackbed.doctor.catalogue import load_catalogue

    known = load_catalogue()
    if fault_id is not None and fault_id not in known:
        refuse(f"no fault {fault_id!r}{suggest(fault_id, known, 'see trackbed faults')}")
    chosen = [known[fault_id]] if fault_id else list(known.values())
    if output_format == "json":
        emit_json(chosen)
    elif fault_id:
        fault = chosen[0]
        click.echo(
            f"{fault.id} ({fault.step}, {fault.verdict}): {fault.title}\n  why: {fault.cause}\n  fix: {fault.fix}"
        )
    else:
        from trackbed.cli.tables import print_table

        print_table(
            ("step", "fault", "verdict", "what is checked"), [(f.step, f.id, f.verdict, f.title) for f in chosen]
        )
