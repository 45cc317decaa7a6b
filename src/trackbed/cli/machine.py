"""Options and output that `diff` and `apply` share: the machine, and its differences from the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trackbed.cli.options import emit_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from trackbed.host.change import Comparison
    from trackbed.host.machine import Machine

_Command = TypeVar("_Command", bound="Callable[..., Any]")

COLUMNS = ("step", "rail", "what", "have", "want")


def machine_options(command: _Command) -> _Command:
    """Add --root DIR and --netns PATH, which select the machine, by default this one."""
    root = click.option(
        "--root",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default="/",
        show_default=True,
        help="Folder that holds the machine's files; /host in a container.",
    )
    netns = click.option(
        "--netns",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="PATH",
        help="Network namespace of the machine, for example /run/netns/gpu-0. Default: the current one.",
    )
    return root(netns(command))


def wait_for_boot(machine: Machine) -> None:
    """Wait until the host has finished booting, with a message."""
    from trackbed.host import booting

    if booting.is_pending(machine):
        click.echo(f"this host is still booting: waiting for {booting.UNIT}, minutes at most", err=True)
        booting.wait(machine)


def show(comparison: Comparison, output_format: str, node_name: str) -> None:
    """Print a comparison: differences as a table, then what was skipped."""
    if output_format == "json":
        emit_json(build_document(comparison, node_name))
        return
    from trackbed.cli.tables import print_table

    if comparison.changes:
        rows = [(c.step, "-" if c.rail is None else str(c.rail), c.subject, c.have, c.want) for c in comparison.changes]
        print_table(COLUMNS, rows, f"{node_name}: {len(rows)} differences")
    else:
        click.echo(f"{node_name} is as planned")
    for advice in dict.fromkeys(change.advice for change in comparison.changes if change.advice):
        click.echo(f"note: {advice}", err=True)
    print_reboot_note(comparison)
    for reason in dict.fromkeys(skipped.reason for skipped in comparison.skipped):
        settings = ", ".join(skipped.subject for skipped in comparison.skipped if skipped.reason == reason)
        click.echo(f"skipped, {reason}: {settings}", err=True)


def print_reboot_note(comparison: Comparison) -> None:
    """Print which steps take effect at the next boot, if any."""
    waiting = list(dict.fromkeys(change.step for change in comparison.changes if change.reboot))
    if waiting:
        click.echo(f"reboot this host: everything is set for it, and {', '.join(waiting)} takes effect then", err=True)


def build_document(comparison: Comparison, node_name: str) -> dict[str, object]:
    """Return the comparison of a node as a JSON document."""
    from trackbed.host import change

    return {"node": node_name} | change.to_document(comparison)
