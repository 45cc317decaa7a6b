"""Show how a host differs from its plan, ask, and apply what was shown."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.machine import compare_machine, print_comparison, print_files, warn_of_refusal
from trackbed.cli.options import fail, refuse

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.machine import Machine
    from trackbed.host.transaction.apply import ApplyResult
    from trackbed.host.transaction.preview import Preview

_MAX_PREVIEWS = 5
"""Times that a host that keeps changing is shown."""


class Target(NamedTuple):
    """A machine, what to apply to it, and how it is shown.

    `files` are those for the next boot (None: none is written), `removals` the number that the user confirmed.
    """

    machine: Machine
    node: NodePlan
    files: dict[str, str] | None
    removals: int | None
    output_format: str


def show_differences(target: Target, *, dry_run: bool) -> Preview:
    """Print the files to be written and the differences, and return them.

    Exit with status 2 if the plan is refused (a dry run only warns) or the machine cannot be read.
    """
    from trackbed.host.transaction.preview import build_preview

    machine, node, files = target.machine, target.node, target.files
    judged = compare_machine(machine, node, files, until_reboot=files is None, removals=target.removals)
    print_files(judged)
    if target.output_format != "json" or dry_run:
        print_comparison(judged, target.output_format, node.name)
    if dry_run:
        warn_of_refusal(judged)
    elif judged.misfit:
        refuse(f"{node.name}: {judged.misfit}; nothing was changed")
    return build_preview(judged.comparison, judged.files)


def confirm_changes(question: str = "Apply these changes?", *, yes: bool) -> None:
    """Ask whether to apply; exit with status 2 if not, or if there is no terminal to ask on."""
    if yes:
        return
    if not sys.stdin.isatty():
        refuse("standard input is no terminal to confirm on; add --yes to apply, or --dry-run to look only")
    if not click.confirm(question):
        refuse("nothing was changed")


def apply_shown(target: Target, shown: Preview, *, yes: bool) -> ApplyResult:
    """Apply what was shown. If the host has changed meanwhile, show it and ask again.

    With `yes`, go on if less differs than was shown, and exit with status 1 if something else differs.
    """
    from trackbed.host.transaction.apply import StalePreviewError

    previews = 1
    while True:
        try:
            return _apply_plan(target, shown)
        except StalePreviewError as error:
            click.echo(f"{target.node.name}: {error}; it differs now as follows:", err=True)
        confirmed, shown = shown, show_differences(target, dry_run=False)
        previews += 1
        if previews > _MAX_PREVIEWS:
            fail(
                f"{target.node.name}: the host keeps changing; nothing was changed. Stop what changes it and run again"
            )
        if yes and not shown.is_part_of(confirmed):
            fail(
                f"{target.node.name}: --yes confirms only the differences that were shown first; nothing was changed."
                " Run this again, or without --yes to confirm those of now"
            )
        confirm_changes(yes=yes or shown.is_empty)


def _apply_plan(target: Target, shown: Preview) -> ApplyResult:
    from trackbed.host.steps import iter_settings
    from trackbed.host.transaction.apply import ApplyOptions, HostError, MisfitError, StalePreviewError, apply
    from trackbed.host.transaction.record import find_folder
    from trackbed.kernel.netlink.codec import NetlinkError

    machine, node, files = target.machine, target.node, target.files
    try:
        options = ApplyOptions(until_reboot=files is None, removals=target.removals, preview=shown)
        return apply(machine, iter_settings(node), find_folder(machine), files, options)
    except StalePreviewError:
        raise
    except MisfitError as error:
        refuse(f"{node.name}: {error}")
    except (HostError, OSError, ValueError, NetlinkError) as error:
        fail(f"{node.name}: {describe_error(error)}")


def describe_error(error: Exception) -> str:
    """Return the message of an error; where root is missing, with this command as root runs it.

    The program has its whole path: sudo does not search a virtual environment.
    """
    if not isinstance(error, PermissionError) or not os.geteuid():
        return str(error)
    program = Path(sys.argv[0]).absolute()
    start = [str(program)] if program.suffix != ".py" else [sys.executable, "-m", "trackbed"]
    command = shlex.join(["sudo", *start, *sys.argv[1:]])
    return f"cannot use {error.filename}: {error.strerror}; run it as root: {command}"
