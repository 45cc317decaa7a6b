"""Private namespaces of this process, by calls that Python 3.11 lacks (unshare(2), mount(2), prctl(2))."""

import ctypes
import os
import signal
from pathlib import Path
from typing import Final

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWNET: Final = 0x4000_0000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x4_0000
PR_SET_PDEATHSIG: Final = 1

_LIBC = ctypes.CDLL(None, use_errno=True)


def enter_namespaces() -> None:
    """Move this process into a private network, mount and, unless root, user namespace.

    Call it while the process has a single thread. /sys is mounted anew, so that it shows the new network namespace.
    /run is mounted anew, so that files written there (an agent's CDI files) reach no runtime of this machine.
    Raises OSError if the kernel refuses a call.
    """
    uid, gid = os.geteuid(), os.getegid()
    _check(_LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS | (CLONE_NEWUSER if uid else 0)), "unshare")
    if uid:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    _check(_LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount / private")
    _check(_LIBC.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount /sys")
    _check(_LIBC.mount(b"tmpfs", os.path.realpath(b"/var/run"), b"tmpfs", 0, None), "mount /run")


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that started it ends; for `preexec_fn`."""
    _check(_LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "prctl")


def _check(result: int, call: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
