"""Rounds on many hosts, with a transport that loses what a test says: what is repeated, given up, and never lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from trackbed.fleet.sheet_run import LATE_SECONDS, MOST_RESTARTS, SheetCalls, SheetRun

STEP: dict[str, Any] = {"pings": []}


class Round(NamedTuple):
    """A round of a sheet."""

    seconds: float
    steps: Mapping[str, Sequence[tuple[int, Mapping[str, Any]]]]


class Sheet(NamedTuple):
    """A sheet."""

    title: str
    rounds: Sequence[Round]


def build_round(*pairs: tuple[str, str], first: int = 0) -> Round:
    """Return a round of tests between pairs of hosts, numbered from `first` on."""
    steps: dict[str, list[tuple[int, Mapping[str, Any]]]] = {}
    for number, pair in enumerate(pairs, start=first):
        for side, host in enumerate(pair):
            steps.setdefault(host, []).append((2 * number + side, STEP))
    return Round(4.0, steps)


@dataclass
class Line:
    """Workers whose lines and deaths a test decides."""

    clock: float = 100.0
    start_seconds: float = 1.0
    sent: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    connected: list[str] = field(default_factory=list)
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    aborted: list[str] = field(default_factory=list)
    is_finished: bool = False

    def connect(self, host: str) -> None:
        """Note the host."""
        self.connected.append(host)

    def send(self, host: str, document: Mapping[str, Any]) -> None:
        """Note the line."""
        self.sent.append((host, document))

    def abort(self, host: str, reason: str) -> None:
        """Note the reason."""
        self.aborted.append(f"{host}: {reason}")

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Note the timer."""
        self.timers.append((seconds, callback))

    def read_clock(self) -> float:
        """Return the test's time."""
        return self.clock

    def finish(self) -> None:
        """Note the end."""
        self.is_finished = True


