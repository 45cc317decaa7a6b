"""The network namespace that a runtime names by path: opened, checked, and recognized later by its inode.

A path may refer to another namespace later. The inode in nsfs is unique while the namespace exists (namespaces(7)).
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from trackbed.kernel.netlink.netns import CLONE_NEWNET
from trackbed.node.rails.errors import CniError, Code

_NS_GET_NSTYPE: Final = 0xB703  # include/uapi/linux/nsfs.h
OWN_NETNS: Final = "/proc/thread-self/ns/net"


class Sandbox(NamedTuple):
    """An open network namespace."""

    fd: int
    inode: int


@contextmanager
def open_sandbox(path: str) -> Iterator[Sandbox]:
    """Open the namespace at `path`.

    Raises:
        CniError: the path does not exist (UNKNOWN_CONTAINER), or is not the namespace of a container (ENVIRONMENT).
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK: the path may be a FIFO
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CniError(Code.UNKNOWN_CONTAINER, f"CNI_NETNS {path}: {error.strerror}") from error
    except OSError as error:
        raise CniError(Code.ENVIRONMENT, f"CNI_NETNS {path}: {error.strerror}") from error
    try:
        yield Sandbox(fd, _read_inode(fd, path))
    finally:
        os.close(fd)


@contextmanager
def find_sandbox(paths: Iterable[str], inode: int) -> Iterator[Sandbox | None]:
    """Open the namespace with this inode at the first of `paths` that refers to it; yield None where none does."""
    for path in paths:
        fd = _open_inode(path, inode)
        if fd is not None:
            try:
                yield Sandbox(fd, inode)
            finally:
                os.close(fd)
            return
    yield None


def _open_inode(path: str, inode: int) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(fd).st_ino == inode and _is_netns(fd):
        return fd
    os.close(fd)
    return None


def _read_inode(fd: int, path: str) -> int:
    if not _is_netns(fd):
        raise CniError(Code.ENVIRONMENT, f"CNI_NETNS {path} is no network namespace")
    inode = os.fstat(fd).st_ino
    if inode == Path(OWN_NETNS).stat().st_ino:
        raise CniError(Code.ENVIRONMENT, f"CNI_NETNS {path} is the node's own network namespace")
    return inode


def _is_netns(fd: int) -> bool:
    try:
        return fcntl.ioctl(fd, _NS_GET_NSTYPE) == CLONE_NEWNET
    except OSError:
        return False
