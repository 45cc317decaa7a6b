"""The state of a machine before apply, saved to disk before the first change.

    undo.json   {boot, netns, kept: {kind: data of the kind}, files, modes, commands, finished, format}

The record has the very state that was compared, so later changes by other programs are not restored as the old state.
It is on disk before the first change; `finished` is set after the last change. An unfinished record belongs to an apply
that was killed. The next apply extends it, so that undo restores the state before the killed apply.

Interface indexes and namespaces change with a boot. `kept` is valid in the boot and the namespace of the record.
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
    """All data that undo needs.

    `kept` has the data of each kind of setting, `files` the content of files (None: absent) and `modes` their
    permissions. `commands` are programs to run after everything else was restored. `format` has been 1 in all versions.
    """

    boot: str
    netns: int
    kept: dict[str, dict[str, Any]]
    files: dict[str, bytes | None]
    modes: dict[str, int]
    commands: tuple[tuple[str, ...], ...]
    finished: bool = False
    format: int = 1


def find_folder(machine: Machine) -> Path:
    """Return the folder of a machine's record. A namespace with the files of this host has a folder of its own."""
    place = machine.locate(FOLDER)
    is_whole = machine.netns is None or machine.root != Path("/")
    return place if is_whole else place / f"netns-{_read_netns(machine)}"


def build_record(view: View, files: Iterable[FileChange], changes: Iterable[Change]) -> Record:
    """Build the record of the state that was compared, with the present content of all files that will be written."""
    machine, operations = view.machine, [operation for change in changes for operation in change.operations]
    before = {file.path: file.have for file in files}
    before |= {write.path: _read_file(machine, write.path) for write in operations if isinstance(write, FileWrite)}
    return Record(
        read_boot_id(),
        _read_netns(machine),
        {kind.name: dict(kept) for kind in KINDS if (kept := kind.read_undo_data(view))},
        before,
        {path: machine.locate(path).stat().st_mode & 0o7777 for path, have in before.items() if have is not None},
        tuple(dict.fromkeys(run.undo for run in operations if isinstance(run, Run) and run.undo)),
    )


def _read_file(machine: Machine, path: str) -> bytes | None:
    content = machine.read_bytes(path)
    if isinstance(content, Unreadable):
        raise OSError(f"{path} cannot be read: {content.reason}")
    return None if isinstance(content, Absent) else content


def merge_records(old: Record, new: Record) -> Record:
    """Extend the record of a killed apply by the data of the next apply.

    Data whose path has a new name of a port or RDMA device is dropped: the killed apply has renamed the device, and the
    old record may have that data with the original name.
    """
    renamed = {name for kind in KINDS if kind.holds_names for name in _list_renamed_devices(old, new, kind.name)}
    kept = {
        kind: {key: value for key, value in new.kept.get(kind, {}).items() if renamed.isdisjoint(key.split("/"))}
        | old.kept.get(kind, {})
        for kind in old.kept.keys() | new.kept.keys()
    }
    return add_files(old._replace(kept=kept), new, old)


def _list_renamed_devices(old: Record, new: Record, kind: str) -> list[str]:
    """Return the names in the new record of devices that have another name in the old record."""
    names = old.kept.get(kind, {})
    return [name for index, name in new.kept.get(kind, {}).items() if names.get(index, name) != name]


def add_files(base: Record, *records: Record) -> Record:
    """Add the files and commands of `records` to `base`. Later records are older: their content of a file wins."""
    files = {path: content for record in (base, *records) for path, content in record.files.items()}
    modes = {path: mode for record in (base, *records) for path, mode in record.modes.items()}
    commands = tuple(dict.fromkeys(command for record in (*records, base) for command in record.commands))
    return base._replace(files=files, modes=modes, commands=commands)


def load_record(folder: Path) -> Record | None:
    """Return the record in a folder; None if there is none. Raises ValueError on an invalid record."""
    try:
        raw = (folder / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return _parse_record(json.loads(raw))
    except ValueError as error:
        raise ValueError(
            f"{folder / FILE} is no undo record of this version ({error}); move it away to go on"
        ) from error


def _parse_record(document: object) -> Record:
    record = parse_document(document, Record)
    if record.format != 1:
        raise ValueError(f"it has format {record.format}, this version of Trackbed reads format 1")
    types = {kind.name: kind.undo_data_type for kind in KINDS}
    if unknown := record.kept.keys() - types.keys():
        raise ValueError(f"unknown kinds of setting: {', '.join(sorted(unknown))}")
    return record._replace(kept={name: parse_document(kept, types[name]) for name, kept in record.kept.items()})


def save_record(folder: Path, record: Record) -> None:
    """Write the record durably."""
    folder.mkdir(parents=True, exist_ok=True)
    atomic.replace(folder / FILE, json.dumps(to_document(record)).encode(), 0o600)


def delete_record(folder: Path) -> None:
    """Delete the record, if there is one."""
    (folder / FILE).unlink(missing_ok=True)


def is_current(machine: Machine, record: Record) -> bool:
    """Return whether the record was made in this boot and in the machine's network namespace."""
    return (record.boot, record.netns) == (read_boot_id(), _read_netns(machine))


def _read_netns(machine: Machine) -> int:
    return read_inode(Path("/proc/thread-self/ns/net") if machine.netns is None else machine.netns)
