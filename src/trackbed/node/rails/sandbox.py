"""Network namespaces that a runtime names by path: opened, checked, and later identified by their inode.

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
MAX_ENTRIES: Final = 1 << 14
"""Addresses, routes or rules of a pod that are listed: a pod could add so many that they fill the agent's memory."""


class Sandbox(NamedTuple):
    """The open network namespace of a pod."""

    fd: int
    inode: int


@contextmanager
def open_sandbox(netns_path: str) -> Iterator[Sandbox]:
    """Open the network namespace of a pod at a path.

    Raises:
        CniError: the path does not exist (UNKNOWN_CONTAINER), or is not the namespace of a container (ENVIRONMENT).
    """
    try:
        fd = os.open(netns_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # O_NONBLOCK: the path may be a FIFO
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CniError(Code.UNKNOWN_CONTAINER, f"CNI_NETNS {netns_path}: {error.strerror}") from error
    except OSError as error:
        raise CniError(Code.ENVIRONMENT, f"CNI_NETNS {netns_path}: {error.strerror}") from error
    try:
        yield Sandbox(fd, _read_container_inode(fd, netns_path))
    finally:
        os.close(fd)


@contextmanager
def find_sandbox(netns_paths: Iterable[str], inode: int) -> Iterator[Sandbox | None]:
    """Open the namespace with this inode at the first of the paths that refers to it; yield None if no path does."""
    for path in netns_paths:
        fd = _open_namespace(path, inode)
        if fd is not None:
            try:
                yield Sandbox(fd, inode)
            finally:
                os.close(fd)
            return
    yield None


def _open_namespace(netns_path: str, inode: int) -> int | None:
    """Return a descriptor of the namespace at a path if it has this inode, or else None."""
    try:
        fd = os.open(netns_path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if os.fstat(fd).st_ino == inode and _is_netns(fd):
        return fd
    os.close(fd)
    return None


def _read_container_inode(fd: int, netns_path: str) -> int:
    """Return the inode of a container's namespace. Raises CniError for any other file, and for the node's namespace."""
    if not _is_netns(fd):
        raise CniError(Code.ENVIRONMENT, f"CNI_NETNS {netns_path} is no network namespace")
    inode = os.fstat(fd).st_ino
    if inode == Path(OWN_NETNS).stat().st_ino:
        raise CniError(Code.ENVIRONMENT, f"CNI_NETNS {netns_path} is the node's own network namespace")
    return inode


def _is_netns(fd: int) -> bool:
    try:
        return fcntl.ioctl(fd, _NS_GET_NSTYPE) == CLONE_NEWNET
    except OSError:
        return False
