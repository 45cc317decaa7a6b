"""The command line: `trackbed COMMAND`. Commands are modules, imported only when they run.

Exit status: 0 good, 1 found something, 2 wrong use or input, 3 unknown.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from trackbed import __version__

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for some is a twelfth of reading a Fabric

COMMANDS = {
    "discover": ("discover", "Read this machine: NICs, GPUs, and which NIC is which rail."),
    "init": ("init", "Make a Fabric of the machines that are there."),
    "servers": ("servers", "List servers whose ports are known before one is there."),
    "capture": ("capture", "Write what this machine says of itself into an archive."),
    "import": ("import_", "Turn an existing site's files into a Fabric."),
    "plan": ("plan", "Show every address and name that follows from a Fabric."),
    "lock": ("lock", "Write down which slot each node has, so that nobody is renumbered."),
    "explain": ("explain", "Say whose an address is, or whose it would be."),
    "render": ("render", "Write configuration for hosts, clusters and switches."),
    "stacks": ("stacks", "List the ways of giving NICs to pods."),
    "job": ("job", "Put rails on a job, write one, compare one with the plan."),
    "lint": ("lint", "Find what is wrong in Kubernetes manifests."),
    "diff": ("diff", "Show how this host differs from the plan."),
    "apply": ("apply", "Make this host as planned; undo it again."),
    "status": ("status", "Show what is on a cluster, how its gates stand, and its nodes' rails."),
    "bios": ("bios", "Compare and stage attributes of the firmware setup, over BMCs."),
    "doctor": ("doctor", "Walk the chain and name the first link that is broken."),
    "agent": ("agent", "Run the node agent that gives pods their rails."),
    "controller": ("controller", "Carry every Fabric of a cluster out, node by node."),
    "webhook": ("webhook", "Run the admission webhook that puts rails on pods."),
    "uninstall": ("uninstall", "Take away what controller and webhook left in a cluster."),
    "lab": ("lab", "Stand up a whole fabric in network namespaces."),
    "faults": ("faults", "List the faults that doctor knows."),
}
"""Command -> (module in trackbed.cli, one line of help). The attribute `command` of the module is the command."""


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
            from trackbed.cli.options import meant

            ctx.fail(f"no such command {args[0]!r}{meant(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


def _load_lab() -> click.Command:
    """Return the commands of the distribution trackbed-lab. Raises UsageError (exit 2) where it is not installed."""
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
  trackbed doctor -f fabric.yaml                what is broken on this host, and how to mend it

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
    """Run the command line; errors of ours print without a traceback."""
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
