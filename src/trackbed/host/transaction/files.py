"""Files that configure the network at the next boot.

Trackbed owns a fixed set of names (`formats.NETWORK_FILES`) and never writes or deletes other files. A file is replaced
atomically, so a crash leaves the old content or the new content.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trackbed.host.atomic import replace, sync_folder
from trackbed.host.formats import NETWORK_FILES, get_file_mode
from trackbed.host.machine import Machine
from trackbed.host.setting import HEAD

FOREIGN_FILES = (
    ("/etc/netplan", "*.yaml"),
    ("/etc/systemd/network", "*.network"),
    ("/etc/systemd/network", "*.link"),
    ("/etc/NetworkManager/system-connections", "*"),
    ("/etc/network", "interfaces"),
    ("/etc/network/interfaces.d", "*"),
    ("/etc/sysconfig/network-scripts", "ifcfg-*"),
    ("/etc/udev/rules.d", "*.rules"),
)
"""Folders and patterns of files of other programs that may name or configure a port."""


class FileChange(NamedTuple):
    """One of Trackbed's files that differs, with its present and wanted content; None stands for an absent file."""

    path: str
    have: bytes | None
    want: bytes | None


def read_owned(machine: Machine) -> dict[str, bytes]:
    """Return the content of all of Trackbed's network files on the machine, by absolute path."""
    return {
        f"{folder}/{path.relative_to(machine.locate(folder))}": path.read_bytes()
        for folder, path in _iter_owned(machine)
    }


def list_differences(machine: Machine, wanted: Mapping[str, str]) -> tuple[FileChange, ...]:
    """Return the files to write (those of `wanted` that differ) and to delete (Trackbed's files not in `wanted`)."""
    have = read_owned(machine)
    want = {path: content.encode() for path, content in wanted.items()}
    paths = sorted(have.keys() | want.keys())
    return tuple(FileChange(path, have.get(path), want.get(path)) for path in paths if have.get(path) != want.get(path))


def write_file(machine: Machine, path: str, content: bytes | None, permissions: int | None = None) -> None:
    """Replace one of Trackbed's files durably; `content` None deletes it. Raises OSError.

    `permissions` default to those of `get_file_mode`.
    """
    place = machine.locate(path)
    if content is None:
        with suppress(FileNotFoundError, NotADirectoryError):
            place.unlink()
            sync_folder(place.parent)
        return
    _make_folder(place.parent)
    replace(place, content, get_file_mode(path) if permissions is None else permissions)


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it, with mode 0755 whatever the umask: networkd reads its files as a user."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)


def list_foreign_mentions(machine: Machine, names: frozenset[str]) -> tuple[str, ...]:
    """Return the lines (`file:line: text`) of other programs' files that mention one of `names` (in lower case).

    Names are those of interfaces, MACs or PCI addresses. Comments are ignored. Unreadable files are listed, too.
    """
    ours = {path for _, path in _iter_owned(machine)}
    places: list[str] = []
    for folder, pattern in FOREIGN_FILES:
        for path in sorted(machine.locate(folder).glob(pattern)):
            if path.is_file() and path not in ours:
                places += _iter_mentions(path, f"{folder}/{path.name}", names)
    return tuple(places)


def _iter_mentions(path: Path, label: str, names: frozenset[str]) -> Iterator[str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        yield f"{label}: cannot be read ({error.strerror}), so it may configure a rail, too"
        return
    if lines and f"{lines[0]}\n" == HEAD:
        return
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].lower().replace(",", " ").replace("=", " ").replace('"', " ").replace("'", " ")
        if names & {part.strip("[]{}:") for part in words.split()}:
            yield f"{label}:{number}: {line.strip()}"


def _iter_owned(machine: Machine) -> Iterator[tuple[str, Path]]:
    for folder, pattern in NETWORK_FILES:
        yield from ((folder, path) for path in sorted(machine.locate(folder).glob(pattern)) if path.is_file())
