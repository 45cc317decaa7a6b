"""Options and output shared by `diff` and `apply`: the machine, and its differences from the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from trackbed.cli.options import combine_options, emit_json, refuse

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import NodePlan
    from trackbed.host.change import Change, Comparison
    from trackbed.host.machine import Machine
    from trackbed.host.transaction.files import FileChange

COLUMNS = ("", "step", "rail", "what", "have", "want")
_SIGNS = {"add": "+", "change": "~", "remove": "-"}


machine_options = combine_options(
    click.option(
        "--root",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default="/",
        show_default=True,
        help="Folder that holds the machine's files; /host in a container.",
    ),
    click.option(
        "--netns",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="PATH",
        help="Network namespace of the machine, for example /run/netns/gpu-0. Default: the current one.",
    ),
)
"""--root DIR and --netns PATH, which select the machine, by default this one."""

PERSIST = ("auto", "netplan", "networkd", "networkmanager", "ifupdown", "none")

persist_option = click.option(
    "--persist",
    type=click.Choice(PERSIST),
    default="auto",
    show_default=True,
    help="Format of the files for the next boot. auto: that of its network manager; none for --netns alone.",
)


def _wait_for_boot(machine: Machine) -> None:
    """Wait until the host has finished booting; print a message if it has not."""
    from trackbed.host import booting

    if booting.is_boot_unit_pending(machine):
        click.echo(f"this host is still booting: waiting for {booting.BOOT_UNIT}, minutes at most", err=True)
        booting.wait_for_boot_unit(machine)


class Assessment(NamedTuple):
    """How a machine differs from its plan. `misfit` is why apply refuses the plan, or "" if it does not."""

    comparison: Comparison
    misfit: str
    files: tuple[FileChange, ...] = ()
    """The network's files for the next boot that differ."""

    @property
    def is_as_planned(self) -> bool:
        """Whether nothing differs."""
        return not self.comparison.changes and not self.files


def select_boot_files(machine: Machine, node: NodePlan, persist: str) -> dict[str, str] | None:
    """Return the network's files for the next boot; print warnings about those of others. See `select_files`.

    Raises ManagerError. Exits with status 2 if the machine cannot be read.
    """
    from trackbed.host.render import FORMATS
    from trackbed.host.transaction.boot_files import select_files
    from trackbed.kernel.netlink.codec import NetlinkError

    if persist == "auto" and machine.netns is not None and machine.root == Path("/"):
        return None
    try:
        files, warnings = select_files(machine, node, persist, lambda chosen: FORMATS[chosen](node))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)
    return files


def compare_machine(
    machine: Machine,
    node: NodePlan,
    files: dict[str, str] | None,
    *,
    until_reboot: bool = False,
    removals: int | None = None,
) -> Assessment:
    """Compare a machine with its plan, and the network's files with `files`, unless that is None.

    Exit with status 2 if the machine cannot be read. `until_reboot` leaves out what takes effect at the next boot;
    `removals` is the number of removals that the user confirmed with --removals, or None.
    """
    from trackbed.host.steps import iter_settings
    from trackbed.host.transaction.compare import compare_view, exclude_boot_changes, read_view
    from trackbed.host.transaction.files import list_differences
    from trackbed.host.transaction.fit import explain_refusal, measure_fit
    from trackbed.kernel.netlink.codec import NetlinkError

    _wait_for_boot(machine)
    try:
        view = read_view(machine, iter_settings(node))
        comparison = exclude_boot_changes(compare_view(view)) if until_reboot else compare_view(view)
        rewritten = list_differences(machine, files) if files is not None else ()
        return Assessment(comparison, explain_refusal(measure_fit(view, comparison), removals), rewritten)
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")


def print_files(judged: Assessment) -> None:
    """Print which of the network's files apply would write or delete."""
    for change in judged.files:
        click.echo(f"{'delete' if change.want is None else 'write'} {change.path}", err=True)


def print_comparison(judged: Assessment, output_format: str, node_name: str) -> None:
    """Print a comparison: differences as a table, then what was skipped."""
    comparison = judged.comparison
    if output_format == "json":
        misfit = {"misfit": judged.misfit} if judged.misfit else {}
        files = {"files": [change.path for change in judged.files]}
        emit_json(build_document(comparison, node_name) | files | misfit)
        return
    from trackbed.cli.tables import print_table
    from trackbed.host.change import count_changes

    if comparison.changes:
        print_table(COLUMNS, list(map(_build_row, comparison.changes)), f"{node_name}: differences from the plan")
        click.echo(f"{node_name}: {count_changes(comparison)}")
    elif judged.files:
        differ = "file differs" if len(judged.files) == 1 else "files differ"
        click.echo(f"{node_name} is as planned until the next boot: {len(judged.files)} {differ}")
    else:
        click.echo(f"{node_name} is as planned")
    for advice in dict.fromkeys(change.advice for change in comparison.changes if change.advice):
        click.echo(f"note: {advice}", err=True)
    print_reboot_note(comparison)
    for reason in dict.fromkeys(skipped.reason for skipped in comparison.skipped):
        subjects = [skipped.subject for skipped in comparison.skipped if skipped.reason == reason]
        click.echo("\n  ".join((f"skipped, {reason}:", *_shorten_list(subjects))), err=True)


_MAX_SUBJECTS = 3


def _shorten_list(subjects: list[str]) -> list[str]:
    """Return the first subjects, and the number of the others in place of a last one."""
    if len(subjects) <= _MAX_SUBJECTS + 1:
        return subjects
    return [*subjects[:_MAX_SUBJECTS], f"and {len(subjects) - _MAX_SUBJECTS} more; -o json has all"]


def warn_of_refusal(judged: Assessment) -> None:
    """Print why apply refuses the plan, if it does."""
    if judged.misfit:
        click.echo(f"apply refuses this plan: {judged.misfit}", err=True)


def _build_row(change: Change) -> tuple[str, ...]:
    rail = "-" if change.rail is None else str(change.rail)
    return _SIGNS[change.action], change.step, rail, change.subject, change.have, change.want


def print_reboot_note(comparison: Comparison) -> None:
    """Print which steps take effect at the next boot, if any."""
    waiting = list(dict.fromkeys(change.step for change in comparison.changes if change.reboot))
    if waiting:
        click.echo(f"reboot this host: everything is set for it, and {', '.join(waiting)} takes effect then", err=True)


def build_document(comparison: Comparison, node_name: str) -> dict[str, object]:
    """Return the comparison of a node as a JSON document."""
    from trackbed.host import change

    return {"node": node_name} | change.to_document(comparison)
