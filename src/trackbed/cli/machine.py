"""What `diff`, `apply` and their kin share: which machine is meant, and how differences are shown."""

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
    """--root DIR and --netns PATH: the machine to look at, by default this one."""
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
        help="Network namespace of the machine, for example /run/netns/gpu-0. Default: the one this runs in.",
    )
    return root(netns(command))


def booted(machine: Machine) -> None:
    """Let a host finish booting first, and say so."""
    from trackbed.host import booting

    if booting.is_pending(machine):
        click.echo(f"this host is still booting: waiting for {booting.UNIT}, minutes at most", err=True)
        booting.wait(machine)


def show(found: Comparison, form: str, node_name: str) -> None:
    """Print a comparison: what differs as a table, what cannot be judged below it."""
    if form == "json":
        emit_json(document(found, node_name))
        return
    from trackbed.cli.tables import table

    if found.changes:
        rows = [(c.step, "-" if c.rail is None else str(c.rail), c.subject, c.have, c.want) for c in found.changes]
        table(COLUMNS, rows, f"{node_name}: {len(rows)} differences")
    else:
        click.echo(f"{node_name} is as planned")
    for advice in dict.fromkeys(change.advice for change in found.changes if change.advice):
        click.echo(f"note: {advice}", err=True)
    tell_reboot(found)
    for reason in dict.fromkeys(skipped.reason for skipped in found.skipped):
        what = ", ".join(skipped.subject for skipped in found.skipped if skipped.reason == reason)
        click.echo(f"skipped, {reason}: {what}", err=True)


def tell_reboot(found: Comparison) -> None:
    """Say which steps wait for the next boot, if any do."""
    waiting = list(dict.fromkeys(change.step for change in found.changes if change.reboot))
    if waiting:
        click.echo(f"reboot this host: everything is set for it, and {', '.join(waiting)} takes effect then", err=True)


def document(found: Comparison, node_name: str) -> dict[str, object]:
    """The comparison of one node as a document for machines."""
    from trackbed.host import change

    return {"node": node_name} | change.to_document(found)
