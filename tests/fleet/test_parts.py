"""Order, log, outcome and archive, each by itself."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from trackbed.fleet import archive
from trackbed.fleet.boot import CUT_SHORT, NO_PYTHON, OLD_PYTHON
from trackbed.fleet.log import LogBusyError, opened
from trackbed.fleet.order import Order, batches, follow, size_of
from trackbed.fleet.outcome import Outcome, judged
from trackbed.fleet.task import Task

NAMES = [f"n{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("batch", "total", "size"),
    [("10%", 512, 52), ("10%", 3, 1), ("100%", 7, 7), ("12", 512, 12), ("1%", 1, 1)],
)
def test_a_batch_is_a_number_or_a_share_rounded_up(batch: str, total: int, size: int) -> None:
    assert size_of(batch, total) == size


@pytest.mark.parametrize("batch", ["0", "0%", "101%", "", "-1", "ten", "1.5", "%"])
def test_a_batch_that_is_none_is_refused(batch: str) -> None:
    with pytest.raises(ValueError, match="write a number of hosts"):
        size_of(batch, 10)


def test_canaries_come_first_and_every_host_once() -> None:
    cut = batches(NAMES, Order("4", canary=1))
    assert [len(batch) for batch in cut] == [1, 4, 4, 1]
    assert [name for batch in cut for name in batch] == NAMES


@pytest.mark.parametrize(
    ("order", "failing", "done"),
    [
        (Order("2", 0, 0), set[str](), 10),
        (Order("2", 0, 0), {"n3"}, 4),
        (Order("2", 0, 1), {"n3"}, 10),
        (Order("2", 0, 1), {"n3", "n4"}, 6),
        (Order("2", 1, 9), {"n0"}, 1),
    ],
    ids=["all good", "one of none allowed", "one allowed", "one too many", "the canary, whatever is allowed"],
)
def test_no_batch_begins_after_too_many_failures(order: Order, failing: set[str], done: int) -> None:
    def do(batch: tuple[str, ...]) -> list[Outcome]:
        return [Outcome(name, "failed" if name in failing else "applied", "") for name in batch]

    assert sum(len(batch) for batch, begun in follow(NAMES, order, do) if begun) == done


@pytest.mark.parametrize(
    ("status", "said", "errors", "kind"),
    [
        (0, ["Welcome", "trackbed began", 'trackbed {"outcome": "same"}'], [], "same"),
        (0, ["trackbed began", "trackbed {torn"], [], "garbled"),
        (None, [], [], "timeout"),
        (None, ["trackbed began"], [], "timeout"),
        (137, ["trackbed began"], [], "died"),
        (255, ["trackbed began"], ["Connection closed"], "died"),
        (255, [], ["Connection refused"], "unreachable"),
        (NO_PYTHON, [], [], "no-python"),
        (OLD_PYTHON, [], [], "no-python"),
        (CUT_SHORT, [], [], "cut-short"),
        (1, [], ["sudo: a password is required"], "no-sudo"),
        (1, [], ["/bin/sh: oops"], "failed"),
    ],
)
def test_what_a_host_said_is_judged(status: int | None, said: list[str], errors: list[str], kind: str) -> None:
    outcome = judged("n1", status, said, errors)
    assert (outcome.kind, "\n" in outcome.told, bool(outcome.told)) == (kind, False, True)


def _task(name: str, persist: str = "auto") -> Task:
    return Task("apply", name, {}, {}, persist, 60)


def test_a_log_with_a_torn_line_remembers_who_is_done_with_the_same_request(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with opened(path, resume=False) as log:
        log.write(_task("n1"), Outcome("n1", "applied", ""))
        log.write(_task("n2"), Outcome("n2", "died", ""))
    with path.open("a") as stream:
        stream.write('{"node": "n3", "ki')
    with opened(path, resume=True) as log:
        found = [log.has(_task("n1")), log.has(_task("n2")), log.has(_task("n3")), log.has(_task("n1", "none"))]
        log.write(_task("n3"), Outcome("n3", "applied", ""))
    assert found == [True, False, False, False]
    with opened(path, resume=True) as log:
        assert log.has(_task("n3"))


def test_one_run_at_a_time_writes_a_log(tmp_path: Path) -> None:
    with opened(tmp_path / "log", resume=False), pytest.raises(LogBusyError, match="another run writes"):
        opened(tmp_path / "log", resume=True).__enter__()


@pytest.mark.parametrize("name", archive.modules())
def test_what_is_sent_imports_the_standard_library_and_what_is_sent(name: str) -> None:
    others = archive.imports(name) - archive.modules().keys()
    assert {other.partition(".")[0] for other in others} <= sys.stdlib_module_names


@pytest.mark.parametrize("name", archive.modules())
def test_what_is_sent_has_the_grammar_of_the_oldest_python(name: str) -> None:
    assert ast.parse(archive.modules()[name].read_bytes(), feature_version=archive.OLDEST).body is not None
