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


def compare_machine(
    machine: Machine, node: NodePlan, *, with_files: bool = True, removals: int | None = None
) -> Assessment:
    """Compare a machine with its plan. Exit with status 2 if the machine cannot be read.

    `removals` is the number of removals that the user confirmed with --removals, or None.
    """
    from trackbed.host.steps import iter_settings
    from trackbed.host.transaction.compare import compare_view, exclude_boot_changes, read_view
    from trackbed.host.transaction.fit import explain_refusal, measure_fit
    from trackbed.kernel.netlink.codec import NetlinkError

    _wait_for_boot(machine)
    try:
        view = read_view(machine, iter_settings(node))
        comparison = compare_view(view) if with_files else exclude_boot_changes(compare_view(view))
        return Assessment(comparison, explain_refusal(measure_fit(view, comparison), removals))
    except (OSError, NetlinkError) as error:
        refuse(f"cannot read the state of this machine: {error}")


def print_comparison(judged: Assessment, output_format: str, node_name: str) -> None:
    """Print a comparison: differences as a table, then what was skipped."""
    comparison = judged.comparison
    if output_format == "json":
        misfit = {"misfit": judged.misfit} if judged.misfit else {}
        emit_json(build_document(comparison, node_name) | misfit)
        return
    from trackbed.cli.tables import print_table
    from trackbed.host.change import count_changes

    if comparison.changes:
        print_table(COLUMNS, list(map(_build_row, comparison.changes)), f"{node_name}: differences from the plan")
        click.echo(f"{node_name}: {count_changes(comparison)}")
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
