"""What every exec costs before anything is attached: starting a program, an interpreter, Trackbed's executable."""

import sys
from typing import Final

from bench import spawn, trackbed_case

_VERSION: Final = b'{"cniVersion": "1.1.0"}'
_ENV: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def overheads() -> dict[str, float]:
    """Median milliseconds of each."""
    return {
        "exec of /bin/true": spawn.typical_ms(["/bin/true"], _ENV),
        "exec of an empty Python program (-I -S -E)": spawn.typical_ms([sys.executable, "-ISEc", "pass"], _ENV),
        "exec of Trackbed's executable, VERSION": spawn.typical_ms(
            trackbed_case.cni_command(), _ENV | {"CNI_COMMAND": "VERSION"}, _VERSION
        ),
    }
