"""The machine that is looked at or changed: a root folder and a network namespace.

The live host, a container that sees it under /host, a captured tree and a namespace of the lab are the same to callers.

    Machine(Path("/"))                                      this host
    Machine(Path("/host"), Path("/proc/1/ns/net"))          the host, from a privileged container
    Machine(tree, Path("/run/netns/gpu-0"))                 a node of the lab

Files come from the root folder, all but one kind: `/proc/sys/net` shows the network namespace of the thread that opens
it, so kernel parameters are read and written by a thread inside the namespace.

Programs run only where their host is meant: on this host (root `/`), or by the `runner` that the caller brings. Nothing
out of a foreign root is ever started.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from trackbed.hosts.runner import Local, Ran, Runner
from trackbed.netlink.netns import entered
from trackbed.netlink.sockets import Socket

PROC_SYS = Path("/proc/sys")

_CONTAINER = ("/.dockerenv", "/run/.containerenv", "/run/systemd/container")
"""Files by which Docker, Podman and systemd-nspawn tell what runs inside that it is in a container."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The kernel parameter, file or program does not exist here."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The kernel parameter or file exists and cannot be read; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Machine:
    """Where to look: `root` for files, `netns` for the network (path or open descriptor; None: the caller's own)."""

    root: Path
    netns: Path | int | None = None
    runner: Runner | None = None
    """What starts programs there; None: this host's own where the root is `/`, otherwise nothing is started."""

    @property
    def shared(self) -> str:
        """Why the kernel, its modules and its devices are not this machine's own to set; empty where they are."""
        if self.netns is not None and self.root == Path("/"):
            return "this is a network namespace of a host that has these for itself"
        if any((self.root / marker.lstrip("/")).exists() for marker in _CONTAINER):
            return "this is a container, and these are its host's"
        return ""

    def path(self, absolute: str) -> Path:
        """The place of an absolute path under the root; ValueError if it would lead out of it."""
        inner = PurePosixPath(absolute)
        if not inner.is_absolute() or ".." in inner.parts:
            raise ValueError(f"{absolute!r} must be an absolute path without '..'")
        place = self.root.joinpath(*inner.parts[1:])
        if not place.parent.resolve().is_relative_to(self.root.resolve()):
            raise ValueError(f"{absolute!r} leads out of {self.root} by a symbolic link")
        return place

    def socket(self) -> Socket:
        """A netlink socket in the machine's network namespace; the caller closes it (it is a context manager)."""
        return Socket(netns=self.netns)

    def read(self, path: str) -> str | Absent | Unreadable:
        """The text of a small file under the root, without the blanks around it."""
        try:
            return self.path(path).read_text(errors="replace").strip()
        except (FileNotFoundError, NotADirectoryError):
            return Absent()
        except (OSError, ValueError) as error:
            return Unreadable(str(getattr(error, "strerror", None) or error))

    def write_attribute(self, path: str, value: str) -> None:
        """Write a file of sysfs or configfs under the root; OSError as the kernel says it."""
        with self.path(path).open("w") as stream:
            stream.write(value)

    def has(self, program: str) -> bool:
        """Whether `run` could start a program."""
        runner = self._runner()
        return runner is not None and runner.has(program)

    def run(self, argv: tuple[str, ...]) -> Ran | Absent:
        """Run a program on the machine; Absent where it, or a way to run it, is not there."""
        runner = self._runner()
        return runner.run(argv) if runner is not None and runner.has(argv[0]) else Absent()

    def _runner(self) -> Runner | None:
        return self.runner or (Local() if self.root == Path("/") else None)

    def read_sysctl(self, key: str) -> str | Absent | Unreadable:
        """The value of `/proc/sys/<key>`, as seen from inside the network namespace."""
        place = _sysctl(key)
        try:
            with entered(self.netns):
                return place.read_text().strip()
        except FileNotFoundError:
            return Absent()
        except OSError as error:
            return Unreadable(error.strerror or str(error))

    def write_sysctl(self, key: str, value: str) -> None:
        """Write `/proc/sys/<key>` inside the network namespace; OSError as the kernel says it."""
        place = _sysctl(key)
        with entered(self.netns):
            place.write_text(value)


def _sysctl(key: str) -> Path:
    if ".." in key.split("/") or key.startswith("/"):
        raise ValueError(f"{key!r} is no kernel parameter; write it as net/ipv4/ip_forward")
    return PROC_SYS / key
