"""A lab of emulated servers, kept in one folder: start, stop, reboot, and the state of each server.

    DIR/lab.json           processes, ports and tokens of the lab (mode 0600)
    DIR/net/               sockets of the rails
    DIR/NAME/console.log   serial console of a server
    DIR/NAME/state.json    whether it is running, and with which kernel arguments
    DIR/NAME/disk.img      its /etc, /boot and /var/lib/trackbed, which persist across reboots
    DIR/NAME/own/          its shared folder, the only one of this machine that it can write to

`stop_lab` leaves the logs.
"""

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

from trackbed.host.formats import get_file_mode
from trackbed_lab.ports import hold_ports
from trackbed_lab.processes import LabProcess, defer_signals, run_program, start_process, stop_processes
from trackbed_lab.vm import disk, keeper, tsc
from trackbed_lab.vm.channel import Channel, ChannelError, execute_command, read_boot_id
from trackbed_lab.vm.furnish import ServerFile, write_server_files
from trackbed_lab.vm.initramfs import PERSISTENT
from trackbed_lab.vm.machine import (
    ADDRESS,
    AGENT_PORT,
    BootSettings,
    LabShape,
    find_problems,
    locate_disk,
    locate_shared_folder,
)
from trackbed_lab.vm.managers import MANAGERS
from trackbed_lab.vm.parts import Parts

UP_SECONDS = 300.0
"""Limit for the start of all servers. Without KVM two servers with 8 rails take some 30 seconds on two idle cores."""

_POLL_SECONDS = 0.2
_CONSOLE_LINES = 12
_REBOOT_SECONDS = 30.0
_COPY_SECONDS = 300.0


class VmLabError(Exception):
    """An operation on the lab failed; the message says why, with the end of the server's console where it helps."""


@dataclass(frozen=True, slots=True)
class LabSpec:
    """The servers to start, and the parts they are made of."""

    parts: Parts
    shape: LabShape
    files: Mapping[str, Mapping[str, ServerFile]] = field(default_factory=dict)
    """Extra files of a server: server name -> path -> file."""
    folders: Mapping[str, Path] = field(default_factory=dict)
    """Folders that are copied to every server's disk: path on the disk -> folder of this machine."""
    manager: str = "networkd"
    """Name of the servers' network manager (`vm.managers`); the parts include its packages."""
    detached: bool = True
    """Whether the servers outlive this process; else the kernel ends them with it, even if it is killed."""


class EmulatedServer(msgspec.Struct, frozen=True):
    """One server of a running lab."""

    channel: Channel
    keeper: LabProcess


class VmLab(msgspec.Struct, frozen=True):
    """A running lab: its folder, shape and processes."""

    folder: str
    shape: LabShape
    kernel: str
    switch: LabProcess
    servers: list[EmulatedServer]

    def find_server(self, name: str) -> EmulatedServer:
        """Return a server by name. Raises VmLabError."""
        for server in self.servers:
            if server.channel.name == name:
                return server
        raise VmLabError(f"no server {name!r}; there is {', '.join(server.channel.name for server in self.servers)}")

    def read_state(self, name: str) -> keeper.ServerState:
        """Return the state of a server: "starting" before its keeper wrote one, "crashed" if the keeper is gone."""
        state = keeper.read_state(Path(self.folder) / name) or keeper.ServerState("starting")
        if state.phase == "runs" and not self.find_server(name).keeper.is_alive:
            return msgspec.structs.replace(state, phase="crashed", why="its keeper was killed")
        return state


def load_lab(folder: Path) -> VmLab | None:
    """Return the lab of a folder, or None. Raises VmLabError if its record cannot be read."""
    try:
        return msgspec.json.decode((folder / "lab.json").read_bytes(), type=VmLab)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise VmLabError(f"{folder / 'lab.json'} cannot be read: {error}") from error


def start_lab(folder: Path, spec: LabSpec, report: Callable[[str], None], seconds: float = UP_SECONDS) -> VmLab:
    """Start new servers in `folder` and wait until each responds. Raises VmLabError."""
    shape = spec.shape
    _check_can_start(folder, shape)
    stop_lab(folder)
    for name in ("net", *shape.list_servers()):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    (folder / "net").mkdir()
    with hold_ports(shape.servers) as ports:
        try:
            lab = _start_processes(folder, spec, ports)
            wait_until_up(lab, dict.fromkeys(shape.list_servers(), ""), seconds, report)
        except disk.DiskError as error:
            _delete_servers(folder, shape)
            raise VmLabError(str(error)) from error
        except BaseException:
            with defer_signals():
                stop_lab(folder)
                _delete_servers(folder, shape)
            raise
    return lab


