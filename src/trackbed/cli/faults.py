"""`trackbed faults`: the catalogue of faults."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import click

from trackbed.cli.completion import complete_fault
from trackbed.cli.options import choose_entries, emit_json, output_option
from trackbed.cli.terminal import print_prose

if TYPE_CHECKING:
    from trackbed.doctor.catalogue import Fault


@click.command("faults")
@click.argument("fault_id", required=False, shell_complete=complete_fault)
@output_option("table", "json")
def command(fault_id: str | None, output_format: str) -> None:
    """List the faults that doctor knows, or explain one.

    The column `checked on` says where its check runs, `lab` where the lab can break it.

    \b
    Examples:
      trackbed faults
      trackbed faults route-rule-missing
    """
    from trackbed.doctor.catalogue import fill_placeholders, load_catalogue

    chosen = choose_entries(load_catalogue(), fault_id, "fault", "see trackbed faults")
    if output_format == "json":
        emit_json([_build_document(fill_placeholders(fault)) for fault in chosen])
    elif fault_id:
        print_fault(chosen[0], output_format)
    else:
        from trackbed.cli.tables import print_table

        rows = [
            (f.step, f.id, f.verdict, ", ".join(list_places(f)), ", ".join(list_labs(f.id) or ()) or "-", f.title)
            for f in chosen
        ]
        print_table(("step", "fault", "verdict", "checked on", "lab", "what is checked"), rows)


def print_fault(fault: Fault, output_format: str) -> None:
    """Print one fault: cause, fix, and how a lab breaks it."""
    from trackbed.doctor.catalogue import fill_placeholders

    filled = fill_placeholders(fault)
    if output_format == "json":
        emit_json(_build_document(filled))
        return
    print_prose(f"{filled.id} ({filled.step}, {filled.verdict}): {filled.title}")
    print_prose(f"  checked on: {', '.join(list_places(fault))}")
    print_prose(f"  why: {filled.cause}\n  fix: {filled.fix}", len("why: "))
    for lab in list_labs(fault.id) or ():
        click.echo(f"  lab: {_BREAK[lab].format(fault.id)}")


_BREAK = {"namespaces": "trackbed lab break {}", "servers": "trackbed lab vm break node-0 {}"}


def list_places(fault: Fault) -> list[str]:
    """Return where the check of a fault runs: host, nodes or lab; and capture where a capture holds its inputs."""
    from trackbed.doctor.checks import FILE_STEPS

    return [fault.runs_on, *(["capture"] if fault.runs_on == "host" and fault.step in FILE_STEPS else [])]


def list_labs(fault_id: str) -> list[str] | None:
    """Return where a lab can break a fault: namespaces, servers; None if the lab is not installed."""
    try:
        namespaces = import_module("trackbed_lab.faults").FAULTS
        servers = {fault.id for fault in import_module("trackbed_lab.vm.faults").FAULTS}
    except ModuleNotFoundError:
        return None
    return [lab for lab, ids in (("namespaces", namespaces), ("servers", servers)) if fault_id in ids]


def _build_document(fault: Fault) -> dict[str, object]:
    import msgspec

    return {**msgspec.to_builtins(fault), "runsOn": list_places(fault), "lab": list_labs(fault.id)}
