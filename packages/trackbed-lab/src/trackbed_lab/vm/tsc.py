"""The rate of this machine's time stamp counter, which an emulated processor passes through to its kernel.

A kernel that has to calibrate the counter itself measures for some milliseconds during boot. On a busy machine the
result can be wrong by a factor of ten: a command's limit of 240 s once passed after 19 s. The HPET has a fixed rate,
but each read costs an emulated server 13 us. So the rate is measured here between two clock reads far apart, and
passed to the kernel as an argument.
"""

import ctypes
import mmap
import platform
import time
from collections.abc import Callable
from functools import cache

_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
"""rdtsc; shl rdx, 32; or rax, rdx; ret (Intel SDM, volume 2): returns the counter."""

_SECONDS = 0.1
_TRIES = 50


@cache
def measure_khz() -> int | None:
    """Return the rate in kHz, or None on another architecture or without executable memory."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:  # SELinux: execmem
        return None
    code.write(_RDTSC)
    buffer = ctypes.c_char.from_buffer(code)
    read_counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(buffer))
    return measure_rate(read_counter)


def measure_rate(read_counter: Callable[[], int]) -> int:
    """Return the rate of a counter in kHz."""
    start, first = _sample(read_counter)
    time.sleep(_SECONDS)
    end, last = _sample(read_counter)
    return round((last - first) * 1_000_000 / (end - start))


def _sample(read_counter: Callable[[], int]) -> tuple[int, int]:
    """Return the clock (ns) and the counter at one moment: the fastest of many reads, which was not interrupted."""
    samples = []
    for _ in range(_TRIES):
        before, count, after = time.monotonic_ns(), read_counter(), time.monotonic_ns()
        samples.append((after - before, (before + after) // 2, count))
    return min(samples)[1:]
