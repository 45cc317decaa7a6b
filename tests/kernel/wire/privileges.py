"""Execution without CAP_NET_RAW, in a thread that drops the capability and ends."""

import ctypes
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_VERSION_3 = 0x20080522  # include/uapi/linux/capability.h
_CAP_NET_RAW = 13
_DATA = struct.Struct("6I")  # effective, permitted, inheritable of capabilities 0-31, then of 32-63

_Result = TypeVar("_Result")


def without_raw_sockets(work: Callable[[], _Result]) -> _Result:
    """Return the result of `work` (or raise its error) from a thread whose effective capabilities lack CAP_NET_RAW."""
    with ThreadPoolExecutor(max_workers=1, initializer=_drop_cap_net_raw) as pool:
        return pool.submit(work).result(timeout=10)


def _drop_cap_net_raw() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = struct.pack("Ii", _VERSION_3, 0), ctypes.create_string_buffer(_DATA.size)
    _check_result(libc.capget(header, data))
    effective, *others = _DATA.unpack(data.raw)
    _check_result(libc.capset(header, _DATA.pack(effective & ~(1 << _CAP_NET_RAW), *others)))


def _check_result(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
