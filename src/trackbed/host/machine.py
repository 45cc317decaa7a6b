"""The machine that is read or changed: a root folder and a network namespace.

Callers use one interface for the live host, a container with the host's files in /host, a captured tree and a node of
the lab:

    Machine(Path("/"))                                      this host
    Machine(Path("/host"), Path("/proc/1/ns/net"))          the host, from a privileged container
    Machine(tree, Path("/run/netns/gpu-0"))                 a node of the lab
    Machine(tree, unseen_reason="it is an archive")          files only

Files are those of the root folder, except kernel parameters: `/proc/sys/net` shows the network namespace of the thread
that opens it, so a thread inside the namespace reads and writes them.

Programs run only on this host (root `/`) or by the `runner` of the caller. Programs of another root are never started.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

from trackbed.host.runner import TIMEOUT_SECONDS, Local, ProgramResult, Runner
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket

if TYPE_CHECKING:
    from typing import Self

PROC_SYS = Path("/proc/sys")
_HOST = Path("/")

_CONTAINER_MARKERS = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
"""Marker files of Docker, Podman and systemd-nspawn inside their containers."""


@dataclass(frozen=True)
class Absent:
    """A kernel parameter, file or program that does not exist on the machine."""


class Unreadable(NamedTuple):
    """A kernel parameter or file that exists and cannot be read; `reason` is the kernel's error."""

    reason: str


@dataclass(frozen=True)
class Machine:
    """A root folder for files and a namespace `netns` for the network (path or descriptor; None: the caller's)."""

    root: Path
    netns: Path | int | None = None
    runner: Runner | None = None
    """Runs programs. None: programs run locally if the root is `/`, otherwise not at all."""

    unseen_reason: str = ""
    """Why network state and kernel parameters cannot be read; empty if they can be read."""

    cache: dict[str, bytes | Absent | Unreadable] | None = field(default=None, compare=False, repr=False)
    """Files and kernel parameters read so far, by path and key; None: every read goes to the machine."""

    def freeze(self) -> Self:
        """Return a copy that reads each file and kernel parameter once."""
        return replace(self, cache={})

    @property
    def shared_reason(self) -> str:
        """Why kernel, modules and devices are those of another machine, the host; empty if they are not."""
        if self.netns is not None and self.root == _HOST:
            return "this is a network namespace of a host that has these for itself"
        if any((self.root / marker.lstrip("/")).exists() for marker in _CONTAINER_MARKERS):
            return "this is a container, and these are its host's"
        return ""

    def locate(self, path: str) -> Path:
        """Return the path under the root for an absolute path. Raises ValueError if its folder is outside the root.

        The last part may be a symbolic link that leads out of the root; to open or list it, use `locate_inside`.
        """
        located = self._join_root(path)
        self._check_inside_root(path, located.parent)
        return located

    def locate_inside(self, path: str) -> Path:
        """Return the path under the root for an absolute path. Raises ValueError if a link leads out of the root."""
        located = self._join_root(path)
        self._check_inside_root(path, located)
        return located

    def _join_root(self, path: str) -> Path:
        pure_path = PurePosixPath(path)
        if not pure_path.is_absolute() or ".." in pure_path.parts:
            raise ValueError(f"{path!r} must be an absolute path without '..'")
        return self.root.joinpath(*pure_path.parts[1:])

    def _check_inside_root(self, path: str, located: Path) -> None:
        """Raise ValueError if a path leads out of the root; paths below `/` are not checked."""
        if self.root != _HOST:
            root = _resolve_root(self.root)
            if os.path.commonpath((root, os.path.realpath(located))) != root:
                raise ValueError(f"{path!r} leads out of {self.root} by a symbolic link")

    def open_socket(self) -> Socket:
        """Open a netlink socket in the machine's network namespace; the caller closes it (it is a context manager).

        Raises OSError if the machine's network cannot be read; this host's network is never used instead.
        """
        self._check_network_visible()
        return Socket(netns=self.netns)

    def _check_network_visible(self) -> None:
        if self.unseen_reason:
            raise OSError(errno.ENONET, self.unseen_reason)

    def read(self, path: str) -> str | Absent | Unreadable:
        """Return the text of a small file under the root, without leading and trailing whitespace."""
        content = self.read_bytes(path)
        return content.decode(errors="replace").replace("\r\n", "\n").strip() if isinstance(content, bytes) else content

    def read_bytes(self, path: str) -> bytes | Absent | Unreadable:
        """Return the content of a small file under the root."""
        return self._read_once(path, lambda: self.locate_inside(path).read_bytes())

    def read_lines(self, path: str) -> list[str]:
        """Return the lines of a small file under the root; empty if it is absent or unreadable."""
        text = self.read(path)
        return text.splitlines() if isinstance(text, str) else []

    def _read_once(self, key: str, load: Callable[[], bytes]) -> bytes | Absent | Unreadable:
        content = self.cache.get(key) if self.cache is not None else None
        if content is None:
            content = _read_or_absent(load)
            if self.cache is not None:
                self.cache[key] = content
        return content

    def write_attribute(self, path: str, value: str) -> None:
        """Write a file of sysfs or configfs under the root. Raises OSError, or ValueError outside the root."""
        with self.locate_inside(path).open("w") as stream:
            stream.write(value)

    def has_program(self, program: str) -> bool:
        """Return whether `run` could start a program."""
        runner = self._find_runner()
        return runner is not None and runner.has_program(program)

    def run(self, argv: tuple[str, ...], timeout_seconds: float = TIMEOUT_SECONDS) -> ProgramResult | Absent:
        """Run a program on the machine; return Absent if it does not exist or cannot be run there."""
        runner = self._find_runner(timeout_seconds)
        return runner.run(argv) if runner is not None and runner.has_program(argv[0]) else Absent()

    def _find_runner(self, timeout_seconds: float = TIMEOUT_SECONDS) -> Runner | None:
        return self.runner or (Local(timeout_seconds) if self.root == _HOST else None)

    def read_sysctl(self, key: str) -> str | Absent | Unreadable:
        """Return the value of `/proc/sys/<key>`, as seen from inside the network namespace."""
        path = _locate_sysctl(key)

        def read_value() -> bytes:
            self._check_network_visible()
            with enter_netns(self.netns):
                return path.read_bytes()

        content = self._read_once(key, read_value)
        return content.decode(errors="replace").strip() if isinstance(content, bytes) else content

    def write_sysctl(self, key: str, value: str) -> None:
        """Write `/proc/sys/<key>` inside the network namespace. Raises OSError."""
        path = _locate_sysctl(key)
        self._check_network_visible()
        with enter_netns(self.netns):
            path.write_text(value)


@lru_cache(maxsize=16)
def _resolve_root(root: Path) -> str:
    """Return the real path of a root. A link that is changed later makes paths lead out of it, which is refused."""
    return os.path.realpath(root)


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
