"""The command line: `trackbed COMMAND`. Commands are modules, imported only when they run.

Exit status: 0 good, 1 found something, 2 wrong use or input, 3 unknown.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from trackbed import __version__

# Plugin discovery takes some 8 % of the time to load a Fabric.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

COMMANDS = {
    "discover": ("discover", "Read this machine: NICs, GPUs, and which NIC is which rail."),
    "init": ("init", "Make a Fabric of discovered machines."),
    "servers": ("servers", "List servers whose ports are known in advance."),
    "capture": ("capture", "Write an archive that describes this machine."),
    "import": ("import_", "Turn an existing site's files into a Fabric."),
    "plan": ("plan", "Show every address and name that is derived from a Fabric."),
    "lock": ("lock", "Record the slot of each node, so that no node is renumbered."),
    "explain": ("explain", "Explain which node, rail or pod an address belongs to."),
    "render": ("render", "Write configuration for hosts, clusters and switches."),
    "stacks": ("stacks", "List the ways of giving NICs to pods."),
    "job": ("job", "Add rails to a job, write one, compare one with the plan."),
    "lint": ("lint", "Find what is wrong in Kubernetes manifests."),
    "diff": ("diff", "Show how this host differs from the plan."),
    "apply": ("apply", "Apply the plan to this host, or undo it."),
    "status": ("status", "Show what is on a cluster, how its gates stand, and its nodes' rails."),
    "bios": ("bios", "Compare and stage attributes of the firmware setup, over BMCs."),
    "doctor": ("doctor", "Check the chain to the pod, and name the first fault."),
    "agent": ("agent", "Run the node agent that gives pods their rails."),
    "controller": ("controller", "Apply every Fabric of a cluster, node by node."),
    "webhook": ("webhook", "Run the admission webhook that adds rails to pods."),
    "uninstall": ("uninstall", "Remove the objects of controller and webhook from a cluster."),
    "lab": ("lab", "Stand up a whole fabric in network namespaces."),
    "faults": ("faults", "List the faults that doctor knows."),
}
"""Command -> (module in trackbed.cli, line of help). The module's attribute `command` is the click command."""


class _Lazy(click.Group):
    """A group that imports a command's module when it is called, so that --help imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if name not in COMMANDS:
            return None
        if name == "lab":
            return _load_lab()
        command: click.Command = import_module(f"trackbed.cli.{COMMANDS[name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from trackbed.cli.options import suggest

            ctx.fail(f"no such command {args[0]!r}{suggest(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


def _load_lab() -> click.Command:
    """Return the commands of the distribution trackbed-lab. Raises UsageError (exit 2) if it is not installed."""
    try:
        command: click.Command = import_module("trackbed_lab.cli").command
    except ModuleNotFoundError as error:
        if error.name != "trackbed_lab":
            raise
        raise click.UsageError(
            f"the lab is a package of its own that is not installed here; run: pip install trackbed-lab=={__version__}"
        ) from error
    return command


EPILOG = """\b
Examples:
  trackbed lab run                              a whole fabric on this machine, in seconds
  trackbed import netplan ./netplan | trackbed plan -f -
  trackbed plan -f fabric.yaml --node gpu-0
  trackbed diff -f fabric.yaml                  what would change on this host
  trackbed doctor -f fabric.yaml                what is broken on this host, and how to fix it

\b
Exit status: 0 good, 1 found something, 2 wrong use or input, 3 unknown.
Completion:  eval "$(_TRACKBED_COMPLETE=bash_source trackbed)"
"""


@click.group(cls=_Lazy, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trackbed")
def cli() -> None:
    """Take a GPU cluster from bare metal to pods that ask for RDMA NICs and get them.

    One file, the Fabric, says what is wanted; everything else is planned from it, applied, and proved against it.
    """


def main() -> None:
    """Run the command line; expected errors are printed without a traceback."""
    try:
        status = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("aborted", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    sys.exit(status if isinstance(status, int) else 0)
