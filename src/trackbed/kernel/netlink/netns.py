"""Network namespaces: be inside one for a moment, make one that outlives its maker, remove it (setns(2)).

The kernel keeps the network namespace for each thread, not for the process: `entered` moves the calling thread alone,
and `new` makes namespaces in a thread that ends at once. Nothing here forks.

The way back is the dangerous half: a thread stuck in a pod's namespace would configure the pod for the host. So
`entered` rehearses it first (it enters the namespace it is in), which fails harmlessly where the privilege for coming
back is missing; should the real return fail all the same, NamespaceLostError ends the program.
"""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from errno import EINVAL, ENOENT
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CLONE_NEWNET = 0x40000000
"""include/uapi/linux/sched.h."""
MS_BIND, MNT_DETACH, UMOUNT_NOFOLLOW = 4096, 2, 8
"""include/uapi/linux/mount.h and sys/mount.h."""

_libc = ctypes.CDLL(None, use_errno=True)


class NamespaceLostError(SystemExit):
    """A thread could not go back to its namespace. Going on would configure the wrong machine, so the process ends.

    It does when raised in the main thread. Who enters namespaces in a pool of threads ends the process on it, too.
    """


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def setns(descriptor: int) -> None:
    """Move the calling thread into the network namespace of `descriptor`; OSError where that is not allowed."""
    _check(_libc.setns(descriptor, CLONE_NEWNET), "setns")


def unshare() -> None:
    """Move the calling thread into a new network namespace; OSError (EPERM) where that is not allowed."""
    _check(_libc.unshare(CLONE_NEWNET), "unshare")


@contextmanager
def enter_netns(netns: Path | int | None) -> Iterator[None]:
    """Be in a network namespace (path or descriptor; None: stay); only the calling thread moves, and it comes back.

    The block must neither await nor change threads. Raises OSError, with the thread where it was and the block not run:
    there is no such namespace, or entering it or coming back from it is not allowed (EPERM).
    """
    if netns is None:
        yield
        return
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = netns if isinstance(netns, int) else -1
    try:
        if not isinstance(netns, int):
            there = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        _check(_libc.setns(home, CLONE_NEWNET), "no way back into the own network namespace")
        _check(_libc.setns(there, CLONE_NEWNET), f"cannot enter network namespace {netns}")
        try:
            yield
        finally:
            _go_home(home)
    finally:
        os.close(home)
        if there >= 0 and not isinstance(netns, int):
            os.close(there)


def _go_home(home: int) -> None:
    try:
        setns(home)
    except OSError as error:
        msg = (
            f"trackbed: cannot return to the own network namespace ({error}); stopping before the wrong one is changed"
        )
        raise NamespaceLostError(msg) from error


def read_inode(netns: Path | int) -> int:
    """The number that names a network namespace while it lives."""
    return os.fstat(netns).st_ino if isinstance(netns, int) else netns.stat().st_ino


def create(path: Path) -> None:
    """Make a network namespace and pin it at `path` by a bind mount, as `ip netns add` does.

    Raises OSError: EPERM without CAP_SYS_ADMIN over the mount namespace, EEXIST if `path` is there.
    """
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
    failures: list[OSError] = []

    def make() -> None:
        try:
            unshare()
            _check(_libc.mount(b"/proc/thread-self/ns/net", os.fsencode(path), None, MS_BIND, None), "mount")
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=make, name="netns-new")
    thread.start()
    thread.join()
    if failures:
        path.unlink()
        raise failures[0]


def delete(path: Path) -> None:
    """Unpin a network namespace; it goes once nobody uses it. Nothing to do where `path` is not there.

    Raises OSError: EPERM without CAP_SYS_ADMIN over the mount namespace.
    """
    try:
        _check(_libc.umount2(os.fsencode(path), MNT_DETACH | UMOUNT_NOFOLLOW), f"cannot unpin {path}")
    except OSError as error:
        if error.errno not in {EINVAL, ENOENT}:  # not mounted, not there
            raise
    path.unlink(missing_ok=True)
