from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from trackbed.host.machine import Machine
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import read_snapshot


class Together:
    """A runner whose programs end only when as many as `parties` run at the same time."""

    def __init__(self, parties: int) -> None:
        """Wait for this many."""
        self.barrier = threading.Barrier(parties, timeout=10)

    def has_program(self, program: str) -> bool:
        """Everything but one."""
        return program != "absent"

    def run(self, argv: Sequence[str]) -> ProgramResult:
        """Ends when the others run, too."""
        self.barrier.wait()
        return ProgramResult(0, argv[0])


def test_programs_run_side_by_side_and_are_told_in_the_order_asked(tmp_path: Path) -> None:
    names = [f"program{number}" for number in range(8, 0, -1)]
    wanted = Wanted(commands=tuple((name,) for name in (*names, "absent")))
    snapshot = read_snapshot(Machine(tmp_path, runner=Together(len(names))), wanted)
    assert list(snapshot.outputs) == [(name,) for name in names]
    assert [snapshot.get_output(name) for name in names] == names


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_program_that_would_load_the_rdma_stack_runs_only_where_it_is_loaded(
    tmp_path: Path, *, is_loaded: bool
) -> None:
    if is_loaded:
        (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    programs = ("ibv_devinfo",), ("rdma", "-j", "dev", "show")
    snapshot = read_snapshot(Machine(tmp_path, runner=Together(1)), Wanted(commands=(*programs, ("ibstat",))))
    assert list(snapshot.outputs) == [*(programs if is_loaded else ()), ("ibstat",)]


class Refusing(Machine):
    """A machine whose kernel refuses to open what is called `refused`."""

    def locate(self, path: str) -> Path:
        """Refuse where a link is read."""
        return self._refuse(path, super().locate(path))

    def locate_inside(self, path: str) -> Path:
        """Refuse where a file is read or a folder listed."""
        return self._refuse(path, super().locate_inside(path))

    def _refuse(self, path: str, located: Path) -> Path:
        if path.endswith("/refused"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return located


REFUSED = {
    "a file": Wanted(files=("/etc/refused",)),
    "a link": Wanted(links=("/etc/refused",)),
    "a folder": Wanted(folders=("/etc/refused",)),
    "a folder with the files of a pattern": Wanted(files=("/etc/refused/*.conf",)),
    "a folder with the links of a pattern": Wanted(links=("/etc/refused/*/driver",)),
    "a folder that a pattern finds": Wanted(folders=("/etc/*/net",), files=("/etc/ref*/x*",)),
}


@pytest.mark.parametrize("wanted", REFUSED.values(), ids=REFUSED)
def test_what_the_kernel_refuses_is_unreadable(tmp_path: Path, wanted: Wanted) -> None:
    (tmp_path / "etc/refused").mkdir(parents=True)
    snapshot = read_snapshot(Refusing(tmp_path), wanted)
    assert snapshot == Snapshot(unreadable={"/etc/refused": "Permission denied"})


def test_what_is_absent_or_of_another_type_is_not_unreadable(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/file").touch()
    absent = ("/etc/absent", "/etc/absent/*", "/etc/file/below", "/etc/file/*")
    wanted = Wanted(files=(*absent, "/etc"), links=(*absent, "/etc/file"), folders=(*absent, "/etc/file"))
    assert read_snapshot(Machine(tmp_path), wanted) == Snapshot()


def test_a_pattern_matches_as_in_a_shell(tmp_path: Path) -> None:
    for path in ("a/1/x.conf", "a/1/.hidden.conf", "a/2/x.conf", "a/b3/x.conf", "a/2/y", "c"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    wanted = Wanted(files=("/a/[0-9]*/*.conf", "/*", "/a/?/y"))
    assert list(read_snapshot(Machine(tmp_path), wanted).files) == ["/a/1/x.conf", "/a/2/x.conf", "/c", "/a/2/y"]
