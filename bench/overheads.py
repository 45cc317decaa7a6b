"""The cost of an exec without work: of a program, an interpreter, Trackbed's executable."""

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
    """Return the median milliseconds of each exec."""
    with tempfile.TemporaryDirectory(prefix="trackbed-bench-") as folder:
        built, python = trackbed_case.executables(Path(folder))
        return {
            "exec of /bin/true": spawn.measure_median_ms(NOTHING, ENVIRONMENT),
            "exec of an empty Python program (-I -S -E)": spawn.measure_median_ms(_EMPTY, ENVIRONMENT),
            "exec of Trackbed's executable, VERSION": _version(built),
            "exec of Trackbed's executable in Python, VERSION": _version(python),
        }


def _version(executable: Path) -> float:
    return spawn.measure_median_ms([str(executable)], ENVIRONMENT | {"CNI_COMMAND": "VERSION"}, _VERSION)
