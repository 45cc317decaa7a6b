"""How `trackbed prove` starts its workers on hosts: over SSH, or by a launcher such as srun."""

from __future__ import annotations

from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import combine_options, refuse

if TYPE_CHECKING:
    from trackbed.fabric.plan.plan import Plan
    from trackbed.fleet.run import SshOptions
    from trackbed.fleet.sheet_run import SheetCalls

ssh_options = combine_options(
    click.option("--user", metavar="NAME", help="Log in as this user; sudo without a password unless root."),
    click.option(
        "--ssh-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Instead of your own ~/.ssh/config (ssh -F).",
    ),
    click.option(
        "--launch",
        metavar="COMMAND",
        help="Start workers by this, not by ssh; %h is the node: 'srun --nodelist %h --ntasks 1 --overlap'.",
    ),
)


def build_ssh_options(user: str | None, ssh_config: Path | None, launch: str | None) -> SshOptions:
    """Return how workers are started. Exit with status 2 for a launcher that cannot be one."""
    from trackbed.fleet.launcher import parse_launcher
    from trackbed.fleet.run import SshOptions

    if launch is None:
        return SshOptions(user=user, ssh_config=ssh_config)
    if user or ssh_config:
        refuse("--user and --ssh-config are of SSH, and --launch uses none")
    try:
        launcher = parse_launcher(launch)
    except ValueError as error:
        refuse(f"--launch {launch!r}: {error}; write for example 'srun --nodelist %h --ntasks 1 --overlap'")
    if not which(launcher[0]):
        refuse(f"--launch: there is no program {launcher[0]} here; run this where there is one, in an allocation")
    return SshOptions(launcher=tuple(launcher))


def run_on_hosts(plan: Plan, ssh: SshOptions, calls: SheetCalls) -> None:
    """Run sheets on the hosts of a plan."""
    from trackbed.fleet.proof_ssh import run_sheets

    run_sheets([node.name for node in plan.nodes], ssh, calls)
