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

from trackbed_lab.ports import held_ports
from trackbed_lab.processes import Process, start, stop
from trackbed_lab.vm import disk, keeper, tsc
from trackbed_lab.vm.channel import Channel, ChannelError, boot_id, execute
from trackbed_lab.vm.furnish import ADDRESS, Text, furnish
from trackbed_lab.vm.initramfs import PERSISTENT
from trackbed_lab.vm.machine import AGENT_PORT, Boot, Shape, image, own, problems
from trackbed_lab.vm.parts import Parts

UP_SECONDS = 300.0
"""For all servers together. Without KVM two of 8 rails are up in some 30 seconds on two idle cores."""

_POLL_SECONDS = 0.2
_LINES = 12
_REBOOT_SECONDS = 30.0
_MAX_SOCKET = 107  # unix(7): sun_path without its final zero


class LabError(Exception):
    """The lab could not do it; the message says what and why, with the console's last lines where they tell more."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The servers that are wanted, and what they are made of."""

    parts: Parts
    shape: Shape
    files: Mapping[str, Mapping[str, Text]] = field(default_factory=dict)
    """What a server has beside what every one has: by name and path."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders that every server's disk begins with: path there -> folder here."""


class Server(msgspec.Struct, frozen=True):
    """One server of a lab that is up."""

    channel: Channel
    keeper: Process


class Lab(msgspec.Struct, frozen=True):
    """A lab that was stood up."""

    folder: str
    shape: Shape
    kernel: str
    switch: Process
    servers: list[Server]

    def server(self, name: str) -> Server:
        """A server by name. Raises LabError."""
        for one in self.servers:
            if one.channel.name == name:
                return one
        raise LabError(f"no server {name!r}; there is {', '.join(one.channel.name for one in self.servers)}")

    def state(self, name: str) -> keeper.State:
        """How a server is."""
        kept = keeper.read_state(Path(self.folder) / name) or keeper.State("starting")
        if kept.phase == "runs" and not self.server(name).keeper.lives:
            return msgspec.structs.replace(kept, phase="crashed", why="its keeper was killed")
        return kept


def found(folder: Path) -> Lab | None:
    """The lab in a folder; None if there is none. Raises LabError if its record cannot be read."""
    try:
        return msgspec.json.decode((folder / "lab.json").read_bytes(), type=Lab)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise LabError(f"{folder / 'lab.json'} cannot be read: {error}") from error


def up(folder: Path, wanted: Wanted, say: Callable[[str], None], seconds: float = UP_SECONDS) -> Lab:
    """Stand up new servers in `folder` and wait until each answers. Raises LabError."""
    shape = wanted.shape
    _refuse(folder, shape)
    down(folder)
    for name in ("net", *shape.names()):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    (folder / "net").mkdir()
    with held_ports(shape.servers) as ports:
        try:
            lab = _started(folder, wanted, ports)
        except disk.DiskError as error:
            raise LabError(str(error)) from error
        try:
            await_all(lab, dict.fromkeys(shape.names(), ""), seconds, say)
        except (LabError, KeyboardInterrupt):
            _stop(lab)
            raise
    return lab


def down(folder: Path) -> int:
    """Stop what was started in `folder` and throw its servers away but for their logs; how many processes ended."""
    lab = found(folder)
    if lab is None:
        return 0
    count = _stop(lab)
    for name in lab.shape.names():
        shutil.rmtree(own(folder, name), ignore_errors=True)
        image(folder, name).unlink(missing_ok=True)
    shutil.rmtree(folder / "net", ignore_errors=True)
    (folder / "lab.json").unlink()
    return count


def reboot(lab: Lab, name: str, seconds: float = UP_SECONDS) -> float:
    """Reboot a server from inside and wait until it answers again; the seconds it took. Raises LabError."""
    server = lab.server(name)
    began = time.monotonic()
    try:
        before = boot_id(server.channel)
    except ChannelError as error:
        raise LabError(told(lab, name, str(error))) from error
    with suppress(ChannelError):  # the server may go away before it can answer
        done = execute(server.channel, ["reboot"], _REBOOT_SECONDS)
        if done.status:
            raise LabError(told(lab, name, f"{name} did not reboot: {done.errors.decode(errors='replace').strip()}"))
    await_all(lab, {name: before}, seconds, lambda _: None)
    return time.monotonic() - began


def await_all(lab: Lab, before: dict[str, str], seconds: float, say: Callable[[str], None]) -> None:
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
            raise LabError(told(lab, late, f"{late} did not come up within {seconds:.0f} s"))
        time.sleep(_POLL_SECONDS)


