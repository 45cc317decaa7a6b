"""Programs within a time limit: for each, and for all together, so that a hanging tool cannot hold up a capture."""

from __future__ import annotations

import time
from collections.abc import Sequence

from trackbed.host.runner import Local, ProgramResult

PROGRAM_SECONDS = 30
"""Enough for `nvidia-smi topo -m` without its daemon."""
TOTAL_SECONDS = 120


class LimitedPrograms:
    """Runs programs on this host until the time for all of them is used up."""

    def __init__(self, program_seconds: float = PROGRAM_SECONDS, total_seconds: float = TOTAL_SECONDS) -> None:
        """Start the clock."""
        self._program_seconds = program_seconds
        self._deadline = time.monotonic() + total_seconds

    def has_program(self, program: str) -> bool:
        """Return whether the program exists."""
        return Local().has_program(program)

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Run a program; after the deadline return status 124 and start nothing."""
        seconds = min(self._program_seconds, self._deadline - time.monotonic())
        return (
            Local(seconds).run(argv) if seconds > 0 else ProgramResult(124, f"{argv[0]} was not started: no time left")
        )
