"""Requests to many hosts at once: one ssh for each, started by ClusterShell.

ClusterShell limits the fan-out and ends processes that take too long. Gateways are OpenSSH's (ProxyJump in the user's
own configuration): they forward a connection that is encrypted to the host itself, and need nothing installed.
ControlMaster for the gateways (ssh_config(5)) saves one handshake for each host.
ClusterShell's own tree of gateways is not used, for two reasons: its gateways need ClusterShell, and with one worker
per host, a host once received the standard input of another (ClusterShell 1.9, cause unknown). `node` refuses a plan
for another host.

Each host has its own standard input, which contains its plan, hence a worker for each host. A worker gets the archive
when it starts, so memory grows with the fan-out and not with the number of hosts. Hosts start in the given order:
ClusterShell would start them in any order, and a host that hangs could be the last to start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Final

from ClusterShell.Event import EventHandler
from ClusterShell.Task import Task as Engine
from ClusterShell.Task import task_self

from trackbed.fleet import boot
from trackbed.fleet.node import MARK
from trackbed.fleet.outcome import Outcome, explain_oversized_output, judge_output
from trackbed.fleet.task import HostTask
from trackbed.host.ssh_output import use_bounded_output

GRACE_SECONDS: Final = 15
"""Time beyond the limit of its task that a host gets to start Python and to roll back."""
BEGIN_SECONDS: Final = 15
"""Time after connecting in which a host must report that it began.

Nothing is changed before that report, so a host that hangs can be given up early and does not delay others.
"""
_MAX_LINES: Final = 200
"""Maximum number of lines kept of what a login shell prints; the answer is one line."""
_MAX_MARKED_LINES: Final = 2 * _MAX_LINES
"""Maximum number of lines kept, with those for the control node."""


@dataclass(frozen=True, slots=True)
class SshOptions:
    """Options of ssh, and the number of hosts contacted at a time."""

    fanout: int = 64
    connect_seconds: int = 15
    user: str | None = None
    ssh_config: Path | None = None
    """Configuration file; None for the user's own."""
    launcher: tuple[str, ...] = ()
    """Words of a program that starts a proof's workers in place of ssh, see `launcher`; empty for ssh."""


def run_tasks(tasks: Iterable[HostTask], ssh: SshOptions, report: Callable[[Outcome], None]) -> None:
    """Run all tasks; `report` receives the outcome of each host as it ends, exactly once."""
    engine = configure_engine(ssh)

    def start_next() -> None:
        for handler in islice(waiting, 1):
            _start_ssh(engine, handler, ssh)

    handlers = [_HostHandler(task, report, start_next, ssh.connect_seconds + BEGIN_SECONDS) for task in tasks]
    waiting = iter(handlers)

    for _ in range(ssh.fanout):
        start_next()
    engine.run()
    for handler in handlers:
        handler.finish_host(255)


def _start_ssh(engine: Engine, handler: _HostHandler, ssh: SshOptions) -> None:
    engine.shell(
        boot.build_command(),
        nodes=handler.task.name,
        handler=handler,
        timeout=handler.task.seconds + GRACE_SECONDS + ssh.connect_seconds,
        stderr=True,
        tree=False,
    )


def configure_engine(ssh: SshOptions) -> Engine:
    """Return ClusterShell's task of this thread, with these options and bounded outputs."""
    logging.getLogger("ClusterShell").setLevel(logging.ERROR)  # it warns of input that a host did not read to its end
    engine = task_self()
    use_bounded_output(engine)
    for stream in ("stdout", "stderr"):
        engine.set_default(f"{stream}_msgtree", False)  # noqa: FBT003 - ClusterShell's; the handlers keep what counts
    engine.set_info("fanout", ssh.fanout)
    engine.set_info("connect_timeout", ssh.connect_seconds)
    engine.set_info("ssh_user", ssh.user)
    engine.set_info("ssh_options", f"-F {quote(str(ssh.ssh_config))}" if ssh.ssh_config else "")
    return engine


@dataclass(slots=True)
class _HostHandler(EventHandler):  # type: ignore[misc] # ClusterShell has no types
    """Receives the events of one host's ssh and collects its output."""

    task: HostTask
    report: Callable[[Outcome], None]
    start_next: Callable[[], None]
    """Starts another host."""
    begin_seconds: int
    """Time until the host must have begun."""
    output: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    status: int | None = None
    finished: bool = False
    worker: Any = None
    late: bool = False

    def ev_start(self, worker: Any) -> None:  # noqa: ANN401 - ClusterShell has no types
        """Send the standard input."""
        self.worker = worker
        task_self().timer(self.begin_seconds, self, autoclose=True)
        worker.write(boot.build_payload(self.task))
        worker.set_write_eof()

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:  # noqa: ANN401, ARG002 - as above
        """Collect one line of standard output or standard error."""
        lines = self.errors if sname == worker.SNAME_STDERR else self.output
        is_marked = msg.startswith(MARK.encode())
        if len(lines) < (_MAX_MARKED_LINES if is_marked else _MAX_LINES):
            lines.append(msg.decode(errors="replace"))
        elif is_marked:
            lines[-1] = msg.decode(errors="replace")  # the last answer counts

    def ev_timer(self, _: Any) -> None:  # noqa: ANN401 - as above
        """Abort the connection if the host has not begun."""
        if not self.finished and "trackbed began" not in self.output:
            self.late = True
            self.worker.abort()

    def ev_hup(self, worker: Any, node: str, rc: int) -> None:  # noqa: ANN401, ARG002 - as above
        """Store the exit status of ssh."""
        self.status = rc

    def ev_close(self, worker: Any, timedout: bool) -> None:  # noqa: ANN401, ARG002, FBT001 - as above
        """Report the outcome and start another host."""
        self.finish_host(None if timedout or self.late else self.status)
        self.start_next()

    def finish_host(self, status: int | None) -> None:
        """Report the outcome, once. `run_tasks` also calls it, for hosts whose end ClusterShell has not reported."""
        if not self.finished:
            self.finished = True
            if self.worker is not None and self.worker.is_oversized:
                self.report(Outcome(self.task.name, "oversized", explain_oversized_output(self.task.verb)))
            else:
                self.report(judge_output(self.task.name, self.task.verb, status, self.output, self.errors))
            self.output.clear()  # a megabyte of each host, which would be kept until the last host has ended
            self.worker = None
