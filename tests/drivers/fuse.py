"""A folder of attributes like sysfs, served by this process through FUSE (include/uapi/linux/fuse.h, protocol 7.31).

A write reaches its function before write(2) returns, and an OSError of that function is the writer's errno. So drivers
answer Trackbed, a shell and any program alike, as sysfs does: at once, and with refusals.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class Attribute(NamedTuple):
    """A file: functions that return its content and take what is written; None: it cannot be read or written."""

    read: Callable[[], str] | None
    write: Callable[[str], None] | None = None


Node: TypeAlias = "dict[str, Node] | Attribute | Link | str"
"""A folder, a file, a link, or the text of a file that nobody writes."""


class Folder(NamedTuple):
    """What is served: a function that returns the whole tree as it is now, and what mkdir and rmdir do (by path)."""

    tree: Callable[[], dict[str, Node]]
    make: Callable[[str], None]
    remove: Callable[[str], None]
    stays: Callable[[str], bool]
    """Tells whether an entry, once it is there, stays, so that the kernel need not ask again."""


_LIBC = ctypes.CDLL(None, use_errno=True)
_IN, _OUT = struct.Struct("=IIQQIIIHH"), struct.Struct("=IiQ")
_ATTR = struct.Struct("=6Q10I")
_MAX_WRITE = 1 << 16
_NO_ANSWER = {2, 36, 42}
"""FORGET, INTERRUPT, BATCH_FORGET."""
_DIRECT_IO = 1
_FOR_EVER = 1 << 30
_MNT_FORCE, _MNT_DETACH = 1, 2
_GUARD = """trap 'umount -f -l "$1" 2>/dev/null' TERM; read -r _"""


@contextmanager
def serve(place: Path, folder: Folder) -> Iterator[None]:
    """Mount the folder at `place` as long as the block lasts; skips where FUSE may not be mounted."""
    place.mkdir(parents=True, exist_ok=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        pytest.skip(f"no FUSE here: {error}")
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0,allow_other".encode()
    if _LIBC.mount(b"drivers", os.fsencode(place), b"fuse", 0, options):
        os.close(device)
        pytest.skip(f"FUSE cannot be mounted here: {os.strerror(ctypes.get_errno())}")
    thread = threading.Thread(target=_Server(device, place, folder).run, name="sysfs", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # By force, since a mount namespace that was made meanwhile has a copy of the mount and keeps it alive.
        _LIBC.umount2(os.fsencode(place), _MNT_FORCE | _MNT_DETACH)
        thread.join(10)


class _Server:
    """Answers one request after the other."""

    def __init__(self, device: int, place: Path, folder: Folder) -> None:
        self._device, self._place, self._folder = device, place, folder
        self._paths = {1: ""}
        self._ids = {"": 1}
        # Without a reply, as 25 (FLUSH), an operation is not asked for again.
        self._replies: dict[int, Callable[[str, bytes], bytes]] = {
            1: self._lookup,
            3: self._get_attributes,
            4: self._get_attributes,
            5: self._read_link,
            9: self._make_folder,
            11: self._remove_folder,
            14: lambda *_: struct.pack("=QII", 0, _DIRECT_IO, 0),
            15: self._read,
            16: self._write,
            17: lambda *_: struct.pack("=5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0),
            18: lambda *_: b"",
            26: lambda *_: struct.pack("=4IHHIIHHI28x", 7, 31, 0, 0, 8, 8, _MAX_WRITE, 1, 0, 0, 0),
            27: lambda *_: struct.pack("=QII", 0, 0, 0),
            28: self._list,
            29: lambda *_: b"",
        }

    def run(self) -> None:
        """Answer until the folder is unmounted; whoever waits for an answer then gets an error.

        A process that is killed while it waits for its own thread would wait for ever; the guard unmounts by force when
        this thread ends.
        """
        guard = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "sh", "-c", _GUARD, "sh", self._place], stdin=subprocess.PIPE
        )
        try:
            while request := self._read_request():
                _, operation, unique, node, *_ = _IN.unpack_from(request)
                if operation not in _NO_ANSWER:
                    self._answer(operation, unique, self._paths.get(node, ""), request[_IN.size :])
        finally:
            os.close(self._device)
            guard.communicate()

    def _read_request(self) -> bytes:
        """Return the next request; empty if the folder is unmounted."""
        while True:
            try:
                return os.read(self._device, _MAX_WRITE + 4096)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return b""
                if error.errno not in {errno.EINTR, errno.EAGAIN, errno.ENOENT}:
                    raise

    def _answer(self, operation: int, unique: int, path: str, body: bytes) -> None:
        code, reply = errno.ENOSYS, b""
        if operation in self._replies:
            try:
                code, reply = 0, self._replies[operation](path, body)
            except OSError as error:
                code = error.errno or errno.EIO
            except Exception:  # noqa: BLE001 - a fault of a model must not leave the writer waiting for ever
                traceback.print_exc()
                code = errno.EIO
        with suppress(OSError):  # the writer was interrupted and no longer waits
            os.write(self._device, _OUT.pack(_OUT.size + len(reply), -code, unique) + reply)

    def _find(self, path: str) -> Node:
        node: Node = self._folder.tree()
        for part in path.split("/") if path else ():
            if not isinstance(node, dict) or part not in node:
                raise FileNotFoundError(errno.ENOENT, path)
            node = node[part]
        return node

    def _stat(self, path: str) -> bytes:
        node = self._find(path)
        mode = {dict: stat.S_IFDIR | 0o755, Link: stat.S_IFLNK | 0o777}.get(type(node), stat.S_IFREG | 0o644)
        number = self._ids.setdefault(path, len(self._ids) + 1)
        self._paths[number] = path
        size = len(node.target) if isinstance(node, Link) else 4096
        return _ATTR.pack(number, size, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _get_attributes(self, path: str, _: bytes) -> bytes:
        return struct.pack("=QII", self._count_seconds(path), 0, 0) + self._stat(path)

    def _count_seconds(self, path: str) -> int:
        """Return for how long the kernel need not ask for an entry again."""
        return _FOR_EVER if self._folder.stays(path) else 0

    def _lookup(self, path: str, body: bytes) -> bytes:
        child = _join(path, body)
        attributes, seconds = self._stat(child), self._count_seconds(child)
        return attributes[:8] + struct.pack("=QQQII", 0, seconds, seconds, 0, 0) + attributes

    def _read_link(self, path: str, _: bytes) -> bytes:
        node = self._find(path)
        return node.target.encode() if isinstance(node, Link) else b""

    def _make_folder(self, path: str, body: bytes) -> bytes:
        self._folder.make(_join(path, body[8:]))
        return self._lookup(path, body[8:])

    def _remove_folder(self, path: str, body: bytes) -> bytes:
        self._folder.remove(_join(path, body))
        return b""

    def _read(self, path: str, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        node = self._find(path)
        if isinstance(node, Attribute) and node.read is None:
            raise PermissionError(errno.EACCES, path)
        text = node.read() if isinstance(node, Attribute) and node.read else node if isinstance(node, str) else ""
        return text.encode()[offset : offset + size]

    def _write(self, path: str, body: bytes) -> bytes:
        _, _, size = struct.unpack_from("=QQI", body)
        node = self._find(path)
        if not isinstance(node, Attribute) or node.write is None:
            raise PermissionError(errno.EACCES, path)
        node.write(body[40 : 40 + size].decode())
        return struct.pack("=II", size, 0)

    def _list(self, path: str, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("=QQI", body)
        node = self._find(path)
        entries = b""
        for number, name in enumerate(sorted(node) if isinstance(node, dict) else (), 1):
            raw = name.encode()
            entry = struct.pack("=QQII", 1, number, len(raw), 0) + raw + bytes(-len(raw) % 8)
            if number > offset and len(entries) + len(entry) <= size:
                entries += entry
        return entries


def _join(path: str, name: bytes) -> str:
    child = name.split(b"\0", 1)[0].decode()
    return f"{path}/{child}" if path else child
