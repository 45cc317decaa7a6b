"""A lab of emulated servers: stood up, spoken to, rebooted, thrown away. One folder has all of it.

    DIR/lab.json           what was started and how it is spoken to (0600: tokens)
    DIR/net/               the rails' sockets
    DIR/NAME/console.log   the serial console of a server
    DIR/NAME/state.json    whether it runs, and with which kernel arguments
    DIR/NAME/disk.img      its /etc, /boot and /var/lib/trackbed: what lives through reboots
    DIR/NAME/own/          what it shares with this machine

`down` leaves the logs.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from trackbed_lab.ports import hold_ports
from trackbed_lab.processes import LabProcess, start_process, stop_processes
from trackbed_lab.vm import disk, keeper, tsc
from trackbed_lab.vm.channel import Channel, ChannelError, execute, read_boot_id
from trackbed_lab.vm.furnish import ADDRESS, ServerFile, write_server_files
from trackbed_lab.vm.initramfs import PERSISTENT
from trackbed_lab.vm.machine import AGENT_PORT, BootSettings, LabShape, find_problems, locate_disk, locate_shared_folder
from trackbed_lab.vm.parts import Parts

UP_SECONDS = 300.0
"""For all servers together. Without KVM two of 8 rails are up in some 30 seconds on two idle cores."""

_POLL_SECONDS = 0.2
_LINES = 12
_REBOOT_SECONDS = 30.0
_MAX_SOCKET = 107  # unix(7): sun_path without its final zero


class VmLabError(Exception):
    """The lab could not do it; the message says what and why, with the console's last lines where they tell more."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """The servers that are wanted, and what they are made of."""

    parts: Parts
    shape: LabShape
    files: Mapping[str, Mapping[str, ServerFile]] = field(default_factory=dict)
    """What a server has beside what every one has: by name and path."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders that every server's disk begins with: path there -> folder here."""


class EmulatedServer(msgspec.Struct, frozen=True):
    """One server of a lab that is up."""

    channel: Channel
    keeper: LabProcess


class VmLab(msgspec.Struct, frozen=True):
    """A lab that was stood up."""

    folder: str
    shape: LabShape
    kernel: str
    switch: LabProcess
    servers: list[EmulatedServer]

    def find_server(self, name: str) -> EmulatedServer:
        """A server by name. Raises LabError."""
        for one in self.servers:
            if one.channel.name == name:
                return one
        raise VmLabError(f"no server {name!r}; there is {', '.join(one.channel.name for one in self.servers)}")

    def read_state(self, name: str) -> keeper.ServerState:
        """How a server is."""
        kept = keeper.read_state(Path(self.folder) / name) or keeper.ServerState("starting")
        if kept.phase == "runs" and not self.find_server(name).keeper.is_alive:
            return msgspec.structs.replace(kept, phase="crashed", why="its keeper was killed")
        return kept


def load_lab(folder: Path) -> VmLab | None:
    """The lab in a folder; None if there is none. Raises LabError if its record cannot be read."""
    try:
        return msgspec.json.decode((folder / "lab.json").read_bytes(), type=VmLab)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise VmLabError(f"{folder / 'lab.json'} cannot be read: {error}") from error


def start_lab(folder: Path, spec: LabSpec, say: Callable[[str], None], seconds: float = UP_SECONDS) -> VmLab:
    """Stand up new servers in `folder` and wait until each answers. Raises LabError."""
    shape = spec.shape
    _refuse(folder, shape)
    stop_lab(folder)
    for name in ("net", *shape.list_servers()):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    (folder / "net").mkdir()
    with hold_ports(shape.servers) as ports:
        try:
            lab = _started(folder, spec, ports)
        except disk.DiskError as error:
            raise VmLabError(str(error)) from error
        try:
            wait_until_up(lab, dict.fromkeys(shape.list_servers(), ""), seconds, say)
        except (VmLabError, KeyboardInterrupt):
            _stop(lab)
            raise
    return lab


def stop_lab(folder: Path) -> int:
    """Stop what was started in `folder` and throw its servers away but for their logs; how many processes ended."""
    lab = load_lab(folder)
    if lab is None:
        return 0
    count = _stop(lab)
    for name in lab.shape.list_servers():
        shutil.rmtree(locate_shared_folder(folder, name), ignore_errors=True)
        locate_disk(folder, name).unlink(missing_ok=True)
    shutil.rmtree(folder / "net", ignore_errors=True)
    (folder / "lab.json").unlink()
    return count


def reboot_server(lab: VmLab, name: str, seconds: float = UP_SECONDS) -> float:
    """Reboot a server from inside and wait until it answers again; the seconds it took. Raises LabError."""
    server = lab.find_server(name)
    began = time.monotonic()
    try:
        before = read_boot_id(server.channel)
    except ChannelError as error:
        raise VmLabError(describe_failure(lab, name, str(error))) from error
    with suppress(ChannelError):  # the server may go away before it can answer
        done = execute(server.channel, ["reboot"], _REBOOT_SECONDS)
        if done.status:
            raise VmLabError(
                describe_failure(lab, name, f"{name} did not reboot: {done.errors.decode(errors='replace').strip()}")
            )
    wait_until_up(lab, {name: before}, seconds, lambda _: None)
    return time.monotonic() - began


