"""Unreadable files of a host: no check that met one passes, and each is named by an unknown finding.

Checks read through `Snapshot.unreadable`, so a record of what they asked of it shows which files they lacked. A finding
made before a check met such a file did not need it; every later pass of the same module may have, and is withdrawn.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import msgspec

from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

UNREADABLE = "input-unreadable"
"""Id of the finding about files that no withdrawn pass of their module names. It is no fault of the catalogue."""

_NOTHING_TO_READ = frozenset(
    os.strerror(number)
    for number in (errno.EINVAL, errno.ENODATA, errno.ENODEV, errno.ENXIO, errno.EOPNOTSUPP, errno.ESRCH)
)
"""How sysfs and procfs say that a device or a process has no such value: a port without carrier has no speed."""


class _Record(dict[str, str]):
    """Path -> why it is unreadable; `met` has those that were asked for, in order."""

    def __init__(self, reasons: Iterable[tuple[str, str]]) -> None:
        super().__init__(reasons)
        self.met: dict[str, str] = {}

    def __getitem__(self, path: str) -> str:
        reason = super().__getitem__(path)
        if reason not in _NOTHING_TO_READ:
            self.met[path] = reason
        return reason


def judge_unread(check: Callable[[NodeView], Iterator[Finding]], view: NodeView, step: str) -> Iterator[Finding]:
    """Run a check, and replace by unknown each pass that follows the reading of an unreadable file."""
    if view.host is None or not view.host.unreadable:
        yield from check(view)
        return
    record, named = _Record(view.host.unreadable.items()), 0
    for finding in check(replace(view, host=replace(view.host, unreadable=record))):
        if finding.verdict != "pass" or not record.met:
            yield finding
            continue
        named = len(record.met)
        yield msgspec.structs.replace(finding, verdict="unknown", evidence=_format_reasons(record.met))
    if len(record.met) > named:
        title, fix = "the files of this step are readable", "Run doctor as root, or see why the kernel refuses to read."
        evidence = _format_reasons(dict(list(record.met.items())[named:]))
        yield Finding(UNREADABLE, step, "unknown", title, evidence, fix=fix, node=view.node.name)


_MAX_FILES = 3
"""Maximum number of files that the evidence lists."""


def _format_reasons(reasons: dict[str, str]) -> str:
    listing = "; ".join(f"{path}: {reason}" for path, reason in list(reasons.items())[:_MAX_FILES])
    return listing + (f"; and {len(reasons) - _MAX_FILES} more" if len(reasons) > _MAX_FILES else "")
