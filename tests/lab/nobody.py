"""Starts a program as a user without any privilege, even where that user may not reach the interpreter.

A folder that is closed to others (an interpreter below /root, say) is covered, in a mount namespace of its own, by an
empty one that is open, and what the program needs of it is bound in again.

Use: python -m tests.lab.nobody PROGRAM...
"""

import ctypes
import os
import sys
from pathlib import Path

NOBODY = 65534
"""The overflow user and group (Documentation/admin-guide/sysctl/fs.rst)."""
_CLONE_NEWNS = 0x20000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Give up everything, then become the program."""
    _check(_libc.unshare(_CLONE_NEWNS))
    _check(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
    needed = {Path(where).resolve() for where in (sys.prefix, sys.base_prefix, __file__.partition("/tests/")[0])}
    for closed in {folder for folder in map(_closed_above, needed) if folder}:
        _open_up(closed, [where for where in needed if closed in where.parents])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execv(sys.argv[1], sys.argv[1:])  # noqa: S606 - the program that the test names


def _closed_above(where: Path) -> Path | None:
    return next((folder for folder in reversed(where.parents) if not folder.stat().st_mode & 1), None)


def _open_up(closed: Path, needed: list[Path]) -> None:
    held = [(os.open(where, os.O_PATH), where) for where in needed]
    _check(_libc.mount(b"open", os.fsencode(closed), b"tmpfs", 0, b"mode=0755"))
    for descriptor, where in held:
        where.mkdir(mode=0o755, parents=True)
        _check(_libc.mount(f"/proc/self/fd/{descriptor}".encode(), os.fsencode(where), None, _MS_BIND, None))
        os.close(descriptor)


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    main()