def _answers(lab: Lab, name: str, old: str) -> bool:
    """Whether a server's new boot answers. Raises LabError if it never will."""
    if not lab.switch.lives:
        raise LabError(f"the lab's switch ended: {lab.switch.last_words()}")
    state = lab.state(name)
    if state.phase not in {"runs", "starting"} or not lab.server(name).keeper.lives:
        raise LabError(told(lab, name, f"{name} did not come up"))
    with suppress(ChannelError):
        return boot_id(lab.server(name).channel, 2.0) != old
    return False


def told(lab: Lab, name: str, what: str) -> str:
    """What happened to a server, with its state and the end of its console."""
    state = lab.state(name)
    why = f": {state.why}" if state.why else ""
    return f"{what} (it is {state.phase}{why}); the end of its console:\n{console(Path(lab.folder), name)}"


def console(folder: Path, name: str, lines: int = _LINES) -> str:
    """The last lines of a server's console; of its keeper's log if it has none."""
    for log in ("console.log", "qemu.log", "keeper.log"):
        path = folder / name / log
        said = path.read_text(errors="replace").strip() if path.exists() else ""
        said = said.rpartition("Call Trace:")[0].strip() or said  # of a panic what led to it, not the stack
        if said:
            return "\n".join(f"    {line}" for line in said.splitlines()[-lines:])
    return "    (nothing)"


def _refuse(folder: Path, shape: Shape) -> None:
    wrong = problems(shape)
    if wrong:
        raise LabError(f"no such servers can be had: {'; '.join(wrong)}")
    if "," in str(folder):
        raise LabError(f"{folder}: QEMU takes no comma in the name of a folder; choose another")
    old = found(folder)
    if old is not None and any(one.keeper.lives for one in old.servers):
        raise LabError(f"a lab is running in {folder} already")


def _started(folder: Path, wanted: Wanted, ports: Sequence[int]) -> Lab:
    shape = wanted.shape
    python = [sys.executable, "-m"]
    channels = [Channel(*pair, secrets.token_hex(16)) for pair in zip(shape.names(), ports, strict=True)]
    with ThreadPoolExecutor(len(channels)) as pool:
        list(pool.map(lambda one: _make_server(folder, wanted, *one), enumerate(channels)))
    (folder / "net/shape.json").write_bytes(msgspec.json.encode(shape))
    words = [*python, "trackbed_lab.vm.switch", str(folder)]
    started = [start("switch", words, folder, stays=True)]
    _record(folder, Lab(str(folder), shape, wanted.parts.made.kernel, started[0], []))
    for channel in channels:
        words = [*python, "trackbed_lab.vm.keeper", str(folder), channel.name]
        started.append(start(f"{channel.name}/keeper", words, folder, stays=True))
    servers = [Server(*pair) for pair in zip(channels, started[1:], strict=True)]
    lab = Lab(str(folder), shape, wanted.parts.made.kernel, started[0], servers)
    _record(folder, lab)
    return lab


def _record(folder: Path, lab: Lab) -> None:
    path = folder / "lab.json"
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(lab))


def _make_server(folder: Path, wanted: Wanted, number: int, channel: Channel) -> None:
    """The folder of a new server, as it comes from its maker."""
    parts, more = wanted.parts, wanted.files.get(channel.name, {})
    place = own(folder, channel.name)
    place.mkdir(parents=True)
    with TemporaryDirectory(dir=folder) as new:
        for name in PERSISTENT:
            (Path(new) / name).mkdir(parents=True, mode=0o755)
        furnish(Path(new), parts.tools, channel.name, parts.made.kernel, more)
        for inside, of in wanted.folders.items():
            shutil.copytree(of, Path(new, inside), symlinks=True, dirs_exist_ok=True)
        disk.make(image(folder, channel.name), Path(new))
    settings = {"token": channel.token, "address": ADDRESS, "port": AGENT_PORT}
    (place / "config.json").touch(mode=0o600)
    (place / "config.json").write_text(json.dumps(settings))
    (place / "agent.py").write_text(files("trackbed_lab.vm").joinpath("agent.py").read_text(encoding="utf-8"))
    kept = keeper.Kept(
        wanted.shape, number, _boot(place, parts, channel.port), {"QEMU_MODULE_DIR": str(parts.qemu_modules)}
    )
    (folder / channel.name / "keep.json").write_bytes(msgspec.json.encode(kept))


def _boot(place: Path, parts: Parts, port: int) -> Boot:
    shares = {"hostroot": "/", "tools": str(parts.tools), "modules": str(parts.modules), "own": str(place)}
    return Boot(parts.qemu(), str(parts.vmlinuz), str(parts.initramfs), shares, port, tsc.khz())


def _stop(lab: Lab) -> int:
    living = [one for one in (lab.switch, *(server.keeper for server in lab.servers)) if one.lives]
    stop(living)
    return len(living)
