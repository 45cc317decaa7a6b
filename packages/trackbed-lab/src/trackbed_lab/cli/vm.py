"""`trackbed lab vm`: emulated servers with SR-IOV NICs, NUMA nodes and real reboots."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import output_option, refuse

if TYPE_CHECKING:
    from trackbed_lab.vm.lab import VmLab
    from trackbed_lab.vm.machine import LabShape
    from trackbed_lab.vm.parts import Parts


def _folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "trackbed" / "vm"


folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=_folder,
    help="Folder for consoles, sockets and the servers' files.  [default: ~/.local/state/trackbed/vm]",
)
servers_option = click.option("--servers", default=2, show_default=True, help="How many servers.")
memory_option = click.option("--memory", default=2048, show_default=True, metavar="MIB", help="Memory of each.")


@click.group("vm")
def command() -> None:
    """Run emulated servers: a kernel of their own, SR-IOV NICs on leaf switches, NUMA nodes, an IOMMU, reboots.

    No root is needed and nothing of this machine is changed. A server has this machine's files, read-only below what
    it writes itself; its /etc, /boot and /var/lib/trackbed live through reboots.

    \b
    Example:
      trackbed lab vm up && trackbed lab vm exec node-0 -- trackbed doctor; trackbed lab vm down
    """


@command.command("up")
@folder_option
@servers_option
@click.option("--rails", default=8, show_default=True, help="NICs of each server, 7 VFs each.")
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
    """Start new servers; they run until `down`. The first time QEMU and a kernel are fetched.

    \b
    Examples:
      trackbed lab vm up
      trackbed lab vm up --servers 1 --rails 2 --memory 3072
    """
    from trackbed_lab.vm.machine import LabShape, find_problems

    asked = LabShape(servers=servers, rails=rails, memory=memory, cpus=cpus, accelerator=accelerator)
    wrong = find_problems(asked)
    if wrong:
        refuse(f"no such servers can be had: {'; '.join(wrong)}")
    started(folder, asked, timeout)
    click.echo(f"{servers} server{'s' * (servers != 1)} up; trackbed lab vm status, exec, reboot, down")


def started(folder: Path, asked: LabShape, timeout: float) -> VmLab:
    """Servers that are up; accelerator `auto` is found out. What goes wrong ends the command with status 3."""
    from trackbed_lab.vm import lab, parts

    try:
        found = parts.fetch_parts(say)
        return lab.start_lab(folder.absolute(), lab.LabSpec(found, chosen(found, asked)), say, timeout)
    except (lab.VmLabError, parts.PartsError, OSError) as error:
        unknown(str(error))


def chosen(found: Parts, asked: LabShape) -> LabShape:
    """With the accelerator found out where it is to be."""
    from msgspec.structs import replace

    from trackbed_lab.vm import accelerator

    if asked.accelerator != "auto":
        return asked
    choice = accelerator.choose_accelerator(found)
    say(choice.why)
    return replace(asked, accelerator=choice.accelerator)


@command.command("exec", context_settings={"ignore_unknown_options": True})
@folder_option
@click.option("--timeout", default=600.0, show_default=True, metavar="SECONDS", help="When to end the program.")
@click.argument("name")
@click.argument("program", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(folder: Path, timeout: float, name: str, program: tuple[str, ...]) -> None:
    """Run a program in a server, as root; its output and its exit status are this command's.

    Status 124 means that it took too long, 127 that there is no such program. What it leaves in the background is
    ended with it unless it has a session of its own (setsid).

    \b
    Examples:
      trackbed lab vm exec node-0 -- ip -br link
      trackbed lab vm exec node-0 -- sh -c 'echo 2 > /sys/class/net/rail0/device/sriov_numvfs'
    """
    from trackbed_lab.vm import channel, lab

    here = here_or_end(folder)
    try:
        server = here.find_server(name)
    except lab.VmLabError as error:
        refuse(str(error))
    try:
        raise SystemExit(channel.stream(server.channel, program, hear, timeout))
    except channel.ChannelError as error:
        unknown(lab.describe_failure(here, name, str(error)))


@command.command("reboot")
@folder_option
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS", help="How long to wait for it.")
@click.argument("name")
def reboot(folder: Path, timeout: float, name: str) -> None:
    """Reboot a server from inside and wait until it is back, with the kernel arguments of its grub.cfg.

    \b
    Example:
      trackbed lab vm reboot node-0
    """
    from trackbed_lab.vm import lab

    here = here_or_end(folder)
    try:
        here.find_server(name)
    except lab.VmLabError as error:
        refuse(str(error))
    try:
        seconds = lab.reboot_server(here, name, timeout)
    except lab.VmLabError as error:
        unknown(str(error))
    click.echo(f"{name} is back after {seconds:.1f} s with: {here.read_state(name).arguments}")


@command.command("status")
@folder_option
def status(folder: Path) -> None:
    """Show the servers. Exit 0 all run, 1 some do not, 3 there is none.

    \b
    Example:
      trackbed lab vm status
    """
    from trackbed.cli.tables import table

    here = here_or_end(folder)
    states = {one.channel.name: here.read_state(one.channel.name) for one in here.servers}
    rows = [(name, one.phase, str(one.boots), one.arguments, one.why or "-") for name, one in states.items()]
    shape = here.shape
    title = f"Linux {here.kernel}, {shape.accelerator}, {shape.rails} rails, {shape.memory} MiB each"
    table(("server", "", "boots", "kernel arguments", "why"), rows, title)
    if not here.switch.is_alive:
        click.echo(f"the switch has ended: {here.switch.read_log_end()}", err=True)
    raise SystemExit(0 if here.switch.is_alive and all(one.phase == "runs" for one in states.values()) else 1)


@command.command("down")
@folder_option
def down(folder: Path) -> None:
    """Stop the servers and throw them away; logs stay. Doing it twice is fine.

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
def doctor(servers: int, memory: int, form: str) -> None:
    """Say whether this machine can have emulated servers, and what to do about what is missing. Exit 0 or 1.

    \b
    Example:
      trackbed lab vm doctor --servers 4
    """
    from trackbed_lab.vm.doctor import check_machine

    found = check_machine(servers * memory)
    if form == "json":
        from trackbed.cli.options import emit_json

        emit_json(found)
    else:
        from trackbed.cli.tables import table

        rows = [(one.name, "ok" if one.ok else "MISSING", one.evidence, "" if one.ok else one.todo) for one in found]
        table(("part", "", "seen", "what to do"), rows)
    raise SystemExit(0 if all(one.ok for one in found) else 1)


def here_or_end(folder: Path) -> VmLab:
    """The servers in a folder; without any the command ends with status 3."""
    from trackbed_lab.vm import lab

    try:
        found = lab.load_lab(folder.absolute())
    except lab.VmLabError as error:
        unknown(str(error))
    if found is None:
        unknown(f"no servers in {folder}; trackbed lab vm up starts some")
    return found


def hear(letter: bytes, content: bytes) -> None:
    """Print what a program in a server says, on the stream that it said it on."""
    stream = (sys.stdout if letter == b"o" else sys.stderr).buffer
    stream.write(content)
    stream.flush()


def say(line: str) -> None:
    """Tell a person what is going on."""
    click.echo(line, err=True)


def unknown(message: str) -> NoReturn:
    """End the command: it cannot be said."""
    click.echo(f"trackbed: {message}", err=True)
    raise SystemExit(3)