def stop_lab(folder: Path) -> int:
    """Stop the lab of `folder` and delete its servers except for their logs; return how many processes ended."""
    lab = load_lab(folder)
    if lab is None:
        return 0
    count = _stop_all(lab)
    _delete_servers(folder, lab.shape)
    (folder / "lab.json").unlink()
    return count


def _delete_servers(folder: Path, shape: LabShape) -> None:
    """Delete the files of stopped servers except for their logs."""
    for name in shape.list_servers():
        shutil.rmtree(locate_shared_folder(folder, name), ignore_errors=True)
        locate_disk(folder, name).unlink(missing_ok=True)
    shutil.rmtree(folder / "net", ignore_errors=True)


def reboot_server(lab: VmLab, name: str, seconds: float = UP_SECONDS) -> float:
    """Run `reboot` in a server and wait until it responds again; return the seconds it took. Raises VmLabError."""
    server = lab.find_server(name)
    start = time.monotonic()
    try:
        boot_id = read_boot_id(server.channel)
    except ChannelError as error:
        raise VmLabError(describe_failure(lab, name, str(error))) from error
    with suppress(ChannelError):  # the server may shut down before it responds
        result = execute_command(server.channel, ["reboot"], _REBOOT_SECONDS)
        if result.status:
            errors = result.errors.decode(errors="replace").strip()
            raise VmLabError(describe_failure(lab, name, f"{name} did not reboot: {errors}"))
    wait_until_up(lab, {name: boot_id}, seconds, lambda _: None)
    return time.monotonic() - start


def wait_until_up(lab: VmLab, boot_ids: dict[str, str], seconds: float, report: Callable[[str], None]) -> None:
    """Wait until servers respond with a boot id other than the one in `boot_ids` (by name). Raises VmLabError."""
    start = time.monotonic()
    waiting = dict(boot_ids)
    while waiting:
        for name, boot_id in list(waiting.items()):
            if _has_rebooted(lab, name, boot_id):
                report(f"{name} is up after {time.monotonic() - start:.1f} s")
                del waiting[name]
        if time.monotonic() - start > seconds:
            late = next(iter(waiting))
            raise VmLabError(describe_failure(lab, late, f"{late} did not come up within {seconds:.0f} s"))
        time.sleep(_POLL_SECONDS)


def _has_rebooted(lab: VmLab, name: str, boot_id: str) -> bool:
    """Return whether a server responds with another boot id. Raises VmLabError if it can no longer come up."""
    if not lab.switch.is_alive:
        raise VmLabError(f"the lab's switch ended: {lab.switch.read_log_end()}")
    state = lab.read_state(name)
    if state.phase not in {"runs", "starting"} or not lab.find_server(name).keeper.is_alive:
        raise VmLabError(describe_failure(lab, name, f"{name} did not come up"))
    with suppress(ChannelError):
        return read_boot_id(lab.find_server(name).channel, 2.0) != boot_id
    return False


def describe_failure(lab: VmLab, name: str, message: str) -> str:
    """Return a message with a server's state and the end of its console appended."""
    state = lab.read_state(name)
    why = f": {state.why}" if state.why else ""
    return f"{message} (it is {state.phase}{why}); the end of its console:\n{read_console(Path(lab.folder), name)}"


def read_console(folder: Path, name: str, lines: int = _CONSOLE_LINES) -> str:
    """Return the last lines of a server's console, or of QEMU's or the keeper's log if it has none."""
    for log in ("console.log", "qemu.log", "keeper.log"):
        path = folder / name / log
        text = path.read_text(errors="replace").strip() if path.exists() else ""
        text = text.rpartition("Call Trace:")[0].strip() or text  # keep the lines before a panic's stack trace
        if text:
            return "\n".join(f"    {line}" for line in text.splitlines()[-lines:])
    return "    (nothing)"


def _check_can_start(folder: Path, shape: LabShape) -> None:
    problems = find_problems(shape)
    if problems:
        raise VmLabError(f"no such servers can be had: {'; '.join(problems)}")
    if "," in str(folder):
        raise VmLabError(f"{folder}: QEMU takes no comma in the name of a folder; choose another")
    lab = load_lab(folder)
    if lab is not None and any(server.keeper.is_alive for server in lab.servers):
        raise VmLabError(f"a lab is running in {folder} already")


