"""`trackbed lab vm break` and `heal`: practise on an emulated server."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from trackbed.cli.options import meant, read_with_lock, refuse
from trackbed_lab.cli.vm import folder_option, here_or_end, unknown

_FABRIC = "fabric.yaml"
_SECONDS = 300.0
_source = click.option(
    "-f",
    "--fabric",
    "source",
    metavar="FILE",
    help="The Fabric that the server was set up by. Default: the one of `lab vm run --keep`.",
)


@click.command("break")
@folder_option
@_source
@click.argument("name")
@click.argument("fault_id")
def break_(folder: Path, source: str | None, name: str, fault_id: str) -> None:
    """Break one link of the chain in a server; docs/reference/faults.md says which can be had there.

    \b
    Examples:
      trackbed lab vm break node-0 vfs-count-wrong
      trackbed lab vm exec node-0 -- trackbed doctor -f /run/own/fabric.yaml
    """
    _fault("break", folder, source, name, fault_id)


@click.command("heal")
@folder_option
@_source
@click.argument("name")
@click.argument("fault_id")
def heal(folder: Path, source: str | None, name: str, fault_id: str) -> None:
    """Undo a fault that `break` has made.

    \b
    Example:
      trackbed lab vm heal node-0 vfs-count-wrong
    """
    _fault("heal", folder, source, name, fault_id)


def _fault(what: str, folder: Path, source: str | None, name: str, fault_id: str) -> None:
    from trackbed_lab.vm import channel, lab
    from trackbed_lab.vm.faults import FAULTS
    from trackbed_lab.vm.machine import locate_shared_folder

    ids = [fault.id for fault in FAULTS]
    if fault_id not in ids:
        refuse(f"no fault {fault_id!r} for servers{meant(fault_id, ids, 'see docs/reference/faults.md')}")
    here = here_or_end(folder)
    try:
        server = here.find_server(name)
    except lab.VmLabError as error:
        refuse(str(error))
    _bring(locate_shared_folder(Path(here.folder), name) / _FABRIC, source)
    argv = [sys.executable, "-m", "trackbed_lab.vm.faults.inside", f"/run/own/{_FABRIC}", name, what, fault_id]
    try:
        done = channel.execute(server.channel, argv, _SECONDS)
    except channel.ChannelError as error:
        unknown(lab.describe_failure(here, name, str(error)))
    if done.status:
        unknown(done.errors.decode(errors="replace").strip())
    click.echo(f"{'broke' if what == 'break' else 'healed'} {fault_id} on {name}")


def _bring(place: Path, source: str | None) -> None:
    """Put the Fabric where the server sees it."""
    if source is not None:
        place.write_bytes(read_with_lock(source))
    elif not place.exists():
        refuse("no Fabric is known of these servers; name it with -f")
