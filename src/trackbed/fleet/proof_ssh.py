"""Workers of a proof over SSH, or by a launcher: a connection for each host, all at once, started by ClusterShell.

Standard input stays open: its end is how a worker learns that nobody waits for it. So this process needs no clean-up on
hosts, however it ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from ClusterShell.Event import EventHandler
from ClusterShell.Task import Task as Engine

from trackbed.fleet import boot
from trackbed.fleet.launcher import find_error, use_launcher
from trackbed.fleet.node import MARK
from trackbed.fleet.outcome import explain_oversized_output, explain_unread, judge_output
from trackbed.fleet.run import SshOptions, configure_engine
from trackbed.fleet.sheet_run import SheetCalls, SheetRun
from trackbed.fleet.task import HostTask

IDLE_SECONDS: Final = 600
"""How long a worker waits for its next sheet."""
_BEGIN_SECONDS, _CONNECTIONS_PER_SECOND = 60, 10
"""Time in which a host must report that it began. All are reached at once, and this machine has to log in to each."""
_MAX_LINES: Final = 200
"""Maximum number of lines kept of what a login shell prints."""


def run_sheets(
    hosts: Sequence[str],
    ssh: SshOptions,
    calls: SheetCalls,
) -> None:
    """Run sheets on hosts until there are no more; see SheetRun. The fan-out of `ssh` does not apply."""
    engine = configure_engine(replace(ssh, fanout=max(1, len(hosts))))
    if ssh.launcher:
        use_launcher(engine, ssh.launcher)
    begin_seconds = ssh.connect_seconds + _BEGIN_SECONDS + len(hosts) // _CONNECTIONS_PER_SECOND
    workers = _SshWorkers(engine, begin_seconds, ssh.launcher)
    workers.run = SheetRun(hosts, workers, calls)
    workers.run.start()
    engine.run()


class _SshWorkers:
    """The transport of a SheetRun."""

    start_seconds = 1.0
    run: SheetRun

    def __init__(self, engine: Engine, begin_seconds: int, launcher: Sequence[str]) -> None:
        self._engine, self._begin_seconds, self.launcher = engine, begin_seconds, launcher
        self._command = boot.build_command(asks_sudo=not launcher)
        self._connections: dict[str, _Connection] = {}

    def connect(self, host: str) -> None:
        connection = _Connection(host, self, self._begin_seconds)
        self._connections[host] = connection
        self._engine.shell(self._command, nodes=host, handler=connection, stderr=True, tree=False)

    def send(self, host: str, document: Mapping[str, Any]) -> None:
        self._connections[host].worker.write(msgspec.json.encode(document) + b"\n")

    def abort(self, host: str, reason: str) -> None:
        self._connections[host].abort(reason)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self._engine.timer(seconds, _Timer(callback), autoclose=True)

    def read_clock(self) -> float:
        return time.monotonic()

    def finish(self) -> None:
        for connection in self._connections.values():
            connection.finish()


class _Timer(EventHandler):  # type: ignore[misc] # ClusterShell has no types
    def __init__(self, callback: Callable[[], None]) -> None:
        super().__init__()
        self._callback = callback

    def ev_timer(self, _: Any) -> None:  # noqa: ANN401 - as above
        self._callback()


class _Connection(EventHandler):  # type: ignore[misc] # as above
    """The ssh of one host."""

    def __init__(self, host: str, workers: _SshWorkers, begin_seconds: int) -> None:
        super().__init__()
        self.worker: Any = None
        self._host, self._workers, self._begin_seconds = host, workers, begin_seconds
        self._output: list[str] = []
        self._errors: list[str] = []
        self._status: int | None = None
        self._reason = ""
        self._has_begun = self._is_closed = False

    def ev_start(self, worker: Any) -> None:  # noqa: ANN401 - as above
        """Send the program, and leave the input open."""
        self.worker = worker
        self._workers.call_later(self._begin_seconds, self._expect_begin)
        worker.write(boot.build_payload(HostTask("prove", self._host, None, {}, "none", IDLE_SECONDS)))

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:  # noqa: ANN401, ARG002 - as above
        """Hand over a line of the worker; keep what others print."""
        text = msg.decode(errors="replace")
        if sname != worker.SNAME_STDERR and text == f"{MARK}began":
            if self._has_begun:  # it would be sent its steps again, with each of a million lines
                return
            self._has_begun = True
            self._output.append(text)
            self._workers.run.handle_begin(self._host)
        elif sname != worker.SNAME_STDERR and (document := _parse_message(text)):
            self._workers.run.handle_message(self._host, document)
        else:
            lines = self._errors if sname == worker.SNAME_STDERR else self._output
            lines += [text] if len(lines) < _MAX_LINES else []

    def ev_hup(self, worker: Any, node: str, rc: int) -> None:  # noqa: ANN401, ARG002 - as above
        """Store the exit status of ssh."""
        self._status = rc

    def ev_close(self, worker: Any, timedout: bool) -> None:  # noqa: ANN401, ARG002, FBT001 - as above
        """Tell why the worker has ended."""
        self._is_closed = True
        oversized = explain_oversized_output("prove").partition(";")[0] if self.worker.is_oversized else ""
        self._workers.run.handle_close(self._host, self._reason or oversized or self._explain_end())

    def abort(self, reason: str) -> None:
        """End the connection."""
        if not self._is_closed:
            self._reason = reason
            self.worker.abort()

    def finish(self) -> None:
        """End the input, which ends the worker."""
        if not self._is_closed and self.worker is not None:
            self.worker.set_write_eof()

    def _explain_end(self) -> str:
        launcher, has_failed = self._workers.launcher, self._status not in {None, 0, boot.NO_PYTHON}
        if launcher and has_failed and not self._has_begun:
            reason = find_error(self._errors).replace(self._host, "the node")  # so that nodes with one trouble fold
            return f"{launcher[0]} did not start it (exit status {self._status}: {reason})"
        return explain_unread(judge_output(self._host, "prove", self._status, self._output, self._errors))

    def _expect_begin(self) -> None:
        if not self._has_begun:
            self.abort("it did not begin in time")


def _parse_message(text: str) -> Mapping[str, Any] | None:
    """Return a message of a sheet; None for any other line."""
    if not text.startswith(MARK + "{"):
        return None
    try:
        document = msgspec.json.decode(text.removeprefix(MARK))
    except (msgspec.DecodeError, RecursionError):
        return None
    return document if "sheet" in document else None
