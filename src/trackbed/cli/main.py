"""The command line: `trackbed COMMAND`. Commands are modules, imported only when they run.

The exit status is 0 for success, 1 if something was found, 2 for wrong use or input, 3 if the state is unknown.
"""

import os
import sys
from importlib import import_module

import click

from trackbed import __version__
from trackbed.cli.ending import catch_stop_requests, run_to_end
from trackbed.cli.terminal import guard_streams

# Plugin discovery takes some 8 % of the time to load a Fabric.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

COMMANDS = {
    "discover": ("discover", "Read this machine: NICs, GPUs, and which NIC is which rail."),
    "init": ("init", "Make a Fabric of discovered machines."),
    "servers": ("servers", "List servers whose ports are known in advance."),
    "capture": ("capture", "Write an archive that describes this machine."),
    "import": ("import_", "Turn an existing site's files into a Fabric."),
    "validate": ("validate", "Show everything that is wrong in a Fabric, with its place."),
    "plan": ("plan", "Show every address and name that is derived from a Fabric."),
    "lock": ("lock", "Record the slot of each node, so that no node is renumbered."),
    "explain": ("explain", "Explain a fault, a lint rule, a field, an address, a host or an interface."),
    "render": ("render", "Write configuration for hosts, clusters and switches."),
    "stacks": ("stacks", "List the ways of giving NICs to pods."),
    "job": ("job", "Add rails to a job, write one, compare one with the plan."),
    "lint": ("lint", "Find what is wrong in Kubernetes manifests."),
    "diff": ("diff", "Show how this host differs from the plan."),
    "apply": ("apply", "Apply the plan to this host, or undo it."),
    "status": ("status", "Show the stacks of a cluster, the state of their gates, and the rails of its nodes."),
    "bios": ("bios", "Compare and stage attributes of the firmware setup, over BMCs."),
    "doctor": ("doctor", "Check the chain to the pod, and name the first fault."),
    "prove": ("prove", "Measure the rails of nodes, and name what is slow or broken."),
    "agent": ("agent", "Run the node agent that gives pods their rails."),
    "controller": ("controller", "Apply every Fabric of a cluster, node by node."),
    "webhook": ("webhook", "Run the admission webhook that adds rails to pods."),
    "uninstall": ("uninstall", "Remove the objects of controller and webhook from a cluster."),
    "lab": ("lab", "Run a whole fabric in network namespaces."),
    "faults": ("faults", "List the faults that doctor knows."),
    "help": ("help", "Show the help of a command."),
    "version": ("version", "Show the version."),
}
"""Command -> (module in trackbed.cli, line of help). The module's attribute `command` is the click command."""

SECTIONS = {
    "Describe a cluster": ("discover", "init", "servers", "capture", "import"),
    "Plan": ("validate", "plan", "lock", "render", "stacks"),
    "Hosts": ("diff", "apply", "doctor", "prove", "bios"),
    "Kubernetes": ("status", "job", "lint", "agent", "controller", "webhook", "uninstall"),
    "Try and understand": ("lab", "explain", "faults", "help", "version"),
}
"""Title in --help -> commands."""


class _LazyGroup(click.Group):
    """A group that imports a command's module when it is called, so that --help imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if name == "lab":
            return _load_lab_commands(ctx)
        command: click.Command = import_module(f"trackbed.cli.{COMMANDS[name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        width = max(map(len, COMMANDS))
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), COMMANDS[name][1]) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from trackbed.cli.options import suggest_name

            ctx.fail(f"no such command {args[0]!r}{suggest_name(args[0], COMMANDS)}")
        return super().resolve_command(ctx, args)


def _load_lab_commands(ctx: click.Context) -> click.Command | None:
    """Import and return the commands of the distribution trackbed-lab.

    If it is not installed, return None during shell completion, else raise UsageError (exit status 2).
    """
    try:
        command: click.Command = import_module("trackbed_lab.cli").command
    except ModuleNotFoundError as error:
        if error.name != "trackbed_lab":
            raise
        if ctx.resilient_parsing:
            return None
        raise click.UsageError(
            "the lab is a package of its own that is not installed here; "
            "in a clone of Trackbed run: pip install ./packages/trackbed-lab"
        ) from error
    return command


EPILOG = """\b
Examples:
  trackbed lab run                   a whole fabric here, in seconds
  trackbed import netplan ./netplan | trackbed plan -f -
  trackbed plan -f fabric.yaml --nodes gpu-0
  trackbed diff -f fabric.yaml       what would change on this host
  trackbed doctor -f fabric.yaml     what is broken here, and how to fix it

\b
The exit status is 0 for success, 1 if something was found, 2 for wrong use
or input, 3 if the state is unknown.
Completion: eval "$(_TRACKBED_COMPLETE=bash_source trackbed)", or zsh_source
"""


@click.group(cls=_LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trackbed")
def cli() -> None:
    """Take a GPU cluster from bare metal to pods that ask for RDMA NICs and get them.

    One file, the Fabric, says what is wanted; everything else is planned from it, applied, and proved against it.
    """


def main() -> None:
    """Run the command line and exit; expected errors are printed without a traceback."""
    guard_streams()
    catch_stop_requests()
    sys.exit(run_to_end(lambda: cli.main(standalone_mode=False)))
