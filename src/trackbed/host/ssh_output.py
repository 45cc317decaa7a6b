"""ClusterShell's worker for ssh, with a limit on what a host may send.

ClusterShell collects a line until its end, however long it is, and copies what it has for each part that arrives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from ClusterShell.Worker.EngineClient import EngineClientEOF
from ClusterShell.Worker.Ssh import SshClient, WorkerSsh

MAX_OUTPUT_BYTES: Final = 8 << 20
"""Largest output of one host, on both streams: the answer of a host with a thousand VFs takes 1 MB."""

_LINE_BYTES: Final = 64
"""What a line counts beyond its length, since handling one takes time in which no other host is read."""


class BoundedSshClient(SshClient):  # type: ignore[misc] # ClusterShell has no types
    """One ssh, which is killed once it has sent more than MAX_OUTPUT_BYTES."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as above
        super().__init__(*arguments, **options)
        self._received = 0
        self._parts: defaultdict[str, list[bytes]] = defaultdict(list)

    def _readlines(self, sname: str) -> Iterator[bytes]:
        """Read from a stream; yield complete lines, and keep the beginning of the last one."""
        part: bytes = self._read(sname)
        self._received += len(part) + _LINE_BYTES * part.count(b"\n")
        if self._received > MAX_OUTPUT_BYTES:
            self._parts.clear()
            self.worker.is_oversized = True
            self.popen.kill()
            raise EngineClientEOF
        if b"\n" not in part:
            self._parts[sname].append(part)
            return
        *lines, tail = b"".join((*self._parts.pop(sname, ()), part)).split(b"\n")
        if tail:
            self._parts[sname].append(tail)
        for line in lines:
            yield line.removesuffix(b"\r")

    def _flush_read(self, sname: str) -> None:
        """Hand over a last line without an end."""
        self.streams[sname].rbuf = b"".join(self._parts.pop(sname, ()))
        super()._flush_read(sname)


class BoundedSshWorker(WorkerSsh):  # type: ignore[misc] # as above
    """A worker whose hosts may send at most MAX_OUTPUT_BYTES each; `is_oversized` says that one sent more."""

    SHELL_CLASS = BoundedSshClient
    is_oversized = False


def use_bounded_output(engine: Any) -> None:  # noqa: ANN401 - as above
    """Let all commands of a ClusterShell task (`task_self()`) run in bounded workers."""
    engine.set_default("distant_worker", BoundedSshWorker)
