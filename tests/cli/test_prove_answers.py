"""The file of `trackbed prove --answers`: what is read of it, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.prove.hosts import build_plan
from trackbed.cli.prove_answers import AnswerFile, open_answers, read_former_runs
from trackbed.prove.kept import KeptTest, list_keys
from trackbed.prove.proof import prove
from trackbed.prove.sheets import Answers, Sheet

PLAN = build_plan(4)
RUNGS = ("ping",)


def find_sheet() -> Sheet:
    """Return the first sheet with tests."""
    run = prove(PLAN, "screen", RUNGS)
    next(run)
    return run.send(Answers({}, {}))


SHEET = find_sheet()
KEYS = list_keys(SHEET)


class KilledError(Exception):
    """Stands for a kill: the block does not end well."""


def run_once(file: Path, work: Callable[[AnswerFile], None], rungs: tuple[str, ...] = RUNGS) -> AnswerFile:
    """Open the file, begin a sheet, work, and be killed."""
    with pytest.raises(KilledError), open_answers(file, PLAN, "screen", rungs, ("hosts",)) as answers:  # noqa: PT012 - a kill comes in the middle
        answers.begin_sheet(SHEET)
        work(answers)
        raise KilledError
    return answers


def test_what_a_killed_run_kept_is_there_and_what_has_one_end_is_not(tmp_path: Path) -> None:
    def answer(answers: AnswerFile) -> None:
        answers.keep(2, 0, {"pings": [1]})
        answers.keep(2, 1, {"pings": [2]})
        answers.keep(2, 2, {"pings": [3]})

    first = run_once(tmp_path / "a", answer)
    second = run_once(tmp_path / "a", lambda _: None)
    assert second.kept == {KEYS[0]: ({"pings": [1]}, {"pings": [2]})}
    assert (first.begun, list(second.former_runs)) == ("", [first.run_name])
    assert second.begun
    assert read_former_runs(tmp_path / "a") == [first.run_name, second.run_name]


def test_a_file_without_runs_or_none_has_no_former_runs(tmp_path: Path) -> None:
    (tmp_path / "torn").write_text('{"run": "proof-1", "proof"\n{"run": ["proof-1"]}\n')
    assert [read_former_runs(path) for path in (None, tmp_path / "absent", tmp_path / "torn")] == [[], [], []]


@pytest.mark.parametrize("is_other_run", [False, True])
def test_ends_of_two_tries_are_no_test(tmp_path: Path, is_other_run: bool) -> None:
    run_once(tmp_path / "a", lambda answers: answers.keep(2, 0, "early"))
    if is_other_run:
        run_once(tmp_path / "a", lambda answers: answers.keep(2, 1, "late"))
    else:
        text = (tmp_path / "a").read_text()
        late = {**json.loads(text.splitlines()[-1]), "side": 1, "try": 3}
        (tmp_path / "a").write_text(f"{text}{json.dumps(late)}\n")
    assert run_once(tmp_path / "a", lambda _: None).kept == {}


def test_a_torn_line_is_ignored_and_the_next_begins_a_line(tmp_path: Path) -> None:
    def answer(answers: AnswerFile) -> None:
        answers.keep(2, 0, "a")
        answers.keep(2, 1, "b")

    run_once(tmp_path / "a", answer)
    with (tmp_path / "a").open("ab") as stream:
        stream.write(b'{"sheet": "ping", "num')
    assert run_once(tmp_path / "a", lambda _: None).kept.keys() == {KEYS[0]}
    assert run_once(tmp_path / "a", lambda _: None).kept.keys() == {KEYS[0]}


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"7",
        b"{}",
        b'{"sheet": [], "number": 0, "path": "", "side": 0, "try": 1, "output": 1}',
        b"[" * 9999,
        b"\xff",
    ],
    ids=["list", "number", "empty", "unhashable", "deep", "binary"],
)
def test_a_line_of_nonsense_is_ignored(tmp_path: Path, line: bytes) -> None:
    run_once(tmp_path / "a", lambda _: None)
    with (tmp_path / "a").open("ab") as stream:
        stream.write(line + b"\n")
    assert run_once(tmp_path / "a", lambda _: None).kept == {}


def test_a_file_of_something_else_is_refused_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text("apiVersion: v1\n")
    with pytest.raises(SystemExit, match="2"):
        run_once(file, lambda _: None)
    assert "is not a file of answers, and stays as it is" in capsys.readouterr().err
    assert file.read_text() == "apiVersion: v1\n"


def test_a_file_of_another_proof_is_refused_and_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_once(tmp_path / "a", lambda _: None)
    text = (tmp_path / "a").read_text()
    with pytest.raises(SystemExit, match="2"):
        run_once(tmp_path / "a", lambda _: None, ("ping", "gid"))
    assert "is of another proof" in capsys.readouterr().err
    assert (tmp_path / "a").read_text() == text


def test_a_file_that_another_proof_writes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def open_again(_: AnswerFile) -> None:
        with pytest.raises(SystemExit, match="2"):
            run_once(tmp_path / "a", lambda _: None)

    run_once(tmp_path / "a", open_again)
    assert "another proof writes" in capsys.readouterr().err


def test_a_proof_that_ends_removes_its_file(tmp_path: Path) -> None:
    with open_answers(tmp_path / "a", PLAN, "screen", RUNGS, ("hosts",)):
        assert (tmp_path / "a").exists()
    assert not (tmp_path / "a").exists()


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_once(tmp_path / "none" / "a", lambda _: None)
    assert "cannot keep answers in" in capsys.readouterr().err


def test_a_full_disk_ends_the_keeping_and_not_the_proof(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("ab") as stream:
        answers = AnswerFile(stream=stream)
        answers.begin_sheet(SHEET)
        answers.keep(2, 0, "a")
        answers.keep(2, 1, "b")
    assert capsys.readouterr().err.count("no more answers are kept: No space left on device") == 1


def test_an_answer_that_is_too_deep_to_write_does_not_end_the_proof(tmp_path: Path) -> None:
    """A node may answer anything that can be read."""
    nested: object = "bottom"
    for _ in range(5000):
        nested = [nested]

    def answer(answers: AnswerFile) -> None:
        answers.keep(2, 0, nested)
        answers.keep(2, 2, "a")
        answers.keep(2, 3, "b")

    run_once(tmp_path / "a", answer)
    assert run_once(tmp_path / "a", lambda _: None).kept == {KEYS[1]: ("a", "b")}


def test_answers_of_no_test_are_not_kept(tmp_path: Path) -> None:
    run_once(tmp_path / "a", lambda answers: answers.keep(1, 999_999, "files"))
    assert len((tmp_path / "a").read_text().splitlines()) == 1
    assert isinstance(KEYS[0], KeptTest)
