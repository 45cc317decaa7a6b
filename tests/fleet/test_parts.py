"""Order, log, outcome, archive and stand-in, each by itself."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import msgspec
import pytest

from trackbed.fleet import archive, standin
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


def test_the_archive_needs_no_library_but_those_it_stands_for() -> None:
    found = {other.partition(".")[0] for name in archive.modules() for other in archive.imports(name)}
    assert found - sys.stdlib_module_names - {"trackbed"} == {archive.FOREIGN}


@pytest.mark.parametrize("name", [*archive.modules(), archive.STANDIN])
def test_what_is_sent_has_the_grammar_of_the_oldest_python(name: str) -> None:
    place = archive.modules().get(name) or Path(standin.__file__)
    assert ast.parse(place.read_bytes(), feature_version=archive.OLDEST).body is not None


class Real(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A record."""

    an_int: int
    raw_bytes: bytes
    some: tuple[int, ...] = ()
    maybe: str | None = None


class Stand(standin.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A record."""

    an_int: int
    raw_bytes: bytes
    some: tuple[int, ...] = ()
    maybe: str | None = None


ROWS = [(1, b"\x00\xff"), (2, b"", (3, 4)), (0, b"x", (), "y")]


@pytest.mark.parametrize("row", ROWS)
def test_the_stand_in_writes_and_reads_what_msgspec_does(row: tuple[object, ...]) -> None:
    written = msgspec.json.encode(Real(*row))  # type: ignore[arg-type] # rows of either
    assert json.loads(standin.json.encode(Stand(*row))) == json.loads(written)
    assert standin.json.decode(written, type=Stand) == Stand(*row)


BAD = [b"{", b'{"anInt": "1", "rawBytes": ""}', b'{"anInt": 1}', b'{"anInt": 1, "rawBytes": "%"}']


@pytest.mark.parametrize("raw", BAD)
def test_the_stand_in_refuses_what_msgspec_refuses(raw: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        msgspec.json.decode(raw, type=Real)
    with pytest.raises(standin.MsgspecError):
        standin.json.decode(raw, type=Stand)


def test_what_is_sent_uses_nothing_of_msgspec_that_its_stand_in_lacks() -> None:
    used = set()
    for path in archive.modules().values():
        for one in ast.walk(ast.parse(path.read_text())):
            words = ast.unparse(one).split(".") if isinstance(one, ast.Attribute) else []
            if words[:1] == ["msgspec"] and all(word.isidentifier() for word in words):
                used.add(tuple(words[1:]))
    assert ("json", "decode") in used
    for name in used:
        place: object = standin
        for word in name:
            assert hasattr(place, word), ".".join(name)
            place = getattr(place, word)


@pytest.mark.parametrize("document", [{}, [], {"a": [], "b": {}}, {"a": [1, {"b": None}], "ü": "ß\n\u2028"}, "text", 7])
def test_json_is_laid_out_as_msgspec_lays_it_out(document: object) -> None:
    raw = msgspec.json.encode(document)
    assert standin.json.format(raw, indent=1) == msgspec.json.format(raw, indent=1)
