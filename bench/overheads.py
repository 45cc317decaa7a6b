"""What every exec costs before anything is attached: starting a program, an interpreter, Trackbed's executable."""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench import spawn, trackbed_case
from bench.floor import ENVIRONMENT, NOTHING

_EMPTY: Final = (os.path.realpath(sys.executable), "-ISEc", "pass")
_VERSION: Final = b'{"cniVersion": "1.1.0"}'


def overheads() -> dict[str, float]:
    """Median milliseconds of each."""
    with tempfile.TemporaryDirectory(prefix="trackbed-bench-") as folder:
        built, python = trackbed_case.executables(Path(folder))
        return {
            "exec of /bin/true": spawn.typical_ms(NOTHING, ENVIRONMENT),
            "exec of an empty Python program (-I -S -E)": spawn.typical_ms(_EMPTY, ENVIRONMENT),
            "exec of Trackbed's executable, VERSION": _version(built),
            "exec of Trackbed's executable in Python, VERSION": _version(python),
        }


def _version(executable: Path) -> float:
    return spawn.typical_ms([str(executable)], ENVIRONMENT | {"CNI_COMMAND": "VERSION"}, _VERSION)
