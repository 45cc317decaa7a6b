"""The state of a machine before apply, saved to disk before the first change.

    undo.json   {boot, netns, kept: {kind: what it keeps}, files, modes, commands, finished}

The record is of the state that was compared, so nothing that happens in between is taken for what was before. It is
complete and synced before anything is changed; `finished` is set when all changes have been made. A record that is not
finished belongs to an apply that was killed: the next one keeps it as its own "before", so that undo leads back to the
state before the first of them.

Interface indexes and namespaces do not outlive a boot: `boot` and `netns` say where what kinds keep is valid.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from trackbed.fabric.documents import parse_document, to_document
from trackbed.host import atomic
from trackbed.host.boot_id import read_boot_id
from trackbed.host.change import Change, FileWrite, Run
from trackbed.host.kinds.registry import KINDS
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.transaction.files import FileChange
from trackbed.kernel.netlink.netns import read_inode

FILE = "undo.json"
FOLDER = "/var/lib/trackbed"


class Record(NamedTuple):
    """Everything needed to undo; `files` holds None for a file that was not there.

    `kept` is what each kind of setting keeps, by the kind's name; `modes` are permissions of files, `commands` programs
    to run after everything else was put back.
    """

    boot: str
    netns: int
    kept: dict[str, dict[str, Any]]
    files: dict[str, bytes | None]
    modes: dict[str, int]
    commands: tuple[tuple[str, ...], ...]
    finished: bool = False


def find_folder(machine: Machine) -> Path:
    """Return the folder of a machine's record; a namespace that shares this host's files has its own."""
    place = machine.locate(FOLDER)
    is_whole = machine.netns is None or machine.root != Path("/")
    return place if is_whole else place / f"netns-{_read_netns(machine)}"


def build_record(view: View, files: Iterable[FileChange], changes: Iterable[Change]) -> Record:
    """Record the state that was compared: what settings are about, and what `changes` are about to write besides."""
    machine, operations = view.machine, [operation for change in changes for operation in change.do]
    before = {file.path: file.have for file in files}
    before |= {write.path: _read_file(machine, write.path) for write in operations if isinstance(write, FileWrite)}
    return Record(
        read_boot_id(),
        _read_netns(machine),
        {kind.name: dict(kept) for kind in KINDS if (kept := kind.keep(view))},
        before,
        {path: machine.locate(path).stat().st_mode & 0o7777 for path, have in before.items() if have is not None},
        tuple(dict.fromkeys(run.undo for run in operations if isinstance(run, Run) and run.undo)),
    )


def _read_file(machine: Machine, path: str) -> bytes | None:
    content = machine.read_bytes(path)
    if isinstance(content, Unreadable):
        raise OSError(f"{path} cannot be read: {content.reason}")
    return None if isinstance(content, Absent) else content


def merge(old: Record, new: Record) -> Record:
    """Complete the record of a killed apply by the data of the next one.

    Values below the name of a port or RDMA device are kept under the original name; values that were read below the new
    name came from the first apply.
    """
    renamed = {name for kind in KINDS if kind.keeps_names for name in _get_names(new, kind.name, old)}
    kept = {}
    for kind in old.kept.keys() | new.kept.keys():
        fresh = new.kept.get(kind, {}).items()
        kept[kind] = {key: value for key, value in fresh if renamed.isdisjoint(key.split("/"))} | old.kept.get(kind, {})
    return add_files(old._replace(kept=kept), new, old)


def _get_names(new: Record, kind: str, old: Record) -> set[str]:
    return set(new.kept.get(kind, {}).values()) - set(old.kept.get(kind, {}).values())


def add_files(base: Record, *records: Record) -> Record:
    """Return a record with the files and commands of all `records`; the later one knows the older content."""
    files, modes = dict(base.files), dict(base.modes)
    for record in records:
        files.update(record.files)
        modes.update(record.modes)
    commands = tuple(dict.fromkeys(command for record in (*records, base) for command in record.commands))
    return base._replace(files=files, modes=modes, commands=commands)


def load(place: Path) -> Record | None:
    """Return the record in a folder; None if there is none. Raises ValueError on bytes that are none."""
    try:
        raw = (place / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return _parse(json.loads(raw))
    except ValueError as error:
        raise ValueError(
            f"{place / FILE} is no undo record of this version ({error}); move it away to go on"
        ) from error


def _parse(document: object) -> Record:
    record = parse_document(document, Record)
    if unknown := record.kept.keys() - {kind.name for kind in KINDS}:
        raise ValueError(f"unknown kinds of setting: {', '.join(sorted(unknown))}")
    return record


def save(place: Path, record: Record) -> None:
    """Write the record durably."""
    place.mkdir(parents=True, exist_ok=True)
    atomic.replace(place / FILE, json.dumps(to_document(record)).encode(), 0o600)


def drop(place: Path) -> None:
    """Delete the record."""
    (place / FILE).unlink(missing_ok=True)


def is_here(machine: Machine, record: Record) -> bool:
    """Return whether the record's network is this one: the boot and the namespace are the same."""
    return (record.boot, record.netns) == (read_boot_id(), _read_netns(machine))


def _read_netns(machine: Machine) -> int:
    return read_inode(Path("/proc/thread-self/ns/net") if machine.netns is None else machine.netns)
