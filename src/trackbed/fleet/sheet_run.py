"""The rounds of a proof on many hosts: all start together, and a host that is lost costs its round.

    connect everywhere ──> each host has begun, or is lost ──> advance(answers) ──> a sheet, or None: the end
                                          ^                                           │
                                          └── repeat lost rounds, once <── answers <──┴─> to each host: "in 1 s"

A worker that dies is started again at once, once for each sheet and MOST_RESTARTS times in all, since all others wait
for it. It gets the rounds of the sheet that have not begun. When all rounds are over, those that it missed are
repeated, once, with the tests alone that have no answer. What is missing then stays so.
This module decides and waits for nothing; a transport connects, sends and calls back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from trackbed.fabric.host_ranges import fold_hosts

LATE_SECONDS: Final = 10.0
"""What a host may be late with a sheet before it is given up."""
MOST_RESTARTS: Final = 2
"""How often the worker of a host is started again: a host that is sick, or hostile, shall not hold up all others."""
_REJOIN_SECONDS: Final = 0.2
"""A host that comes back gets the rounds that begin later than this."""

Step = Mapping[str, Any]
Outputs = Mapping[int, Any]


class RoundPlan(Protocol):
    """A round: its length, and the numbered steps of each host. Steps 2n and 2n + 1 are the ends of test n."""

    @property
    def seconds(self) -> float:
        """Length of the round."""

    @property
    def steps(self) -> Mapping[str, Sequence[tuple[int, Step]]]:
        """Steps by host."""


class SheetPlan(Protocol):
    """Rounds that follow each other."""

    @property
    def title(self) -> str:
        """What people call the sheet."""

    @property
    def rounds(self) -> Sequence[RoundPlan]:
        """The rounds, in order."""


class SheetCalls(NamedTuple):
    """What a run of sheets calls."""

    advance: Callable[[Outputs, Mapping[str, str]], SheetPlan | None]
    """Gets outputs by step, and why hosts are lost; returns the next sheet, or None at the end."""
    report: Callable[[str], None]
    """Gets lines for people."""
    keep: Callable[[int, int, Any], None]
    """Gets each output as it comes: number of the try (a sheet and its repeat are two), step and output."""


class Transport(Protocol):
    """Workers on hosts; what happens there is handed to a SheetRun."""

    start_seconds: float
    """From sending a sheet to its first round: hosts get it one after the other."""

    def connect(self, host: str) -> None:
        """Start a worker; `handle_begin` or `handle_close` is called later."""

    def send(self, host: str, document: Mapping[str, Any]) -> None:
        """Send a worker a line."""

    def abort(self, host: str, reason: str) -> None:
        """End a worker; `handle_close` is called later, with this reason."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after a time, unless all workers end before."""

    def read_clock(self) -> float:
        """Return the monotonic time in seconds."""

    def finish(self) -> None:
        """End the input of all workers."""


class _Part(NamedTuple):
    """A round of the sheet that runs: when it begins, its number for people, and its steps by host."""

    begin: float
    number: int
    seconds: float
    steps: Mapping[str, Sequence[tuple[int, Step]]]


