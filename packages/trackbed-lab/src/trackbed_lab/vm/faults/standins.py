"""Stand-in processes for services that an emulated server lacks.

Checks look at a service's name, arguments and limits in /proc. A sleeping program under the name of containerd or
slurmd has all of these. Doctor finds nothing while no stand-in runs, nor while one runs under the required limits.
"""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

from trackbed_lab.vm.faults.fault import FaultyServer

_FOLDER = Path("/run/trackbed-lab/standins")
_LIFE_SECONDS = "3600"


def start_standin(name: str, *limits: str) -> None:
    """Start a stand-in under limits of prlimit(1), such as `--nofile=1048576`; it outlives this process."""
    _FOLDER.mkdir(parents=True, exist_ok=True)
    program = _FOLDER / name
    if not program.exists():
        shutil.copy("/bin/sleep", program)
    argv = ["prlimit", "--memlock=unlimited", "--stack=8388608", "--nofile=1048576", *limits, str(program)]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(  # noqa: S603 - the lab's own arguments
        [*argv, _LIFE_SECONDS], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    (_FOLDER / f"{name}.pid").write_text(str(process.pid))


def stop_standin(server: FaultyServer, name: str) -> None:
    """Kill a stand-in, if it runs, and restore files."""
    pid_file = _FOLDER / f"{name}.pid"
    with suppress(OSError, ValueError):
        pid = int(pid_file.read_text())
        os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    pid_file.unlink(missing_ok=True)
    server.restore_saved_files()
