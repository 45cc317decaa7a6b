"""The run log: the outcome of each host as one line of JSON, synced to disk as soon as the host has ended.

    {"node": "gpu001", "kind": "applied", "told": "...", "request": "hash of the request", "at": "2026-..Z"}

With `--resume`, a host counts as completed while its request is the same. After a change of the Fabric, the hosts
whose plans changed are applied again. A line that was torn by a crash is ignored. Only one run at a time writes the log
(flock(2)).
"""

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

from trackbed.fleet.outcome import GOOD_KINDS, Outcome
from trackbed.fleet.task import HostTask


class LogBusyError(Exception):
    """Another run has the log locked."""


@dataclass(frozen=True, slots=True)
class Log:
    """An open log; `completed` has the node and the digest of each request that earlier runs have completed."""

    stream: BinaryIO
    completed: frozenset[tuple[str, str]]

    def append_outcome(self, task: HostTask, outcome: Outcome) -> None:
        """Append the outcome of one host and sync the file. Raises OSError if it cannot be written."""
        line = {
            "node": outcome.node,
            "kind": outcome.kind,
            "told": outcome.message,
            "request": compute_digest(task),
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.stream.write(json.dumps(line).encode() + b"\n")
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def is_done(self, task: HostTask) -> bool:
        """Return whether an earlier run has completed the task."""
        return (task.name, compute_digest(task)) in self.completed


@contextmanager
def open_log(path: Path, *, resume: bool) -> Iterator[Log]:
    """Open and lock the log; without `resume`, truncate it. Raises LogBusyError, and OSError of the file system."""
    with path.open("ab+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LogBusyError(f"another run writes {path}; wait for it, or name another with --log") from error
        stream.seek(0)
        content = stream.read() if resume else b""
        if not resume:
            stream.truncate(0)
        elif content and not content.endswith(b"\n"):
            stream.write(b"\n")
        yield Log(stream, frozenset(_iter_completed(content)))


def compute_digest(task: HostTask) -> str:
    """Return a short digest of a request, without its time limit."""
    return hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(task, seconds=0))).hexdigest()[:16]


def _iter_completed(content: bytes) -> Iterator[tuple[str, str]]:
    """Yield (node, digest of the request) for each host whose last outcome is good."""
    last: dict[str, tuple[str, str]] = {}
    for line in content.splitlines():
        try:
            entry = json.loads(line)
            last[entry["node"]] = (entry["kind"], entry["request"])
        except (ValueError, KeyError, TypeError):
            continue
    return ((node, request) for node, (kind, request) in last.items() if kind in GOOD_KINDS)
