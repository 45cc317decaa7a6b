"""What every exec costs before anything is attached: starting a program, an interpreter, Trackbed's executable."""

from typing import Final

from bench import spawn, trackbed_case
from bench.floor import EMPTY_PROGRAM, ENVIRONMENT

_VERSION: Final = b'{"cniVersion": "1.1.0"}'


def overheads() -> dict[str, float]:
    """Median milliseconds of each."""
    return {
        "exec of /bin/true": spawn.typical_ms(["/bin/true"], ENVIRONMENT),
        "exec of an empty Python program (-I -S -E)": spawn.typical_ms(EMPTY_PROGRAM, ENVIRONMENT),
        "exec of Trackbed's executable, VERSION": spawn.typical_ms(
            trackbed_case.cni_command(), ENVIRONMENT | {"CNI_COMMAND": "VERSION"}, _VERSION
        ),
    }
