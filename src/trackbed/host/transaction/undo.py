"""Restoration of a machine from an undo record, by comparison of the record with the present state.

No operation is reversed, so undo works wherever an apply was stopped, and is idempotent. Addresses, routes and rules
are removed only if they have Trackbed's mark, or are addresses that the apply was going to add. Entries of other
programs are kept.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.host.kinds.registry import KINDS
from trackbed.host.machine import Machine
from trackbed.host.transaction import files
from trackbed.host.transaction.perform import OperationError, run_program
from trackbed.host.transaction.record import Record, is_current
from trackbed.kernel.netlink.codec import NetlinkError


def restore(machine: Machine, record: Record) -> tuple[str, ...]:
    """Restore a machine from a record; return the failures as text.

    After a reboot or in another namespace only the files are restored, because the recorded network no longer exists.
    """
    return tuple(_restore_and_report(machine, record))


def _restore_and_report(machine: Machine, record: Record) -> Iterator[str]:
    for kind in KINDS if is_current(machine, record) else ():
        if kept := record.kept.get(kind.name):
            try:
                yield from kind.restore(machine, kept)
            except (NetlinkError, OSError, ValueError) as error:  # the other kinds and the files are restored
                yield f"{kind.name}: {error}"
    for path, content in record.files.items():
        try:
            files.write_file(machine, path, content, record.modes.get(path))
        except OSError as error:
            yield f"{path}: {error.strerror}"
    for argv in record.commands:
        try:
            run_program(machine, argv)
        except OperationError as error:
            yield str(error)
