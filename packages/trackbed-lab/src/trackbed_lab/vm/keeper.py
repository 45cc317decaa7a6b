"""Who keeps one emulated server running: starts QEMU, sees why it ended, and starts it again after a reset.

    python -m trackbed_lab.vm.keeper LAB-FOLDER NUMBER

QEMU ends at a reset (-no-reboot), and its control socket (QMP) says that it was one. Then the boot loader's
configuration is read, as firmware and GRUB would, and the server boots with those kernel arguments. A panic is no
reset: the kernel's argument panic=-1 makes it one, and its words on the console tell them apart.

NAME/state.json says how things are; it is replaced as a whole.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from trackbed_lab.processes import LabProcess, start_process, stop_processes
from trackbed_lab.vm import grub
from trackbed_lab.vm.machine import BootSettings, LabShape, build_arguments, locate_disk, locate_socket

SHORT_SECONDS = 10.0
"""A boot that lasts less than this was none: it takes longer to come up."""

SHORT_BOOTS = 3
"""So many of them in a row, and the server counts as crashed."""

_QMP_SECONDS = 20.0
_CUT = "cut"
_PANIC = "Kernel panic - not syncing"
_FAILED = "trackbed: the first root failed"


class KeeperSettings(msgspec.Struct, frozen=True):
    """What a keeper must know: written by whoever starts it, in LAB-FOLDER/NAME/keep.json."""

    shape: LabShape
    number: int
    boot: BootSettings
    environment: dict[str, str]


class ServerState(msgspec.Struct, frozen=True):
    """How a server is."""

    phase: str
    """runs, off (it was shut down) or crashed."""
    boots: int = 0
    arguments: str = ""
    """Kernel arguments of the boot loader's configuration at the last boot."""
    why: str = ""
    """Why it is not running."""
    pid: int = 0
    """QEMU's."""


class _QmpEvent(msgspec.Struct, frozen=True):
    """A line of QMP; what is no event has none."""

    event: str = ""
    data: dict[str, object] = msgspec.field(default_factory=dict)


def keep_running(folder: Path, kept: KeeperSettings) -> ServerState:
    """Boot and boot again until the server is shut down or crashes; how it ended. The working directory is `folder`."""
    name, boots, short = kept.shape.list_servers()[kept.number], 0, 0
    while True:
        try:
            told = grub.read_kernel_arguments(locate_disk(folder, name))
        except grub.GrubError as error:
            return ServerState("crashed", boots, "", f"no boot: {error}")
        boots += 1
        began, console = time.monotonic(), _size(folder / name / "console.log")
        reason, qemu = _one_boot(folder, kept, ServerState("runs", boots, told))
        short = short + 1 if time.monotonic() - began < SHORT_SECONDS else 0
        if _was_cut(folder / name):
            continue
        words = _since(folder / name / "console.log", console)
        end = classify_end(reason, words, qemu.read_log_end(), short)
        if end is not None:
            return ServerState(end[0], boots, told, end[1])


def classify_end(reason: str, console: str, last_words: str, short: int) -> tuple[str, str] | None:
    """What the end of a boot means: phase and why, None if the server is to boot again.

    `reason` is what QMP's SHUTDOWN event said, empty if there was none; `short` counts short boots in a row.
    """
    if _PANIC in console:
        return "crashed", next(line.strip() for line in console.splitlines() if _PANIC in line)
    if _FAILED in console:
        return "crashed", next(line.strip() for line in console.splitlines() if _FAILED in line)
    if reason == "guest-reset":
        return ("crashed", f"it reset {short} times within seconds") if short >= SHORT_BOOTS else None
    if reason == "guest-shutdown":
        return "off", "it was shut down from inside"
    return "crashed", f"QEMU ended ({reason or 'it gave no reason'}): {last_words}"


def cut_power(folder: Path) -> None:
    """End the server in this folder at once, as a power cut does; its keeper boots it again. ValueError if it's off."""
    state = read_state(folder)
    if state is None or state.phase != "runs" or not state.pid:
        raise ValueError(f"{folder.name} does not run")
    (folder / _CUT).touch()
    os.kill(state.pid, signal.SIGKILL)


def _was_cut(folder: Path) -> bool:
    try:
        (folder / _CUT).unlink()
    except FileNotFoundError:
        return False
    return True


def _one_boot(folder: Path, kept: KeeperSettings, state: ServerState) -> tuple[str, LabProcess]:
    """Start QEMU and wait for its end; the reason it gave, and its process."""
    name = kept.shape.list_servers()[kept.number]
    for segment in range(kept.shape.segments):
        _remove(folder / locate_socket(kept.number, segment, "vm"))
    _remove(folder / name / "qmp")
    argv = build_arguments(kept.shape, kept.number, kept.boot, state.arguments)
    qemu = start_process(f"{name}/qemu", argv, folder, detached=False)
    write_state(folder / name, msgspec.structs.replace(state, pid=qemu.pid))
    reason = ""
    for event in _events(f"{name}/qmp", qemu):
        if event.event == "SHUTDOWN":
            reason = str(event.data.get("reason", ""))
    stop_processes([qemu])
    return reason, qemu


def _events(path: str, qemu: LabProcess) -> Iterator[_QmpEvent]:
    """What QEMU says on its control socket until it ends (QEMU QMP Reference Manual)."""
    with socket.socket(socket.AF_UNIX) as line:
        if not _connected(line, path, qemu):
            return
        line.sendall(b'{"execute": "qmp_capabilities"}\n')
        with line.makefile("rb") as lines, suppress(ConnectionResetError):
            for text in lines:
                yield msgspec.json.decode(text, type=_QmpEvent)


def _connected(line: socket.socket, path: str, qemu: LabProcess) -> bool:
    deadline = time.monotonic() + _QMP_SECONDS
    while qemu.is_alive and time.monotonic() < deadline:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            line.connect(path)
            return True
        time.sleep(0.05)
    return False


def read_state(folder: Path) -> ServerState | None:
    """The state in a server's folder; None if its keeper has not written one yet."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=ServerState)
    except (OSError, msgspec.DecodeError):
        return None


def write_state(folder: Path, state: ServerState) -> None:
    """Put a state in its place, whole or not at all."""
    fresh = folder / "state.json.new"
    fresh.write_bytes(msgspec.json.encode(state))
    fresh.replace(folder / "state.json")


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _since(path: Path, offset: int) -> str:
    """What a file holds from `offset` on."""
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read().decode(errors="replace")


def main(words: Sequence[str]) -> None:
    """The process that keeps one server."""
    folder, name = Path(words[0]), words[1]
    os.chdir(folder)
    kept = msgspec.json.decode((folder / name / "keep.json").read_bytes(), type=KeeperSettings)
    os.environ.update(kept.environment)
    write_state(folder / name, keep_running(folder, kept))


if __name__ == "__main__":
    main(sys.argv[1:])
