import os
from pathlib import Path

import pytest

from trackbed.host import runner
from trackbed.host.change import Change, Run
from trackbed.host.machine import Absent, Machine
from trackbed.host.runner import Local, ProgramResult
from trackbed.host.transaction.perform import OperationError, perform_operation

CHANGE = Change(None, "cmdline", None, "kernel arguments", "a", "b", "change", ())


@pytest.mark.needs("processes")
def test_a_program_runs_without_input_and_all_it_says_is_kept() -> None:
    assert Local().run(("sh", "-c", "cat; echo out; echo err >&2; exit 3")) == ProgramResult(3, "out\nerr\n")


@pytest.mark.needs("processes")
@pytest.mark.parametrize("ends", ["", "trap '' TERM; "], ids=["at SIGTERM", "at SIGKILL"])
def test_nothing_that_a_program_started_goes_on_after_its_limit(
    tmp_path: Path, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_END_SECONDS", 0.2)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ran = Local(2).run(("sh", "-c", f"{ends}( exec >{fifo}; while :; do sleep 1; done ) & echo out; wait"))
        assert (ran.status, ran.output) == (124, "sh took more than 2 s: out\n")
        assert os.read(reader, 1) == b"", "nobody has the other end open"
    finally:
        os.close(reader)


def test_only_programs_in_the_usual_folders_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "trackbed-test-program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (Local().has_program("trackbed-test-program"), Local().has_program("sh")) == (False, True)


def test_nothing_of_a_foreign_root_is_started(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    assert machine.has_program("sh") is False
    assert machine.run(("sh", "-c", "exit 0")) == Absent()


def test_a_program_that_is_not_there_is_refused_with_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(
        OperationError, match="there is no update-grub to run on this machine; run by hand: update-grub"
    ):
        perform_operation(Machine(tmp_path), CHANGE, Run(("update-grub",)))


@pytest.mark.needs("processes")
def test_a_program_that_fails_is_told_with_its_last_words() -> None:
    with pytest.raises(OperationError, match="failed with status 2: b / c / d"):
        perform_operation(Machine(Path("/")), CHANGE, Run(("sh", "-c", "for w in a b c d; do echo $w; done; exit 2")))
