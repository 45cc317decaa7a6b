"""`trackbed lab vm break` and `heal`: faults on an emulated server."""

import sys
from pathlib import Path

import click

from trackbed.cli.completion import complete_vm_fault
from trackbed.cli.options import exit_unknown, read_with_lock, refuse, suggest_name
from trackbed_lab.cli.vm import folder_option, load_lab

_FABRIC = "fabric.yaml"
_SECONDS = 300.0
_source_option = click.option(
    "-f",
    "--fabric",
    "source",
    metavar="FILE",
    help="The Fabric that the server was configured by. Default: the one of `lab vm run --keep`.",
)


@click.command("break")
@folder_option
@_source_option
@click.argument("name")
@click.argument("fault_id", shell_complete=complete_vm_fault)
def break_(folder: Path, source: str | None, name: str, fault_id: str) -> None:
    """Inject a fault into a server; docs/reference/faults.md lists the faults for servers.

    \b
    Examples:
      trackbed lab vm break node-0 vfs-count-wrong
      trackbed lab vm exec node-0 -- trackbed doctor -f /run/own/fabric.yaml
    """
    _inject_or_heal("break", folder, source, name, fault_id)


@click.command("heal")
@folder_option
@_source_option
@click.argument("name")
@click.argument("fault_id", shell_complete=complete_vm_fault)
def heal(folder: Path, source: str | None, name: str, fault_id: str) -> None:
    """Heal a fault that `break` injected.

    \b
    Example:
      trackbed lab vm heal node-0 vfs-count-wrong
    """
    _inject_or_heal("heal", folder, source, name, fault_id)


def _inject_or_heal(action: str, folder: Path, source: str | None, name: str, fault_id: str) -> None:
    from trackbed_lab.vm import channel, lab
    from trackbed_lab.vm.faults import FAULTS
    from trackbed_lab.vm.machine import locate_shared_folder

    ids = [fault.id for fault in FAULTS]
    if fault_id not in ids:
        refuse(f"no fault {fault_id!r} for servers{suggest_name(fault_id, ids, 'see docs/reference/faults.md')}")
    vm_lab = load_lab(folder)
    try:
        server = vm_lab.find_server(name)
    except lab.VmLabError as error:
        refuse(str(error))
    _copy_fabric(locate_shared_folder(Path(vm_lab.folder), name) / _FABRIC, source)
    argv = [sys.executable, "-m", "trackbed_lab.vm.faults.inside", f"/run/own/{_FABRIC}", name, action, fault_id]
    try:
        result = channel.execute_command(server.channel, argv, _SECONDS)
    except channel.ChannelError as error:
        exit_unknown(lab.describe_failure(vm_lab, name, str(error)))
    if result.status:
        exit_unknown(result.errors.decode(errors="replace").strip())
    click.echo(f"{'broke' if action == 'break' else 'healed'} {fault_id} on {name}")


def _copy_fabric(target: Path, source: str | None) -> None:
    """Copy a Fabric to the server's shared folder. Without a source, exit with status 2 if the folder has none."""
    if source is not None:
        target.write_bytes(read_with_lock(source)[0])
    elif not target.exists():
        refuse("no Fabric is known of these servers; name it with -f")
