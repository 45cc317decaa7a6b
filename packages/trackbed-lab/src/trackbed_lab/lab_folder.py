"""Where a lab is known by name outside its sandbox: a folder with who keeps it and what it was made from."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN_PREFIX = "run-"
"""Labs of `trackbed lab run`: nobody knows their names, so the next lab clears away what a killed one left."""

NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,31}")
"""A lab's name becomes a folder's, so it may lead nowhere else."""


def locate_base() -> Path:
    """The folder of all labs of this user."""
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/trackbed-lab")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "trackbed-lab"
    return Path(tempfile.gettempdir()) / f"trackbed-lab-{os.geteuid()}"


@dataclass(frozen=True, slots=True)
class LabFolder:
    """One lab's folder. `files` is where its tmpfs is mounted: empty when seen from outside."""

    name: str
    home: Path = field(default_factory=lambda: locate_base())  # noqa: PLW0108 - looked up late: tests give labs another home
    """The folder of all labs, found out once: inside the sandbox we are another user."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name for a lab: letters, digits, '-', '_' and '.', at most 32")

    @property
    def folder(self) -> Path:
        """The lab's folder."""
        return self.home / self.name

    @property
    def files(self) -> Path:
        """Mount point of the lab's own files."""
        return self.folder / "fs"

    @property
    def log(self) -> Path:
        """What the lab's keeper said."""
        return self.folder / "log"

    def find_keeper(self) -> int | None:
        """Pid of the keeper if the lab lives; the start time guards against a pid used again.

        A keeper that was killed but not yet reaped (some containers' init never does) holds no lab any more.
        """
        try:
            pid, started = (self.folder / "keeper").read_text(encoding="ascii").split()
            return int(pid) if _started(int(pid)) == started else None
        except (OSError, ValueError):
            return None

    def claim(self) -> None:
        """Make the folder, kept by this process for now; what dead labs left goes.

        Raises FileExistsError if the lab lives, PermissionError if the folder of all labs is another user's.
        """
        with _alone(self.home):
            if self.find_keeper() is not None:
                raise FileExistsError(f"lab {self.name!r} is up already")
            for lab in list_labs():
                if lab.name.startswith(RUN_PREFIX) and lab.find_keeper() is None:
                    shutil.rmtree(lab.folder, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.files.mkdir(mode=0o700, parents=True)
            self.record_keeper(os.getpid())

    def record_keeper(self, keeper: int) -> None:
        """Write down who keeps the lab, unless it has ended already."""
        with suppress(ProcessLookupError):
            (self.folder / "keeper").write_text(f"{keeper} {_started(keeper)}", encoding="ascii")

    def release(self) -> None:
        """Remove the folder, and the folder of all labs with the last of them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.home.rmdir()
        except OSError:
            return  # other labs live there, or it never was


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder of all labs against other starts; it must be ours, for it may lie where all may write."""
    folder.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(1, "it belongs to another user; set TMPDIR to a folder of your own", str(folder))
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _started(pid: int) -> str:
    """Start time of a process in clock ticks (proc(5), field 22 of stat); ProcessLookupError once it has ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    if fields[0] in {"Z", "X"}:
        raise ProcessLookupError(f"process {pid} has ended")
    return fields[19]


def list_labs() -> list[LabFolder]:
    """Every lab that has a folder, dead ones too."""
    try:
        return [LabFolder(entry.name) for entry in sorted(locate_base().iterdir()) if NAME.fullmatch(entry.name)]
    except OSError:
        return []
