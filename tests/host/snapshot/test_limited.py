from __future__ import annotations

import time

import pytest

from trackbed.host.snapshot.limited import LimitedPrograms

pytestmark = pytest.mark.needs("processes")

HANGS = ("tail", "-f", "/dev/null")


def test_a_program_that_hangs_is_ended() -> None:
    begun = time.monotonic()
    result = LimitedPrograms(program_seconds=0.2).run(HANGS)
    assert (result.status, "tail took more than 0" in result.output) == (124, True)
    assert time.monotonic() - begun < 10


def test_programs_together_get_no_more_than_their_time() -> None:
    programs = LimitedPrograms(total_seconds=0.2)
    assert programs.run(HANGS).status == 124
    result = programs.run(("uname",))
    assert (result.status, result.output) == (124, "uname was not started: no time left")


def test_a_program_within_its_time_runs() -> None:
    programs = LimitedPrograms()
    assert (programs.has_program("uname"), programs.has_program("no-such-program")) == (True, False)
    assert programs.run(("uname",)).output == "Linux\n"
