"""Files that make settings survive a reboot: found, compared, written whole, never anybody else's.

Trackbed owns a fixed set of names (`owned`); it writes and deletes those and nothing else. A file is replaced by a
rename in its own folder after its content is on disk, so a crash leaves the old content or the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.atomic import replace, sync_folder
from trackbed.host.formats import Format, choose_mode
from trackbed.host.machine import Machine
from trackbed.host.setting import HEAD

OWN = (
    ("/etc/netplan", "90-trackbed.yaml"),
    ("/etc/systemd/network", "10-trackbed-*.link"),
    ("/etc/systemd/network", "10-trackbed-*.network"),
    ("/etc/systemd/network", "10-netplan-*.network.d/90-trackbed.conf"),
    ("/etc/NetworkManager/system-connections", "trackbed-*.nmconnection"),
    ("/etc/sysctl.d", "90-trackbed.conf"),
    ("/etc/iproute2/rt_tables.d", "trackbed.conf"),
)
"""Folder and pattern of every file that Trackbed may write: what `host.render` yields."""

RIVALS = (
    ("/etc/netplan", "*.yaml"),
    ("/etc/systemd/network", "*.network"),
    ("/etc/systemd/network", "*.link"),
    ("/etc/NetworkManager/system-connections", "*"),
    ("/etc/network", "interfaces"),
    ("/etc/network/interfaces.d", "*"),
    ("/etc/udev/rules.d", "*.rules"),
)
"""Where else a port may be named or configured."""


class FileChange(NamedTuple):
    """A file of ours that is not as wanted; None stands for no file."""

    path: str
    have: bytes | None
    want: bytes | None


def find_renderer(machine: Machine) -> Format:
    """Return the format of the machine's network configuration: netplan, else NetworkManager, else networkd."""
    if machine.locate("/etc/netplan").is_dir():
        return "netplan"
    return "networkmanager" if machine.locate("/etc/NetworkManager").is_dir() else "networkd"


def read_owned(machine: Machine) -> dict[str, bytes]:
    """Return the content of all files of Trackbed on the machine, by absolute path."""
    return {
        f"{folder}/{path.relative_to(machine.locate(folder))}": path.read_bytes()
        for folder, path in _iter_owned(machine)
    }


def list_differences(machine: Machine, wanted: Mapping[str, str]) -> tuple[FileChange, ...]:
    """Return files to write (of `wanted`, those that differ) and to delete (ours that are no longer wanted)."""
    have = read_owned(machine)
    want = {path: content.encode() for path, content in wanted.items()}
    paths = sorted(have.keys() | want.keys())
    return tuple(FileChange(path, have.get(path), want.get(path)) for path in paths if have.get(path) != want.get(path))


def write(machine: Machine, path: str, content: bytes | None, permissions: int | None = None) -> None:
    """Replace one file of ours durably; None deletes it. OSError as the file system says it.

    Permissions are what readers of such a path demand, where none are given.
    """
    place = machine.locate(path)
    if content is None:
        with suppress(FileNotFoundError, NotADirectoryError):
            place.unlink()
            sync_folder(place.parent)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    replace(place, content, choose_mode(path) if permissions is None else permissions)


def list_rivals(machine: Machine, names: frozenset[str]) -> tuple[str, ...]:
    """Places (`file:line: text`) where files that are not ours speak of the same interfaces, MACs or PCI addresses.

    `names` are the words to look for; a comment does not count. Unreadable files are named, too.
    """
    ours = {path for _, path in _iter_owned(machine)}
    places: list[str] = []
    for folder, pattern in RIVALS:
        for path in sorted(machine.locate(folder).glob(pattern)):
            if path.is_file() and path not in ours:
                places += _iter_mentions(path, f"{folder}/{path.name}", names)
    return tuple(places)


def list_warnings(machine: Machine, node: NodePlan) -> tuple[str, ...]:
    """Return warnings about files of others that name or configure a rail of this node."""
    known = (text for port in node.ports for text in (port.netdev, port.pci, port.mac, port.kernel_name) if text)
    places = list_rivals(machine, frozenset(text.lower() for text in known))
    return tuple(f"{place}: this configures or names a rail, too; take the rail out of that file" for place in places)


def _iter_mentions(path: Path, shown: str, names: frozenset[str]) -> Iterator[str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as error:
        yield f"{shown}: cannot be read ({error.strerror}), so it may configure a rail, too"
        return
    if lines and f"{lines[0]}\n" == HEAD:
        return
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].lower().replace(",", " ").replace("=", " ").replace('"', " ").replace("'", " ")
        if names & {part.strip("[]{}:") for part in words.split()}:
            yield f"{shown}:{number}: {line.strip()}"


def _iter_owned(machine: Machine) -> Iterator[tuple[str, Path]]:
    for folder, pattern in OWN:
        yield from ((folder, path) for path in sorted(machine.locate(folder).glob(pattern)) if path.is_file())
