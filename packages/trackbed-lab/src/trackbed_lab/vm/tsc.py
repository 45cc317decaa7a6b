"""The rate of this machine's time stamp counter, which an emulated processor hands through to its kernel as it is.

A kernel that must find it out itself counts for some milliseconds while it boots, and on a busy machine can be ten
times wrong: a command's 240 s were once over after 19. The HPET's rate is fixed, but each look at it costs an emulated
server 13 us. So the rate is measured here, between two looks at the clock far apart, and told to the kernel.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import time
from collections.abc import Callable
from functools import cache

_RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
"""rdtsc; shl rdx, 32; or rax, rdx; ret (Intel SDM, volume 2): the counter as the function's result."""

_SECONDS = 0.1
_TRIES = 50


@cache
def measure_khz() -> int | None:
    """The rate in kHz; None where it cannot be had: on another architecture, without executable memory."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:  # SELinux: execmem
        return None
    code.write(_RDTSC)
    place = ctypes.c_char.from_buffer(code)
    count = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(place))
    return measure_rate(count)


def measure_rate(count: Callable[[], int]) -> int:
    """The rate of a counter in kHz."""
    began, first = _both(count)
    time.sleep(_SECONDS)
    ended, last = _both(count)
    return round((last - first) * 1_000_000 / (ended - began))


def _both(count: Callable[[], int]) -> tuple[int, int]:
    """Clock (ns) and counter at one moment: the pair of many that was looked at fastest, so not interrupted."""
    found = []
    for _ in range(_TRIES):
        before, counted, after = time.monotonic_ns(), count(), time.monotonic_ns()
        found.append((after - before, (before + after) // 2, counted))
    return min(found)[1:]
