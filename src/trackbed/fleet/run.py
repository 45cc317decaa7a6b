"""Tasks run on their hosts, many at once: one ssh for each, by ClusterShell.

ClusterShell keeps to the fan-out and ends what takes too long. Gateways are OpenSSH's (ProxyJump in the user's own
configuration): they forward a connection that is encrypted to the host itself, and need nothing installed;
ControlMaster there for the gateways (ssh_config(5)) saves one handshake for each host.
ClusterShell's own tree is not used: its gateways need ClusterShell, and with a worker for each host one host was given
the standard input of another (seen once, with 1.9; cause not found). `node` refuses a plan that is not its own.

Each host has its own standard input (its plan), hence a worker for each; the archive is handed to a worker only when
its turn has come, so memory grows with the fan-out and not with the number of hosts. Hosts have their turn in the
order given: ClusterShell would take them in any, and one that hangs could be the last to begin.
"""

from __future__ import annotations

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
from trackbed.fleet.outcome import Outcome, judged
from trackbed.fleet.task import Task

GRACE_SECONDS: Final = 15
"""What a host gets above its task's seconds: for python to start, and for putting everything back."""
BEGIN_SECONDS: Final = 15
"""After it may have connected, a host has this long to say that it began: before that line nothing can have changed
there, so a host that hangs holds up the others no longer."""
_MAX_LINES: Final = 200
"""Of what a login shell may print; our answer is one line."""


@dataclass(frozen=True, slots=True)
class Way:
    """How hosts are reached."""

    fanout: int = 64
    connect_seconds: int = 15
    user: str | None = None
    ssh_config: Path | None = None
    """Instead of the user's own; None: that one."""


def run(tasks: Iterable[Task], way: Way, told: Callable[[Outcome], None]) -> None:
    """Do all tasks; `told` hears of each host's outcome as it ends, exactly once."""
    engine = _engine(way)

    def begin() -> None:
        for handler in islice(waiting, 1):
            _shell(engine, handler, way)

    handlers = [_Host(task, told, begin, way.connect_seconds + BEGIN_SECONDS) for task in tasks]
    waiting = iter(handlers)

    for _ in range(way.fanout):
        begin()
    engine.run()
    for handler in handlers:
        handler.end(255)


def _shell(engine: Engine, handler: _Host, way: Way) -> None:
    engine.shell(
        boot.command(),
        nodes=handler.task.name,
        handler=handler,
        timeout=handler.task.seconds + GRACE_SECONDS + way.connect_seconds,
        stderr=True,
        tree=False,
    )


def _engine(way: Way) -> Engine:
    engine = task_self()
    options = f"-F {quote(str(way.ssh_config))}" if way.ssh_config else ""
    engine.set_info("fanout", way.fanout)
    engine.set_info("connect_timeout", way.connect_seconds)
    engine.set_info("ssh_user", way.user)
    engine.set_info("ssh_options", options)
    return engine


@dataclass(slots=True)
class _Host(EventHandler):  # type: ignore[misc] # ClusterShell has no types
    """What one host says, until it ends."""

    task: Task
    told: Callable[[Outcome], None]
    next: Callable[[], None]
    """Begins another host, now that one has ended."""
    patience: int
    """Seconds until it must have begun."""
    said: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    status: int | None = None
    ended: bool = False
    worker: Any = None
    late: bool = False

    def ev_start(self, worker: Any) -> None:  # noqa: ANN401 - ClusterShell has no types
        """Its turn has come: send everything."""
        self.worker = worker
        task_self().timer(self.patience, self, autoclose=True)
        worker.write(boot.payload(self.task))
        worker.set_write_eof()

    def ev_read(self, worker: Any, node: str, sname: str, msg: bytes) -> None:  # noqa: ANN401, ARG002 - as above
        """One line of either stream."""
        lines = self.errors if sname == worker.SNAME_STDERR else self.said
        if len(lines) < _MAX_LINES or msg.startswith(b"trackbed "):
            lines.append(msg.decode(errors="replace"))

    def ev_timer(self, _: Any) -> None:  # noqa: ANN401 - as above
        """It should have begun by now."""
        if not self.ended and "trackbed began" not in self.said:
            self.late = True
            self.worker.abort()

    def ev_hup(self, worker: Any, node: str, rc: int) -> None:  # noqa: ANN401, ARG002 - as above
        """Ssh has ended."""
        self.status = rc

    def ev_close(self, worker: Any, timedout: bool) -> None:  # noqa: ANN401, ARG002, FBT001 - as above
        """Nothing comes any more."""
        self.end(None if timedout or self.late else self.status)
        self.next()

    def end(self, status: int | None) -> None:
        """Tell the outcome, once; `run` ends whatever ClusterShell has not."""
        if not self.ended:
            self.ended = True
            self.told(judged(self.task.name, status, self.said, self.errors))
