"""What processes may use, as /proc says it, and lists of limits.d: for the checks of the steps limits and runtime."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.host.snapshot.snapshot import Snapshot

READS = Wanted(files=("/proc/[0-9]*/comm", "/proc/[0-9]*/limits"))

UNLIMITED = "unlimited"
_COMM = re.compile(r"/proc/(\d+)/comm")
_COLUMNS = re.compile(r"\s{2,}")


class ProcessLimits(NamedTuple):
    """A process: its name (cut to 15 bytes by the kernel), its number, and its soft limits by their names there."""

    name: str
    pid: int
    limits: dict[str, str]


def find_processes(host: Snapshot, *names: str) -> list[ProcessLimits]:
    """The processes of these names, in the order of their numbers."""
    return sorted(_named(host, names), key=lambda one: one.pid)


def _named(host: Snapshot, names: tuple[str, ...]) -> Iterator[ProcessLimits]:
    for path in host.files:
        place = _COMM.fullmatch(path)
        name = host.text(path) if place else None
        if place and name in names:
            yield ProcessLimits(name, int(place[1]), _limits(host.text(f"/proc/{place[1]}/limits") or ""))


def _limits(text: str) -> dict[str, str]:
    """Soft limits of proc_pid_limits(5): columns are two blanks apart at least."""
    rows = (_COLUMNS.split(line) for line in text.splitlines()[1:])
    return {row[0]: row[1] for row in rows if len(row) > 1}


def is_below(limit: str | None, least: int) -> bool:
    """Whether a limit is known and less than `least`."""
    return limit is not None and limit.isdigit() and int(limit) < least