def wait_until_up(lab: VmLab, before: dict[str, str], seconds: float, say: Callable[[str], None]) -> None:
    """Wait until servers answer with another boot than `before` names. Raises LabError."""
    began = time.monotonic()
    waiting = dict(before)
    while waiting:
        for name, old in list(waiting.items()):
            if _answers(lab, name, old):
                say(f"{name} is up after {time.monotonic() - began:.1f} s")
                del waiting[name]
        if time.monotonic() - began > seconds:
            late = next(iter(waiting))
            raise VmLabError(describe_failure(lab, late, f"{late} did not come up within {seconds:.0f} s"))
        time.sleep(_POLL_SECONDS)


def _answers(lab: VmLab, name: str, old: str) -> bool:
    """Whether a server's new boot answers. Raises LabError if it never will."""
    if not lab.switch.is_alive:
        raise VmLabError(f"the lab's switch ended: {lab.switch.read_log_end()}")
    state = lab.read_state(name)
    if state.phase not in {"runs", "starting"} or not lab.find_server(name).keeper.is_alive:
        raise VmLabError(describe_failure(lab, name, f"{name} did not come up"))
    with suppress(ChannelError):
        return read_boot_id(lab.find_server(name).channel, 2.0) != old
    return False


def describe_failure(lab: VmLab, name: str, what: str) -> str:
    """What happened to a server, with its state and the end of its console."""
    state = lab.read_state(name)
    why = f": {state.why}" if state.why else ""
    return f"{what} (it is {state.phase}{why}); the end of its console:\n{read_console(Path(lab.folder), name)}"


def read_console(folder: Path, name: str, lines: int = _LINES) -> str:
    """The last lines of a server's console; of its keeper's log if it has none."""
    for log in ("console.log", "qemu.log", "keeper.log"):
        path = folder / name / log
        said = path.read_text(errors="replace").strip() if path.exists() else ""
        said = said.rpartition("Call Trace:")[0].strip() or said  # of a panic what led to it, not the stack
        if said:
            return "\n".join(f"    {line}" for line in said.splitlines()[-lines:])
    return "    (nothing)"


def _refuse(folder: Path, shape: LabShape) -> None:
    wrong = find_problems(shape)
    if wrong:
        raise VmLabError(f"no such servers can be had: {'; '.join(wrong)}")
    if "," in str(folder):
        raise VmLabError(f"{folder}: QEMU takes no comma in the name of a folder; choose another")
    old = load_lab(folder)
    if old is not None and any(one.keeper.is_alive for one in old.servers):
        raise VmLabError(f"a lab is running in {folder} already")


def _started(folder: Path, wanted: LabSpec, ports: Sequence[int]) -> VmLab:
    shape = wanted.shape
    python = [sys.executable, "-m"]
    channels = [Channel(*pair, secrets.token_hex(16)) for pair in zip(shape.list_servers(), ports, strict=True)]
    with ThreadPoolExecutor(len(channels)) as pool:
        list(pool.map(lambda one: _make_server(folder, wanted, *one), enumerate(channels)))
    (folder / "net/shape.json").write_bytes(msgspec.json.encode(shape))
    words = [*python, "trackbed_lab.vm.switch", str(folder)]
    started = [start_process("switch", words, folder, detached=True)]
    _record(folder, VmLab(str(folder), shape, wanted.parts.made.kernel, started[0], []))
    for channel in channels:
        words = [*python, "trackbed_lab.vm.keeper", str(folder), channel.name]
        started.append(start_process(f"{channel.name}/keeper", words, folder, detached=True))
    servers = [EmulatedServer(*pair) for pair in zip(channels, started[1:], strict=True)]
    lab = VmLab(str(folder), shape, wanted.parts.made.kernel, started[0], servers)
    _record(folder, lab)
    return lab


def _record(folder: Path, lab: VmLab) -> None:
    path = folder / "lab.json"
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(lab))


def _make_server(folder: Path, wanted: LabSpec, number: int, channel: Channel) -> None:
    """The folder of a new server, as it comes from its maker."""
    parts, more = wanted.parts, wanted.files.get(channel.name, {})
    place = locate_shared_folder(folder, channel.name)
    place.mkdir(parents=True)
    with TemporaryDirectory(dir=folder) as new:
        for name in PERSISTENT:
            (Path(new) / name).mkdir(parents=True, mode=0o755)
        write_server_files(Path(new), parts.tools, channel.name, parts.made.kernel, more)
        for inside, of in wanted.folders.items():
            shutil.copytree(of, Path(new, inside), symlinks=True, dirs_exist_ok=True)
        disk.make_disk(locate_disk(folder, channel.name), Path(new))
    settings = {"token": channel.token, "address": ADDRESS, "port": AGENT_PORT}
    (place / "config.json").touch(mode=0o600)
    (place / "config.json").write_text(json.dumps(settings))
    (place / "agent.py").write_text(files("trackbed_lab.vm").joinpath("agent.py").read_text(encoding="utf-8"))
    kept = keeper.KeeperSettings(
        wanted.shape, number, _boot(place, parts, channel.port), {"QEMU_MODULE_DIR": str(parts.qemu_modules)}
    )
    (folder / channel.name / "keep.json").write_bytes(msgspec.json.encode(kept))


def _boot(place: Path, parts: Parts, port: int) -> BootSettings:
    shares = {"hostroot": "/", "tools": str(parts.tools), "modules": str(parts.modules), "own": str(place)}
    return BootSettings(
        parts.build_qemu_command(), str(parts.vmlinuz), str(parts.initramfs), shares, port, tsc.measure_khz()
    )


def _stop(lab: VmLab) -> int:
    living = [one for one in (lab.switch, *(server.keeper for server in lab.servers)) if one.is_alive]
    stop_processes(living)
    return len(living)
