"""Network namespaces: enter, create and delete them (setns(2)).

The kernel keeps the network namespace per thread, not per process. `enter_netns` moves the calling thread only, and
`create_netns` creates namespaces in a thread that ends immediately. Nothing here forks.

Returning is the dangerous part: a thread stuck in a pod's namespace would configure the pod instead of the host. So
`enter_netns` first re-enters the current namespace, which fails harmlessly if the process may not return later. If the
actual return fails nevertheless, NamespaceLostError ends the program.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EINVAL, ENOENT
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

CLONE_NEWNET = 0x40000000
"""include/uapi/linux/sched.h."""
MS_BIND, MNT_DETACH, UMOUNT_NOFOLLOW = 4096, 2, 8
"""include/uapi/linux/mount.h and sys/mount.h."""


@cache
def _load_libc() -> ctypes.CDLL:
    import ctypes  # noqa: PLC0415 - slow to import, and most programs stay in their namespace

    return ctypes.CDLL(None, use_errno=True)


class NamespaceLostError(SystemExit):
    """The thread could not return to its namespace. Continuing would configure the wrong machine, so the process ends.

    SystemExit ends the process only if raised in the main thread; callers that use a thread pool must end it
    themselves.
    """


def _check_result(result: int, action: str) -> None:
    if result != 0:
        import ctypes  # noqa: PLC0415 - as above

        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")


def setns(descriptor: int) -> None:
    """Move the calling thread into the network namespace of `descriptor`. Raises OSError if that is not permitted."""
    _check_result(_load_libc().setns(descriptor, CLONE_NEWNET), "setns")


def unshare() -> None:
    """Move the calling thread into a new network namespace. Raises OSError (EPERM) if that is not permitted."""
    _check_result(_load_libc().unshare(CLONE_NEWNET), "unshare")


@contextmanager
def enter_netns(netns: Path | int | None) -> Iterator[None]:
    """Enter a network namespace (path or descriptor; None: stay) with the calling thread, and return from it.

    The block must neither await nor change threads. Raises OSError before the block runs if the namespace does not
    exist, or if entering it or returning from it is not permitted (EPERM).
    """
    if netns is None:
        yield
        return
    original = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    target = netns if isinstance(netns, int) else -1
    try:
        if not isinstance(netns, int):
            target = os.open(netns, os.O_RDONLY | os.O_CLOEXEC)
        _check_result(_load_libc().setns(original, CLONE_NEWNET), "cannot return to the original network namespace")
        _check_result(_load_libc().setns(target, CLONE_NEWNET), f"cannot enter network namespace {netns}")
        try:
            yield
        finally:
            _return_to_netns(original)
    finally:
        os.close(original)
        if target >= 0 and not isinstance(netns, int):
            os.close(target)


def _return_to_netns(original: int) -> None:
    try:
        setns(original)
    except OSError as error:
        reason = f"cannot return to the original network namespace ({error})"
        raise NamespaceLostError(f"trackbed: {reason}; stopping before the wrong one is changed") from error


def read_inode(netns: Path | int) -> int:
    """Return the inode number that identifies a network namespace during its lifetime."""
    return os.fstat(netns).st_ino if isinstance(netns, int) else netns.stat().st_ino


def create_netns(path: Path) -> None:
    """Create a network namespace and bind-mount it at `path`, as `ip netns add` does.

    Raises OSError: EPERM without CAP_SYS_ADMIN over the mount namespace, EEXIST if `path` exists.
    """
    os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
    failures: list[OSError] = []

    def pin_new_namespace() -> None:
        try:
            unshare()
            _check_result(
                _load_libc().mount(b"/proc/thread-self/ns/net", os.fsencode(path), None, MS_BIND, None), "mount"
            )
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=pin_new_namespace, name="netns-new")
    thread.start()
    thread.join()
    if failures:
        path.unlink()
        raise failures[0]


def delete_netns(path: Path) -> None:
    """Unmount and delete `path`; the kernel removes the namespace with its last user. A missing `path` is ignored.

    Raises OSError: EPERM without CAP_SYS_ADMIN over the mount namespace.
    """
    try:
        _check_result(_load_libc().umount2(os.fsencode(path), MNT_DETACH | UMOUNT_NOFOLLOW), f"cannot unpin {path}")
    except OSError as error:
        if error.errno not in {EINVAL, ENOENT}:  # not mounted, missing
            raise
    path.unlink(missing_ok=True)