class SheetRun:
    """What runs on which host."""

    def __init__(
        self,
        hosts: Sequence[str],
        transport: Transport,
        calls: SheetCalls,
    ) -> None:
        """Set what to run."""
        self._hosts, self._transport = hosts, transport
        self._advance, self._report, self._keep = calls
        self._live: set[str] = set()
        self._connecting: set[str] = set()
        self._failures: dict[str, str] = {}
        self._absent: dict[str, list[str]] = {}
        self._restarted: set[str] = set()
        self._restarts: Counter[str] = Counter()
        self._title, self._rounds, self._sheet = "", 0, 0
        self._parts: list[_Part] = []
        self._announced: set[int] = set()
        self._pending: dict[str, set[int]] = {}
        self._outputs: dict[int, Any] = {}
        self._answered: set[int] = set()
        self._is_repeated, self._is_over, self._is_advancing = True, False, False

    def start(self) -> None:
        """Connect to all hosts."""
        self._connecting = set(self._hosts)
        for host in self._hosts:
            self._transport.connect(host)
        self._go_on()

    def handle_begin(self, host: str) -> None:
        """Take in a worker that can get sheets."""
        self._connecting.discard(host)
        self._live.add(host)
        self._failures.pop(host, None)
        if any(self._pending.values()):
            self._send_parts(host, self._transport.read_clock() + _REJOIN_SECONDS)
        self._go_on()

    def handle_message(self, host: str, document: Mapping[str, Any]) -> None:
        """Take in a line of a worker; lines of earlier sheets, and of steps that it was not given, are ignored."""
        index, step_id = document.get("round"), document.get("id")
        if document.get("sheet") != self._sheet or not isinstance(index, int):
            return
        if index not in self._pending.get(host, ()):
            return
        self._announce(index)
        if document.get("done") is True:
            self._pending[host].discard(index)
            self._go_on()
        elif isinstance(step_id, int) and step_id in self._list_open_steps(host, index):
            self._answered.add(step_id)
            self._outputs[step_id] = document.get("output")
            self._keep(self._sheet, step_id, self._outputs[step_id])

    def _list_open_steps(self, host: str, index: int) -> set[int]:
        """Return the steps of a host in a round that have no answer yet: a second one is not kept."""
        return {step_id for step_id, _ in self._parts[index].steps.get(host, ())} - self._answered

    def handle_close(self, host: str, reason: str) -> None:
        """Take in the end of a worker: it is started again if it had begun, but not without end."""
        was_live = host in self._live
        self._live.discard(host)
        self._connecting.discard(host)
        self._pending.pop(host, None)
        if self._is_over:
            return
        self._failures[host] = reason
        may_restart = host not in self._restarted and self._restarts[host] < MOST_RESTARTS
        if was_live and may_restart:
            self._restarted.add(host)
            self._restarts[host] += 1
            self._connecting.add(host)
            self._report(f"{host} was lost: {reason}; its worker is started again")
            self._transport.connect(host)
        elif was_live:
            self._report(f"{host} was lost: {reason}; it is given up")
        else:
            self._absent.setdefault(reason, []).append(host)
        self._go_on()

    def _go_on(self) -> None:
        """Begin what comes next, once nothing is waited for."""
        if self._is_advancing:  # a transport may call back at once
            return
        self._is_advancing = True
        while not self._is_over and not self._connecting and not any(self._pending.values()):
            self._report_absent()
            lost = [] if self._is_repeated else self._find_lost_parts()
            self._is_repeated = True
            if lost:
                self._begin(lost)
                self._report_repeat()
            else:
                self._begin_sheet(self._advance(dict(self._outputs), dict(self._failures)))
        self._is_advancing = False

    def _report_absent(self) -> None:
        """Report the hosts that take no part, by reason."""
        for reason, hosts in sorted(self._absent.items()):
            self._report(f"{fold_hosts(hosts)} {'take' if len(hosts) > 1 else 'takes'} no part: {reason}")
        self._absent = {}

    def _begin_sheet(self, sheet: SheetPlan | None) -> None:
        if sheet is None:
            self._is_over = True
            self._transport.finish()
            return
        self._title, self._rounds = sheet.title, len(sheet.rounds)
        self._outputs, self._restarted, self._is_repeated = {}, set(), False
        parts, begin = [], 0.0
        for number, plan in enumerate(sheet.rounds, start=1):
            parts.append(_Part(begin, number, plan.seconds, plan.steps))
            begin += plan.seconds
        self._begin(parts)

    def _begin(self, parts: Sequence[_Part]) -> None:
        """Send rounds to all hosts; `begin` of these is relative to the first."""
        origin = self._transport.read_clock() + self._transport.start_seconds
        self._sheet += 1
        self._parts = [part._replace(begin=origin + part.begin) for part in parts]
        self._announced, self._answered = set(), set()
        for host in sorted(self._live):
            self._send_parts(host, 0.0)
        sheet = self._sheet
        seconds = self._transport.start_seconds + sum(part.seconds for part in parts) + LATE_SECONDS
        self._transport.call_later(seconds, lambda: self._give_up(sheet))

    def _send_parts(self, host: str, earliest: float) -> None:
        """Send a host its steps in the rounds that do not begin before a time."""
        parts = [
            (index, part) for index, part in enumerate(self._parts) if part.begin >= earliest and part.steps.get(host)
        ]
        if not parts:
            return
        self._pending[host] = {index for index, _ in parts}
        first = parts[0][1].begin
        rounds = [
            {"round": index, "at": part.begin - first, "seconds": part.seconds, "steps": part.steps[host]}
            for index, part in parts
        ]
        self._transport.send(host, {"sheet": self._sheet, "in": first - self._transport.read_clock(), "rounds": rounds})

    def _announce(self, index: int) -> None:
        if index not in self._announced:
            self._announced.add(index)
            self._report(f"{self._title}: round {self._parts[index].number} of {self._rounds}")

    def _find_lost_parts(self) -> list[_Part]:
        """Return the rounds with tests that lack an answer although their hosts are there, with these tests alone."""
        lost: list[_Part] = []
        for part in self._parts:
            tests = self._find_lost_tests(part)
            steps = {
                host: [(step_id, step) for step_id, step in steps if step_id // 2 in tests]
                for host, steps in part.steps.items()
            }
            if tests:
                lost.append(_Part(sum(earlier.seconds for earlier in lost), part.number, part.seconds, steps))
        return lost

    def _find_lost_tests(self, part: _Part) -> set[int]:
        steps = [(host, step_id) for host, steps in part.steps.items() for step_id, _ in steps]
        missing = {step_id // 2 for _, step_id in steps if step_id not in self._outputs}
        return missing - {step_id // 2 for host, step_id in steps if host not in self._live}

    def _report_repeat(self) -> None:
        self._announced = set(range(len(self._parts)))
        for part in self._parts:
            tests = {step_id // 2 for steps in part.steps.values() for step_id, _ in steps}
            self._report(f"{self._title}: round {part.number} is repeated for the {len(tests)} tests that were lost")

    def _give_up(self, sheet: int) -> None:
        if sheet == self._sheet:
            for host in [host for host, rounds in self._pending.items() if rounds]:
                self._transport.abort(host, "it did not answer in time")
