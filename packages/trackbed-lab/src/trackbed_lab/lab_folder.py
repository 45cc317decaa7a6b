"""The folder that identifies a lab outside its sandbox, with the PID of its keeper."""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

RUN_PREFIX = "run-"
"""Prefix of the labs of `trackbed lab run`. Their names are temporary, so the next lab removes stale ones."""

NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9_.]{0,31}")
"""A lab's name is a folder's name, and must not be a path."""


def locate_base() -> Path:
    """Return the folder of all labs of this user."""
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/trackbed-lab")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "trackbed-lab"
    return Path(tempfile.gettempdir()) / f"trackbed-lab-{os.geteuid()}"


@dataclass(frozen=True, slots=True)
class LabFolder:
    """One lab's folder. Its tmpfs is mounted at `files`, which is empty outside the sandbox."""

    name: str
    home: Path = field(default_factory=lambda: locate_base())  # noqa: PLW0108 - looked up late, as tests replace it
    """The folder of all labs, determined once, because the UID is different inside the sandbox."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is no name for a lab: letters, digits, '-', '_' and '.', at most 32")

    @property
    def folder(self) -> Path:
        """The lab's folder."""
        return self.home / self.name

    @property
    def files(self) -> Path:
        """The mount point of the lab's files."""
        return self.folder / "fs"

    @property
    def log(self) -> Path:
        """The log of the lab's keeper."""
        return self.folder / "log"

    def find_keeper(self) -> int | None:
        """Return the PID of the keeper if the lab is running; the start time guards against PID reuse.

        A zombie counts as ended, because the init process of some containers never reaps.
        """
        try:
            pid, start_time = (self.folder / "keeper").read_text(encoding="ascii").split()
            return int(pid) if _read_start_time(int(pid)) == start_time else None
        except (OSError, ValueError):
            return None

    def claim(self) -> None:
        """Create the folder with this process as its keeper; remove stale folders of runs.

        Raises:
            FileExistsError: the lab is running.
            PermissionError: the folder of all labs belongs to another user.
        """
        with _hold_lock(self.home):
            if self.find_keeper() is not None:
                raise FileExistsError(f"lab {self.name!r} is up already")
            for lab in list_labs():
                if lab.name.startswith(RUN_PREFIX) and lab.find_keeper() is None:
                    shutil.rmtree(lab.folder, ignore_errors=True)
            shutil.rmtree(self.folder, ignore_errors=True)
            self.files.mkdir(mode=0o700, parents=True)
            self.record_keeper(os.getpid())

    def record_keeper(self, keeper: int) -> None:
        """Record the PID of the keeper, unless it has ended."""
        with suppress(ProcessLookupError):
            (self.folder / "keeper").write_text(f"{keeper} {_read_start_time(keeper)}", encoding="ascii")

    def release(self) -> None:
        """Remove the folder, and with the last lab the folder of all labs."""
        with _hold_lock(self.home):
            shutil.rmtree(self.folder, ignore_errors=True)
            with suppress(OSError):  # it has other labs
                self.home.rmdir()


@contextmanager
def _hold_lock(folder: Path) -> Iterator[None]:
    """Lock the folder of all labs, which another lab may have removed while this one waited for the lock."""
    is_held = False
    while not is_held:
        folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _check_owner(descriptor, folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            is_held = os.fstat(descriptor).st_nlink > 0
            if is_held:
                yield
        finally:
            os.close(descriptor)


def _check_owner(descriptor: int, folder: Path) -> None:
    """Raise PermissionError unless the folder belongs to this user, as its parent may be writable by all."""
    if os.fstat(descriptor).st_uid != os.geteuid():
        raise PermissionError(1, "it belongs to another user; set TMPDIR to a folder of your own", str(folder))


def _read_start_time(pid: int) -> str:
    """Return a process's start time in clock ticks (proc(5), field 22 of stat).

    Raises:
        ProcessLookupError: the process has ended.
    """
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    if fields[0] in {"Z", "X"}:
        raise ProcessLookupError(f"process {pid} has ended")
    return fields[19]


def list_labs() -> list[LabFolder]:
    """Return every lab that has a folder, stale ones included."""
    try:
        return [LabFolder(entry.name) for entry in sorted(locate_base().iterdir()) if NAME.fullmatch(entry.name)]
    except OSError:
        return []
