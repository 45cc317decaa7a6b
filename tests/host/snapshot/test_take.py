from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.snapshot.take import read_snapshot


class Together:
    """A runner whose programs end only when as many as `parties` run at the same time."""

    def __init__(self, parties: int) -> None:
        """Wait for this many."""
        self.barrier = threading.Barrier(parties, timeout=10)

    def has_program(self, program: str) -> bool:
        """Everything but one."""
        return program != "absent"

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Ends when the others run, too."""
        self.barrier.wait()
        return ProgramResult(0, argv[0])


def test_programs_run_side_by_side_and_are_told_in_the_order_asked(tmp_path: Path) -> None:
    names = [f"program{number}" for number in range(8, 0, -1)]
    wanted = Wanted(commands=tuple((name,) for name in (*names, "absent")))
    snapshot = read_snapshot(Machine(tmp_path, runner=Together(len(names))), wanted)
    assert list(snapshot.outputs) == [(name,) for name in names]
    assert [snapshot.get_output(name) for name in names] == names