def _start_processes(folder: Path, spec: LabSpec, ports: Sequence[int]) -> VmLab:
    """Create the servers' folders, then start the switch and a keeper for each server."""
    shape = spec.shape
    python = [sys.executable, "-m"]
    channels = [Channel(*pair, secrets.token_hex(16)) for pair in zip(shape.list_servers(), ports, strict=True)]
    with ThreadPoolExecutor(len(channels)) as pool:
        list(pool.map(lambda pair: _make_server(folder, spec, *pair), enumerate(channels)))
    (folder / "net/shape.json").write_bytes(msgspec.json.encode(shape))
    with defer_signals():
        argv = [*python, "trackbed_lab.vm.switch", str(folder)]
        switch = start_process("switch", argv, folder, detached=spec.detached)
        lab = VmLab(str(folder), shape, spec.parts.made.kernel, switch, [])
        _write_record(folder, lab)
        for channel in channels:
            argv = [*python, "trackbed_lab.vm.keeper", str(folder), channel.name]
            process = start_process(f"{channel.name}/keeper", argv, folder, detached=spec.detached)
            lab.servers.append(EmulatedServer(channel, process))
            _write_record(folder, lab)
    return lab


def _write_record(folder: Path, lab: VmLab) -> None:
    path = folder / "lab.json"
    path.touch(mode=0o600)
    path.write_bytes(msgspec.json.encode(lab))


def _make_server(folder: Path, spec: LabSpec, number: int, channel: Channel) -> None:
    """Create the disk, the shared folder and the keeper's settings of a new server."""
    parts, extra_files = spec.parts, spec.files.get(channel.name, {})
    shared = locate_shared_folder(folder, channel.name)
    shared.mkdir(parents=True)
    with TemporaryDirectory(dir=folder) as content:
        for name in PERSISTENT:
            (Path(content) / name).mkdir(parents=True, mode=0o755)
        manager = MANAGERS[spec.manager]
        texts = manager.render_files(number, spec.shape.rails)
        manager_files = {path: ServerFile(text, get_file_mode(f"/{path}")) for path, text in texts.items()}
        write_server_files(Path(content), parts, channel.name, manager, {**manager_files, **extra_files})
        for target, source in spec.folders.items():
            _copy_folder(source, Path(content, target))
        disk.make_disk(locate_disk(folder, channel.name), Path(content))
    agent_settings = {"token": channel.token, "address": ADDRESS, "port": AGENT_PORT}
    (shared / "config.json").touch(mode=0o600)
    (shared / "config.json").write_text(json.dumps(agent_settings))
    for program in ("agent.py", "vf_recorder.py"):
        (shared / program).write_text(files("trackbed_lab.vm").joinpath(program).read_text(encoding="utf-8"))
    boot = _build_boot_settings(shared, parts, channel.port)
    settings = keeper.KeeperSettings(spec.shape, number, boot, {"QEMU_MODULE_DIR": str(parts.qemu_modules)})
    (folder / channel.name / "keep.json").write_bytes(msgspec.json.encode(settings))


def _copy_folder(source: Path, target: Path) -> None:
    """Copy a folder as it is: a store of images has device nodes, owners and hard links. Raises VmLabError."""
    target.mkdir(parents=True, exist_ok=True)
    process = run_program(["/bin/cp", "--archive", f"{source}/.", str(target)], _COPY_SECONDS, VmLabError)
    if process.returncode:
        raise VmLabError(f"{source} cannot be copied to a server's disk: {process.stderr.strip()}")


def _build_boot_settings(shared: Path, parts: Parts, port: int) -> BootSettings:
    shares = {"hostroot": "/", "tools": str(parts.tools), "modules": str(parts.modules), "own": str(shared)}
    qemu = parts.build_qemu_command()
    return BootSettings(qemu, str(parts.vmlinuz), str(parts.initramfs), shares, port, tsc.measure_khz())


def _stop_all(lab: VmLab) -> int:
    """Stop the switch and the keepers; return how many were running."""
    processes = (lab.switch, *(server.keeper for server in lab.servers))
    running = [process for process in processes if process.is_alive]
    stop_processes(running)
    return len(running)
