"""Putting a machine back: the record is compared with the present state, and the difference is undone.

Nothing is replayed, so it does not matter where an apply was stopped, nor how often undo runs. Only what carries
Trackbed's mark (or is an address that the apply was about to add) is removed; what others have made since is kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.host.kinds.registry import KINDS
from trackbed.host.machine import Machine
from trackbed.host.transaction import files
from trackbed.host.transaction.perform import OperationError, run
from trackbed.host.transaction.record import Record, is_here


def restore(machine: Machine, record: Record) -> tuple[str, ...]:
    """Restore a machine from a record; return the failures as text.

    After a reboot, or in another namespace, only the files are restored: the recorded network is gone.
    """
    return tuple(_restore(machine, record))


def _restore(machine: Machine, record: Record) -> Iterator[str]:
    for kind in KINDS if is_here(machine, record) else ():
        if kept := record.kept.get(kind.name):
            yield from kind.restore(machine, kept)
    for path, content in record.files.items():
        try:
            files.write(machine, path, content, record.modes.get(path))
        except OSError as error:
            yield f"{path}: {error.strerror}"
    for argv in record.commands:
        try:
            run(machine, argv)
        except OperationError as error:
            yield str(error)
