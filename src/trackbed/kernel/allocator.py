"""Settings of the C library's allocator for programs that run for months (mallopt(3)).

glibc raises its limit for blocks that are mapped by themselves to the largest block that was freed, up to 32 MiB. A TLS
connection of asyncio has a buffer of 256 KiB, so after the first connection such buffers lie in the heap among small
blocks, which keep it from shrinking when they are freed. With a fixed limit each is mapped, and returned to the kernel
when it is freed. Threads share one arena, since Python's lock lets one allocate at a time.
"""

import ctypes

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # malloc.h
_MAPPED_BYTES = 64 << 10


def return_freed_memory() -> None:
    """Have large blocks returned to the kernel once they are freed. Call it before threads start; glibc only."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, 1)
