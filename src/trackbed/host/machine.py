"""The machine that is read or changed: a root folder and a network namespace.

The live host, a container that sees it under /host, a captured tree and a namespace of the lab are the same to callers.

    Machine(Path("/"))                                      this host
    Machine(Path("/host"), Path("/proc/1/ns/net"))          the host, from a privileged container
    Machine(tree, Path("/run/netns/gpu-0"))                 a node of the lab
    Machine(tree, unseen_reason="it is an archive")          files only

Files come from the root folder, all but one kind: `/proc/sys/net` shows the network namespace of the thread that opens
it, so kernel parameters are read and written by a thread inside the namespace.

Programs run only where their host is meant: on this host (root `/`), or by the `runner` that the caller brings. Nothing
out of a foreign root is ever started.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self

from trackbed.host.runner import Local, Ran, Runner
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket

PROC_SYS = Path("/proc/sys")
_HOST = Path("/")

_CONTAINER = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
"""Marker files of Docker, Podman and systemd-nspawn inside their containers."""


@dataclass(frozen=True, slots=True)
class Absent:
    """A kernel parameter, file or program that does not exist on the machine."""


class Unreadable(NamedTuple):
    """A kernel parameter or file that exists and cannot be read; `reason` is the kernel's error."""

    reason: str


@dataclass(frozen=True, slots=True)
class Machine:
    """A root folder for files and `netns` for the network (path or open descriptor; None: the caller's own)."""

    root: Path
    netns: Path | int | None = None
    runner: Runner | None = None
    """Starts programs there. None: local programs where the root is `/`, none otherwise."""

    unseen_reason: str = ""
    """Why network state and kernel parameters cannot be read; empty where they can."""

    cache: dict[str, bytes | Absent | Unreadable] | None = field(default=None, compare=False, repr=False)
    """Files and kernel parameters read so far, by path and key; None: every read goes to the machine."""

    def freeze(self) -> Self:
        """Return a copy that reads each file and kernel parameter once."""
        return replace(self, cache={})

    @property
    def shared_reason(self) -> str:
        """Why the kernel, modules and devices belong to the host instead of this machine; empty where they do not."""
        if self.netns is not None and self.root == _HOST:
            return "this is a network namespace of a host that has these for itself"
        if any((self.root / marker.lstrip("/")).exists() for marker in _CONTAINER):
            return "this is a container, and these are its host's"
        return ""

    def locate(self, absolute: str) -> Path:
        """Return the path under the root for an absolute path. ValueError if its folder lies outside the root.

        The last part may be a symbolic link that leads out of the root; to open or list it, use `locate_inside`.
        """
        path = self._join(absolute)
        return self._check_inside(absolute, path, path.parent)

    def locate_inside(self, absolute: str) -> Path:
        """Return the path under the root for an absolute path; no symbolic link leads out, the last part included."""
        path = self._join(absolute)
        return self._check_inside(absolute, path, path)

    def _join(self, absolute: str) -> Path:
        pure_path = PurePosixPath(absolute)
        if not pure_path.is_absolute() or ".." in pure_path.parts:
            raise ValueError(f"{absolute!r} must be an absolute path without '..'")
        return self.root.joinpath(*pure_path.parts[1:])

    def _check_inside(self, absolute: str, place: Path, followed: Path) -> Path:
        """Return the path if `followed` ends under the root; the root of this host is not checked."""
        if self.root != _HOST:
            root = os.path.realpath(self.root)
            if os.path.commonpath((root, os.path.realpath(followed))) != root:
                raise ValueError(f"{absolute!r} leads out of {self.root} by a symbolic link")
        return place

    def open_socket(self) -> Socket:
        """Open a netlink socket in the machine's network namespace; the caller closes it (it is a context manager).

        Raises OSError where the machine's network cannot be read, so that another host's is never read in its place.
        """
        self._check_visible()
        return Socket(netns=self.netns)

    def _check_visible(self) -> None:
        if self.unseen_reason:
            raise OSError(errno.ENONET, self.unseen_reason)

    def read(self, path: str) -> str | Absent | Unreadable:
        """Return the text of a small file under the root, stripped of surrounding whitespace."""
        content = self.read_bytes(path)
        return content.decode(errors="replace").replace("\r\n", "\n").strip() if isinstance(content, bytes) else content

    def read_bytes(self, path: str) -> bytes | Absent | Unreadable:
        """Return the content of a small file under the root."""
        return self._read_once(path, lambda: self.locate_inside(path).read_bytes())

    def _read_once(self, key: str, load: Callable[[], bytes]) -> bytes | Absent | Unreadable:
        content = self.cache.get(key) if self.cache is not None else None
        if content is None:
            content = _read_or_absent(load)
            if self.cache is not None:
                self.cache[key] = content
        return content

    def write_attribute(self, path: str, value: str) -> None:
        """Write a file of sysfs or configfs under the root. Raises OSError as the kernel does, ValueError outside."""
        with self.locate_inside(path).open("w") as stream:
            stream.write(value)

    def has_program(self, program: str) -> bool:
        """Return whether `run` could start a program."""
        runner = self._find_runner()
        return runner is not None and runner.has_program(program)

    def run(self, argv: tuple[str, ...]) -> Ran | Absent:
        """Run a program on the machine; return Absent where it does not exist or cannot be run."""
        runner = self._find_runner()
        return runner.run(argv) if runner is not None and runner.has_program(argv[0]) else Absent()

    def _find_runner(self) -> Runner | None:
        return self.runner or (Local() if self.root == _HOST else None)

    def read_sysctl(self, key: str) -> str | Absent | Unreadable:
        """Return the value of `/proc/sys/<key>`, as seen from inside the network namespace."""
        path = _locate_sysctl(key)

        def load() -> bytes:
            self._check_visible()
            with enter_netns(self.netns):
                return path.read_bytes()

        content = self._read_once(key, load)
        return content.decode(errors="replace").strip() if isinstance(content, bytes) else content

    def write_sysctl(self, key: str, value: str) -> None:
        """Write `/proc/sys/<key>` inside the network namespace. Raises OSError as the kernel does."""
        path = _locate_sysctl(key)
        self._check_visible()
        with enter_netns(self.netns):
            path.write_text(value)


def _read_or_absent(load: Callable[[], bytes]) -> bytes | Absent | Unreadable:
    try:
        return load()
    except (FileNotFoundError, NotADirectoryError):
        return Absent()
    except (OSError, ValueError) as error:
        return Unreadable(str(getattr(error, "strerror", None) or error))


def _locate_sysctl(key: str) -> Path:
    if ".." in key.split("/") or key.startswith("/"):
        raise ValueError(f"{key!r} is no kernel parameter; write it as net/ipv4/ip_forward")
    return PROC_SYS / key
