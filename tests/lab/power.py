"""Power cuts of emulated servers."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from trackbed_lab.vm import keeper


def cut_power(folder: Path) -> None:
    """Kill the running server in this folder; its keeper boots it again."""
    state = keeper.read_state(folder)
    assert state is not None
    assert state.phase == "runs"
    assert state.pid
    (folder / keeper.CUT).touch()
    os.kill(state.pid, signal.SIGKILL)
