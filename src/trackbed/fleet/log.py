"""The run log: what became of each host, one line of JSON each, on disk as soon as the host has ended.

    {"node": "gpu001", "kind": "applied", "told": "...", "request": "sha256 of what it was asked", "at": "2026-..Z"}

A host counts as done (`--resume`) while it would be asked the same: after a change of the Fabric those hosts that it
concerns are done again. A line that a crash has torn is passed by. One run at a time writes it (flock(2)).
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import msgspec

from trackbed.fleet.outcome import GOOD, Outcome
from trackbed.fleet.task import Task


class LogBusyError(Exception):
    """Another run writes this log."""


@dataclass(frozen=True, slots=True)
class Log:
    """An open log; `done` is what earlier runs have finished: node and request."""

    stream: BinaryIO
    done: frozenset[tuple[str, str]]

    def write(self, task: Task, outcome: Outcome) -> None:
        """Append one host's end, synced. OSError as the file system says it."""
        line = {
            "node": outcome.node,
            "kind": outcome.kind,
            "told": outcome.told,
            "request": digest(task),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.stream.write(json.dumps(line).encode() + b"\n")
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def has(self, task: Task) -> bool:
        """Whether an earlier run has done this."""
        return (task.name, digest(task)) in self.done


@contextmanager
def opened(path: Path, *, resume: bool) -> Iterator[Log]:
    """The log, emptied unless `resume`. Raises LogBusyError, and OSError as the file system says it."""
    with path.open("ab+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LogBusyError(f"another run writes {path}; wait for it, or name another with --log") from error
        stream.seek(0)
        done = frozenset(_done(stream.read())) if resume else frozenset[tuple[str, str]]()
        if not resume:
            stream.truncate(0)
        elif _torn(stream):
            stream.write(b"\n")
        yield Log(stream, done)


def digest(task: Task) -> str:
    """What a host is asked, as a short word; the time it is given does not count."""
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(task, seconds=0))).hexdigest()[:16]


def _done(raw: bytes) -> Iterator[tuple[str, str]]:
    last: dict[str, tuple[str, str]] = {}
    for line in raw.splitlines():
        try:
            found = json.loads(line)
            last[found["node"]] = (found["kind"], found["request"])
        except (ValueError, KeyError, TypeError):
            continue
    return ((node, request) for node, (kind, request) in last.items() if kind in GOOD)


def _torn(stream: BinaryIO) -> bool:
    if stream.seek(0, os.SEEK_END) == 0:
        return False
    stream.seek(-1, os.SEEK_END)
    return stream.read(1) != b"\n"