@dataclass
class Case:
    """A run of sheets, and what came of each."""

    sheets: list[Sheet]
    hosts: Sequence[str] = ("a", "b", "c", "d")
    line: Line = field(default_factory=Line)
    events: list[str] = field(default_factory=list)
    answers: list[tuple[Mapping[int, Any], Mapping[str, str]]] = field(default_factory=list)
    kept: list[tuple[int, int, object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.run = SheetRun(self.hosts, self.line, SheetCalls(self._advance, self.events.append, self._keep))
        self.run.start()

    def _advance(self, outputs: Mapping[int, Any], failures: Mapping[str, str]) -> Sheet | None:
        self.answers.append((outputs, failures))
        return self.sheets[len(self.answers) - 1] if len(self.answers) <= len(self.sheets) else None

    def _keep(self, attempt: int, step_id: int, output: object) -> None:
        self.kept.append((attempt, step_id, output))

    def begin(self, *hosts: str) -> None:
        """Let workers begin."""
        for host in hosts:
            self.run.handle_begin(host)

    def take_sent(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Return the lines that were sent since the last call."""
        sent, self.line.sent = self.line.sent, []
        return sent

    def answer(self, sent: Sequence[tuple[str, Mapping[str, Any]]], rounds: Sequence[int] = range(9)) -> None:
        """Answer all steps of these rounds."""
        for host, document in sent:
            for part in document["rounds"]:
                if part["round"] in rounds:
                    place = {"sheet": document["sheet"], "round": part["round"]}
                    for step_id, _ in part["steps"]:
                        self.run.handle_message(host, {**place, "id": step_id, "output": f"{host}{step_id}"})
                    self.run.handle_message(host, {**place, "done": True})


TWO_ROUNDS = Sheet("ping", [build_round(("a", "b"), ("c", "d")), build_round(("a", "c"), ("b", "d"), first=2)])


def test_a_sheet_goes_to_all_hosts_once_each_has_begun_or_is_lost() -> None:
    case = Case([TWO_ROUNDS])
    case.begin("a", "b", "c")
    assert case.line.sent == []
    case.run.handle_close("d", "refused")
    assert [
        (host, document["in"], [part["at"] for part in document["rounds"]]) for host, document in case.line.sent
    ] == [(host, 1.0, [0.0, 4.0]) for host in "abc"]
    assert case.events == ["d takes no part: refused"]
    assert case.line.connected == ["a", "b", "c", "d"]  # it never began, so it is not started again


def test_hosts_that_take_no_part_are_told_in_a_line_for_each_reason() -> None:
    case = Case([TWO_ROUNDS])
    case.run.handle_close("c", "refused")
    case.begin("b")
    case.run.handle_close("d", "no route")
    assert case.events == []
    case.run.handle_close("a", "refused")
    assert case.events == ["d takes no part: no route", "a,c take no part: refused"]


def test_answers_of_all_rounds_end_a_sheet_and_the_last_one_ends_the_workers() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    case.answer(case.take_sent())
    assert case.answers[1] == ({number: f"{host}{number}" for number, host in enumerate("abcdacbd")}, {})
    assert case.line.is_finished
    assert case.events == ["ping: round 1 of 2", "ping: round 2 of 2"]


def test_a_worker_that_dies_in_a_round_costs_that_round_alone() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    sent = case.take_sent()
    case.run.handle_close("a", "killed")
    case.line.clock += 3.0
    case.begin("a")
    late = case.take_sent()
    assert [(host, [part["round"] for part in document["rounds"]]) for host, document in late] == [("a", [1])]
    case.answer([entry for entry in sent if entry[0] != "a"])
    case.answer(late)
    repeated = case.take_sent()
    assert {
        host: [step_id for part in document["rounds"] for step_id, _ in part["steps"]] for host, document in repeated
    } == {
        "a": [0],
        "b": [1],
    }
    case.answer(repeated)
    assert (len(case.answers[1][0]), case.answers[1][1]) == (8, {})
    assert case.events[-1] == "ping: round 1 is repeated for the 1 tests that were lost"
    assert [(attempt, step_id) for attempt, step_id, _ in case.kept if step_id < 2] == [(1, 1), (2, 0), (2, 1)]


def test_a_worker_that_does_not_come_back_is_told_with_its_reason_and_nothing_is_repeated() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    sent = case.take_sent()
    case.run.handle_close("a", "killed")
    case.run.handle_close("a", "no route")
    case.answer([entry for entry in sent if entry[0] != "a"])
    outputs, failures = case.answers[1]
    assert (sorted(outputs), failures) == ([1, 2, 3, 5, 6, 7], {"a": "no route"})


def test_a_worker_that_dies_in_sheet_after_sheet_holds_up_the_others_no_more_than_twice() -> None:
    case = Case([TWO_ROUNDS] * 4)
    case.begin(*"abcd")
    for _ in range(4):
        sent, before = case.take_sent(), len(case.line.connected)
        if "a" in {host for host, _ in sent}:
            case.run.handle_close("a", "killed")
            case.begin(*case.line.connected[before:])
        case.answer([entry for entry in sent if entry[0] != "a"] + case.take_sent())
    assert case.line.connected == ["a", "b", "c", "d", *["a"] * MOST_RESTARTS]
    assert case.line.is_finished
    assert [event for event in case.events if "lost:" in event] == [
        *["a was lost: killed; its worker is started again"] * MOST_RESTARTS,
        "a was lost: killed; it is given up",
    ]


def test_a_host_that_does_not_answer_is_given_up_once_the_sheet_is_over() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    case.answer([entry for entry in case.take_sent() if entry[0] != "d"])
    seconds, give_up = case.line.timers[0]
    assert seconds == 1.0 + 8 + LATE_SECONDS
    give_up()
    assert case.line.aborted == ["d: it did not answer in time"]


def test_a_repeat_that_is_lost_again_is_not_repeated_again() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    sent = case.take_sent()
    for host, document in sent:
        for part in document["rounds"]:
            case.run.handle_message(host, {"sheet": document["sheet"], "round": part["round"], "done": True})
    repeated = case.take_sent()
    assert len(repeated) == 4
    for host, document in repeated:
        for part in document["rounds"]:
            case.run.handle_message(host, {"sheet": document["sheet"], "round": part["round"], "done": True})
    assert case.answers[1] == ({}, {})


def test_a_step_is_answered_once() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    for number in range(1000):
        case.run.handle_message("a", {"sheet": 1, "round": 0, "id": 0, "output": number})
    assert case.kept == [(1, 0, 0)]
    case.answer(case.take_sent())
    assert case.answers[1][0][0] == 0


def test_lines_of_other_sheets_rounds_hosts_and_shapes_are_ignored() -> None:
    case = Case([TWO_ROUNDS])
    case.begin(*"abcd")
    for document in (
        {"sheet": 9, "round": 0, "id": 0, "output": 1},
        {"sheet": 1, "round": 7, "id": 0, "output": 1},
        {"sheet": 1, "round": 0, "id": 1, "output": 1},
        {"sheet": 1, "round": [], "id": 0},
        {"sheet": 1, "round": 0, "id": {}},
        {},
    ):
        case.run.handle_message("a", document)
    case.answer(case.take_sent())
    assert case.answers[1][0] == {number: f"{host}{number}" for number, host in enumerate("abcdacbd")}


@given(st.data())
def test_a_run_ends_whatever_is_lost_and_keeps_only_what_was_answered(data: st.DataObject) -> None:
    case = Case([TWO_ROUNDS, TWO_ROUNDS])
    connecting, live, lines = list(case.line.connected), set[str](), list[tuple[str, Mapping[str, Any]]]()
    for _ in range(60):
        case.line.clock += data.draw(st.sampled_from([0.0, 0.5, 3.0]), "seconds")
        events = [*connecting, *sorted(live)]
        if case.line.is_finished or not events:
            break
        host = data.draw(st.sampled_from(events), "host")
        known = len(case.line.connected)
        if host in connecting:
            connecting.remove(host)
            if data.draw(st.booleans(), "begins"):
                live.add(host)
                case.begin(host)
            else:
                case.run.handle_close(host, "refused")
        elif data.draw(st.integers(0, 3), "dies") == 0:
            live.discard(host)
            case.run.handle_close(host, "killed")
        else:
            lines += case.take_sent()
            case.answer([line for line in lines if line[0] == host], data.draw(st.sampled_from([[0], [1], [0, 1]])))
        connecting += case.line.connected[known:]
    while not case.line.is_finished and (connecting or live):  # the end of time: whoever is silent is given up
        known = len(case.line.connected)
        case.run.handle_close(connecting.pop() if connecting else live.pop(), "late")
        connecting += case.line.connected[known:]
    assert case.line.is_finished
    assert len(case.answers) == 3
    for outputs, _ in case.answers[1:]:
        assert outputs == {number: f"{'abcdacbd'[number]}{number}" for number in outputs}
