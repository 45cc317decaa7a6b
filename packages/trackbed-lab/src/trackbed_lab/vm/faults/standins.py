"""Processes that stand for services which an emulated server lacks: /proc shows their names and limits, they only wait.

A sleeping program under another name is what checks see of containerd or slurmd, which look at no more than its name,
arguments and limits. The sound server has none of them, so the same stand-in with right limits is sound too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trackbed_lab.vm.faults.fault import FaultyServer

_FOLDER = Path("/run/trackbed-lab/standins")
_LIFE_SECONDS = "3600"


def start_standin(name: str, *limits: str) -> None:
    """Start a stand-in of this name under limits of prlimit(1), as `--nofile=1048576`; it outlives this process."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    program = _FOLDER / name
    if not program.exists():
        shutil.copy("/bin/sleep", program)
    words = ["prlimit", "--memlock=unlimited", "--stack=8388608", "--nofile=1048576", *limits, str(program)]
    quiet = subprocess.DEVNULL
    made = subprocess.Popen(  # noqa: S603 - the lab's own words
        [*words, _LIFE_SECONDS], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    (_FOLDER / f"{name}.pid").write_text(str(made.pid))


def stop_standin(server: FaultyServer, name: str) -> None:
    """End the stand-in, and put files back."""
    place = _FOLDER / f"{name}.pid"
    with suppress(OSError, ValueError):
        number = int(place.read_text())
        os.kill(number, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(number, 0)
    place.unlink(missing_ok=True)
    server.restore()
