"""The supervisor of one emulated server: it starts QEMU, classifies why it ended, and boots again after a reset.

    python -m trackbed_lab.vm.keeper LAB-FOLDER NAME

QEMU exits at a reset (-no-reboot) and reports the reset on its control socket (QMP). The keeper then reads the boot
loader's configuration, as firmware and GRUB would, and boots the server with those kernel arguments. The kernel
argument panic=-1 turns a panic into a reset; the console distinguishes the two.

NAME/state.json holds the server's state; it is replaced atomically.
"""

import os
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
"""A boot that ends earlier has failed, because a successful start takes longer."""

SHORT_BOOTS = 3
"""Short boots in a row after which the server counts as crashed."""

_QMP_SECONDS = 20.0
CUT = "cut"
_PANIC = "Kernel panic - not syncing"
_INITRAMFS_FAILURE = "trackbed: the first root failed"


class KeeperSettings(msgspec.Struct, frozen=True):
    """The settings of a keeper, written to LAB-FOLDER/NAME/keep.json before it starts."""

    shape: LabShape
    number: int
    boot: BootSettings
    environment: dict[str, str]


class ServerState(msgspec.Struct, frozen=True):
    """The state of a server, as its keeper last wrote it."""

    phase: str
    """runs, off (it was shut down) or crashed."""
    boots: int = 0
    arguments: str = ""
    """Kernel arguments of the boot loader's configuration at the last boot."""
    why: str = ""
    """Why it is not running."""
    pid: int = 0
    """PID of QEMU."""


class _QmpEvent(msgspec.Struct, frozen=True):
    """A message of QMP; `event` is empty if the message is not an event."""

    event: str = ""
    data: dict[str, object] = msgspec.field(default_factory=dict)


def keep_running(folder: Path, settings: KeeperSettings) -> ServerState:
    """Boot a server until it is shut down or crashes; return its last state. The working directory is `folder`."""
    name = settings.shape.list_servers()[settings.number]
    console, boots, short_boots = folder / name / "console.log", 0, 0
    while True:
        try:
            arguments = grub.read_kernel_arguments(locate_disk(folder, name))
        except grub.GrubError as error:
            return ServerState("crashed", boots, "", f"no boot: {error}")
        boots += 1
        start, offset = time.monotonic(), _read_size(console)
        reason, qemu = _boot_once(folder, settings, ServerState("runs", boots, arguments))
        short_boots = short_boots + 1 if time.monotonic() - start < SHORT_SECONDS else 0
        if _consume_power_cut_mark(folder / name):
            continue
        end = classify_exit(reason, _read_text_from(console, offset), qemu.read_log_end(), short_boots)
        if end is not None:
            return ServerState(end[0], boots, arguments, end[1])


def classify_exit(reason: str, console: str, qemu_log: str, short_boots: int) -> tuple[str, str] | None:
    """Return phase and explanation of a boot's end, or None if the server is to boot again.

    `reason` is that of QMP's SHUTDOWN event, "" where there was none; `short_boots` counts those in a row.
    """
    for failure in (_PANIC, _INITRAMFS_FAILURE):
        if failure in console:
            return "crashed", next(line.strip() for line in console.splitlines() if failure in line)
    if reason == "guest-reset":
        return ("crashed", f"it reset {short_boots} times within seconds") if short_boots >= SHORT_BOOTS else None
    if reason == "guest-shutdown":
        return "off", "it was shut down from inside"
    return "crashed", f"QEMU ended ({reason or 'it gave no reason'}): {qemu_log}"


def _consume_power_cut_mark(folder: Path) -> bool:
    """Return whether a test's power cut ended the boot, and remove the file that marks it."""
    try:
        (folder / CUT).unlink()
    except FileNotFoundError:
        return False
    return True


def _boot_once(folder: Path, settings: KeeperSettings, state: ServerState) -> tuple[str, LabProcess]:
    """Start QEMU and wait until it exits; return the reason of its SHUTDOWN event, and its process."""
    name = settings.shape.list_servers()[settings.number]
    for segment in range(settings.shape.segments):
        _remove_file(folder / locate_socket(settings.number, segment, "vm"))
    _remove_file(folder / name / "qmp")
    argv = build_arguments(settings.shape, settings.number, settings.boot, state.arguments)
    qemu = start_process(f"{name}/qemu", argv, folder, detached=False)
    write_state(folder / name, msgspec.structs.replace(state, pid=qemu.pid))
    reason = ""
    for event in _iter_events(f"{name}/qmp", qemu):
        if event.event == "SHUTDOWN":
            reason = str(event.data.get("reason", ""))
    stop_processes([qemu])
    return reason, qemu


def _iter_events(path: str, qemu: LabProcess) -> Iterator[_QmpEvent]:
    """Yield the messages of QEMU's control socket until it closes (QEMU QMP Reference Manual)."""
    with socket.socket(socket.AF_UNIX) as connection:
        if not _connect_to_qmp(connection, path, qemu):
            return
        connection.sendall(b'{"execute": "qmp_capabilities"}\n')
        with connection.makefile("rb") as lines, suppress(ConnectionResetError):
            for line in lines:
                yield msgspec.json.decode(line, type=_QmpEvent)


def _connect_to_qmp(connection: socket.socket, path: str, qemu: LabProcess) -> bool:
    deadline = time.monotonic() + _QMP_SECONDS
    while qemu.is_alive and time.monotonic() < deadline:
        with suppress(FileNotFoundError, ConnectionRefusedError):
            connection.connect(path)
            return True
        time.sleep(0.05)
    return False


def read_state(folder: Path) -> ServerState | None:
    """Return the state in a server's folder, or None if its keeper has not written it yet."""
    try:
        return msgspec.json.decode((folder / "state.json").read_bytes(), type=ServerState)
    except (OSError, msgspec.DecodeError):
        return None


def write_state(folder: Path, state: ServerState) -> None:
    """Replace the state in a server's folder atomically."""
    temporary = folder / "state.json.new"
    temporary.write_bytes(msgspec.json.encode(state))
    temporary.replace(folder / "state.json")


def _remove_file(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()


def _read_size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _read_text_from(path: Path, offset: int) -> str:
    """Return the text of a file from `offset` on."""
    if not path.exists():
        return ""
    with path.open("rb") as stream:
        stream.seek(offset)
        return stream.read().decode(errors="replace")


def main(arguments: Sequence[str]) -> None:
    """Keep one server running."""
    folder, name = Path(arguments[0]), arguments[1]
    os.chdir(folder)
    settings = msgspec.json.decode((folder / name / "keep.json").read_bytes(), type=KeeperSettings)
    os.environ.update(settings.environment)
    write_state(folder / name, keep_running(folder, settings))


if __name__ == "__main__":
    main(sys.argv[1:])
