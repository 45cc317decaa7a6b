"""Memory that a daemon has freed goes back to the kernel; without the settings it would stay."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.needs("processes")

BUFFERS = 100
BUFFER_KIB = 256

PROGRAM = f"""
import sys
if sys.argv[1] == "set":
    from trackbed.kernel.allocator import return_freed_memory
    return_freed_memory()

def read_private_kib():
    with open("/proc/self/smaps_rollup") as lines:
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))

def open_connections(count):  # a buffer as a TLS connection of asyncio has it, and small things that stay
    return [(bytearray({BUFFER_KIB} << 10), bytearray(1000)) for _ in range(count)]

kept = [entry for _, entry in open_connections(1)]
before = read_private_kib()
connections = open_connections({BUFFERS})
kept += [entry for _, entry in connections]
del connections
print(read_private_kib() - before)
"""


def measure_left(settings: str) -> int:
    """Return the KiB that remain when all connections are closed."""
    command = [sys.executable, "-c", PROGRAM, settings]
    return int(subprocess.run(command, check=True, capture_output=True, timeout=60).stdout)


def test_the_buffers_of_closed_connections_are_returned() -> None:
    assert measure_left("set") < BUFFERS * BUFFER_KIB / 10


@pytest.mark.may_skip("only glibc keeps them otherwise")
def test_without_the_settings_they_stay() -> None:
    if measure_left("unset") < BUFFERS * BUFFER_KIB / 2:
        pytest.skip("this C library returns memory by itself")
