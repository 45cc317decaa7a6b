"""`trackbed lab status` and `exec`: inspection of a lab."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse, suggest_name
from trackbed_lab.cli.session import name_option, run_in_lab

if TYPE_CHECKING:
    from trackbed_lab.lab import Lab


@click.command("status")
@name_option
def status(name: str) -> None:
    """Show the lab's nodes, and the attachments of their agents.

    \b
    Example:
      trackbed lab status
    """
    raise SystemExit(run_in_lab(name, _print_status))


def _print_status(lab: Lab) -> int:
    from trackbed.cli.tables import print_table

    rows = []
    for node in lab.plan.nodes:
        attached = sum(len(attachment["ports"]) for attachment in lab.list_attachments(node.name))
        rows.append(
            (node.name, str(node.unit), str(len(node.ports)), " ".join(lab.list_pods(node.name)) or "-", str(attached))
        )
    print_table(("node", "unit", "ports", "pods", "rails attached"), rows, f"fabric {lab.plan.common.fabric}")
    return 0


@click.command("exec", context_settings={"ignore_unknown_options": True})
@name_option
@click.argument("where")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(name: str, where: str, program: tuple[str, ...]) -> None:
    """Run a program in the namespace of a node, leaf, pod or the spine.

    \b
    Examples:
      trackbed lab exec node-0 -- ip rule
      trackbed lab exec pod-node-0 -- bash
    """
    raise SystemExit(run_in_lab(name, lambda lab: _execute_in_netns(lab, where, program)))


def _execute_in_netns(lab: Lab, netns: str, program: tuple[str, ...]) -> int:
    from trackbed.fabric.host_ranges import fold_hosts
    from trackbed.kernel.netlink.netns import setns

    names = sorted(path.name for path in (lab.files / "ns").iterdir())
    if netns not in names:
        refuse(f"the lab has no {netns!r}{suggest_name(netns, names, f'it has {fold_hosts(names)}')}")
    setns(os.open(lab.locate_netns(netns), os.O_RDONLY | os.O_CLOEXEC))
    try:
        os.execvp(program[0], program)  # noqa: S606 - the user's own program
    except OSError as error:
        refuse(f"cannot run {program[0]}: {error.strerror}")
