"""`trackbed lab vm`: emulated servers with SR-IOV NICs, NUMA nodes and real reboots."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.groups import CommandGroup
from trackbed.cli.old_forms import refuse_option
from trackbed.cli.options import exit_unknown, output_option, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed_lab.vm.lab import VmLab
    from trackbed_lab.vm.machine import LabShape
    from trackbed_lab.vm.parts import Parts


def _locate_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "trackbed" / "vm"


folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_locate_folder,
    help="Folder for consoles, sockets and the servers' files.  [default: ~/.local/state/trackbed/vm]",
)
servers_option = click.option("--servers", default=2, show_default=True, help="How many servers.")
memory_option = click.option("--memory", default=2048, show_default=True, metavar="MIB", help="Memory of each.")


@click.group("vm", cls=CommandGroup)
def command() -> None:
    """Run emulated servers with their own kernel, SR-IOV NICs on leaf switches, NUMA nodes, an IOMMU and real reboots.

    No root is needed and nothing on this machine is changed. A server sees this machine's files below its own changes;
    its /etc, /boot and /var/lib/trackbed persist across reboots.

    \b
    Example:
      trackbed lab vm up && trackbed lab vm exec node-0 -- trackbed doctor
    """


@command.command("up")
@folder_option
@servers_option
@click.option("--rail-count", "rails", default=8, show_default=True, help="NICs of each server, 7 VFs each.")
@refuse_option("--rails", instead="--rail-count {value}")
@memory_option
@click.option("--cpus", default=1, show_default=True, help="Processors of each.")
@click.option(
    "--accelerator",
    type=click.Choice(("auto", "kvm", "tcg")),
    default="auto",
    show_default=True,
    help="auto: KVM where a kernel really runs on it.",
)
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS", help="How long to wait for all.")
def up(folder: Path, servers: int, rails: int, memory: int, cpus: int, accelerator: str, timeout: float) -> None:
    """Start new servers, which run until `down`. The first start downloads QEMU and a kernel.

    \b
    Examples:
      trackbed lab vm up
      trackbed lab vm up --servers 1 --rail-count 2 --memory 3072
    """
    from trackbed_lab.vm.machine import LabShape, find_problems

    shape = LabShape(servers=servers, rails=rails, memory=memory, cpus=cpus, accelerator=accelerator)
    problems = find_problems(shape)
    if problems:
        refuse(f"no such servers can be had: {'; '.join(problems)}")
    start_servers(folder, shape, timeout)
    click.echo(f"{servers} server{'s' * (servers != 1)} up; trackbed lab vm status, exec, reboot, down")


def start_servers(
    folder: Path,
    shape: LabShape,
    timeout: float,
    manager: str = "networkd",
    *,
    packages: Sequence[str] = (),
    detached: bool = True,
) -> VmLab:
    """Start servers, with accelerator `auto` resolved; exit with status 3 if they do not come up.

    With `detached` they outlive this process. `packages`: what they have besides.
    """
    from trackbed_lab.vm import lab, parts
    from trackbed_lab.vm.managers import MANAGERS

    try:
        fetched = parts.fetch_parts(report_progress)
        added = (*MANAGERS[manager].PACKAGES, *packages)
        fetched = parts.add_packages(fetched, "-".join((manager, *packages)), added, report_progress)
        spec = lab.LabSpec(fetched, choose_accelerator(fetched, shape), manager=manager, detached=detached)
        return lab.start_lab(folder.absolute(), spec, report_progress, timeout)
    except (lab.VmLabError, parts.PartsError, OSError) as error:
        exit_unknown(str(error))


def choose_accelerator(parts: Parts, shape: LabShape) -> LabShape:
    """Return the shape with accelerator `auto` replaced by KVM where it works, else by TCG."""
    from msgspec.structs import replace

    from trackbed_lab.vm import accelerator

    if shape.accelerator != "auto":
        return shape
    choice = accelerator.choose_accelerator(parts)
    report_progress(choice.why)
    return replace(shape, accelerator=choice.accelerator)


@command.command("exec", context_settings={"ignore_unknown_options": True})
@folder_option
@click.option("--timeout", default=600.0, show_default=True, metavar="SECONDS", help="When to end the program.")
@click.option("-i", "--stdin", "has_input", is_flag=True, help="Pass standard input to the program.")
@click.argument("name")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(folder: Path, timeout: float, name: str, program: tuple[str, ...], *, has_input: bool) -> None:
    """Run a program in a server, as root; its output and exit status are passed on.

    Status 124 means that it took too long, 127 that there is no such program. Its background processes are ended with
    it, except those in their own session (setsid).

    \b
    Examples:
      trackbed lab vm exec node-0 -- ip -br link
      trackbed lab vm exec node-0 -- \\
          sh -c 'echo 2 > /sys/class/net/rail0/device/sriov_numvfs'
      trackbed lab vm exec -i node-0 -- sh <script.sh
    """
    from trackbed_lab.vm import channel, lab

    vm_lab = load_lab(folder)
    try:
        server = vm_lab.find_server(name)
    except lab.VmLabError as error:
        refuse(str(error))
    try:
        source = sys.stdin.fileno() if has_input else None
        raise SystemExit(channel.stream_command(server.channel, program, write_output, timeout, source))
    except channel.ChannelError as error:
        exit_unknown(lab.describe_failure(vm_lab, name, str(error)))


@command.command("reboot")
@folder_option
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS", help="How long to wait for it.")
@click.argument("name")
def reboot(folder: Path, timeout: float, name: str) -> None:
    """Reboot a server from inside and wait until it is up again, with the kernel arguments of its grub.cfg.

    \b
    Example:
      trackbed lab vm reboot node-0
    """
    from trackbed_lab.vm import lab

    vm_lab = load_lab(folder)
    try:
        vm_lab.find_server(name)
    except lab.VmLabError as error:
        refuse(str(error))
    try:
        seconds = lab.reboot_server(vm_lab, name, timeout)
    except lab.VmLabError as error:
        exit_unknown(str(error))
    click.echo(f"{name} is back after {seconds:.1f} s with: {vm_lab.read_state(name).arguments}")


@command.command("status")
@folder_option
def status(folder: Path) -> None:
    """Show the status of the servers. Exit status: 0 if all are running, 1 if not, 3 if there is no lab.

    \b
    Example:
      trackbed lab vm status
    """
    from trackbed.cli.tables import print_table

    vm_lab = load_lab(folder)
    names = [server.channel.name for server in vm_lab.servers]
    states = {name: vm_lab.read_state(name) for name in names}
    rows = [(name, state.phase, str(state.boots), state.arguments, state.why or "-") for name, state in states.items()]
    shape = vm_lab.shape
    title = f"Linux {vm_lab.kernel}, {shape.accelerator}, {shape.rails} rails, {shape.memory} MiB each"
    print_table(("server", "", "boots", "kernel arguments", "why"), rows, title)
    if not vm_lab.switch.is_alive:
        click.echo(f"the switch has ended: {vm_lab.switch.read_log_end()}", err=True)
    raise SystemExit(0 if vm_lab.switch.is_alive and all(state.phase == "runs" for state in states.values()) else 1)


@command.command("down")
@folder_option
def down(folder: Path) -> None:
    """Stop the servers and delete them; logs are kept. Running it again is safe.

    \b
    Example:
      trackbed lab vm down
    """
    from trackbed_lab.vm import lab

    try:
        count = lab.stop_lab(folder.absolute())
    except (lab.VmLabError, OSError) as error:
        refuse(str(error))
    click.echo(f"stopped {count} processes" if count else "nothing was running")


@command.command("doctor")
@servers_option
@memory_option
@output_option("table", "json")
def doctor(servers: int, memory: int, output_format: str) -> None:
    """Check whether this machine can run emulated servers, and show remedies. Exits with 0 if it can, else with 1.

    \b
    Example:
      trackbed lab vm doctor --servers 4
    """
    from trackbed_lab.vm.doctor import check_machine

    requirements = check_machine(servers * memory)
    if output_format == "json":
        from trackbed.cli.options import emit_json

        emit_json(requirements)
    else:
        from trackbed.cli.tables import print_table

        rows = [
            (item.name, "ok" if item.ok else "MISSING", item.evidence, "" if item.ok else item.todo)
            for item in requirements
        ]
        print_table(("part", "", "seen", "what to do"), rows)
    raise SystemExit(0 if all(item.ok for item in requirements) else 1)


def load_lab(folder: Path) -> VmLab:
    """Return the lab of a folder; exit with status 3 if there is none."""
    from trackbed_lab.vm import lab

    try:
        vm_lab = lab.load_lab(folder.absolute())
    except lab.VmLabError as error:
        exit_unknown(str(error))
    if vm_lab is None:
        exit_unknown(f"no servers in {folder}; trackbed lab vm up starts some")
    return vm_lab


def write_output(letter: bytes, content: bytes) -> None:
    """Write the output of a program in a server to the same stream: b"o" is stdout, b"e" stderr."""
    stream = (sys.stdout if letter == b"o" else sys.stderr).buffer
    stream.write(content)
    stream.flush()


def report_progress(line: str) -> None:
    """Print a line of progress to stderr."""
    click.echo(line, err=True)
