import fcntl
import os
import shutil
import signal
from pathlib import Path

import pytest
from trackbed_lab import lab_folder
from trackbed_lab.lab_folder import RUN_PREFIX, LabFolder, list_labs

from tests.lab.nobody import NOBODY


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "labs"
    monkeypatch.setattr(lab_folder, "locate_base", lambda: folder)
    return folder


def claimed(name: str = "one") -> LabFolder:
    made = LabFolder(name)
    made.claim()
    made.record_keeper(os.getpid())
    return made


@pytest.mark.usefixtures("base")
def test_a_lab_lives_while_its_keeper_does() -> None:
    assert claimed().find_keeper() == os.getpid()


@pytest.mark.parametrize(
    "written",
    [f"{os.getpid()} 1", "4194305 1", "", "17", "seventeen 1", "1 2 3"],
    ids=["pid-used-again", "no-such-process", "empty", "no-start-time", "no-number", "too-much"],
)
@pytest.mark.usefixtures("base")
def test_what_names_no_living_keeper_is_no_lab(written: str) -> None:
    made = claimed()
    (made.folder / "keeper").write_text(written)
    assert made.find_keeper() is None


@pytest.mark.usefixtures("base")
def test_a_living_lab_is_not_claimed_again() -> None:
    claimed()
    with pytest.raises(FileExistsError, match=r"^lab 'one' is up already$"):
        LabFolder("one").claim()


@pytest.mark.usefixtures("base")
def test_claiming_clears_what_a_dead_lab_left() -> None:
    made = claimed()
    (made.folder / "keeper").write_text("4194305 1")
    (made.folder / "log").write_text("it died")
    LabFolder("one").claim()
    assert not made.log.exists()
    assert made.files.is_dir()


def test_the_folder_of_all_labs_goes_with_the_last(base: Path) -> None:
    first, two = claimed("one"), claimed("two")
    assert [lab.name for lab in list_labs()] == ["one", "two"]
    first.release()
    assert base.exists()
    two.release()
    assert not base.exists()
    assert list_labs() == []


def test_a_folder_that_the_last_lab_removed_meanwhile_is_made_again(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = claimed("one")
    lock = fcntl.flock

    def wait_for_lock(descriptor: int, operation: int) -> None:
        """Lock as the last lab ends, which had the lock until now."""
        if first.folder.exists():
            shutil.rmtree(base)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", wait_for_lock)
    claimed("two")
    assert [lab.name for lab in list_labs()] == ["two"]
    assert base.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("base")
def test_releasing_twice_is_fine() -> None:
    made = claimed()
    made.release()
    made.release()
    assert not made.folder.exists()


def test_nobody_else_may_look_into_a_lab(base: Path) -> None:
    made = claimed()
    assert [path.stat().st_mode & 0o077 for path in (base, made.files)] == [0, 0]


@pytest.mark.parametrize("name", ["", ".", "..", "/etc", "a/b", "../a", ".hidden", "-n", "a b", "é", "a\n", "a" * 33])
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is no name for a lab: letters, digits"):
        LabFolder(name)


@pytest.mark.parametrize("name", ["a", "run-1", "default", "a.b_c-9", "a" * 32])
def test_a_plain_name_is_taken(base: Path, name: str) -> None:
    assert LabFolder(name).folder == base / name


def test_a_place_stays_where_it_was_when_its_user_becomes_root(
    tmp_path: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = LabFolder("one")
    monkeypatch.setattr(lab_folder, "locate_base", lambda: tmp_path / "of root")
    assert made.folder == base / "one"


@pytest.mark.needs("processes")
@pytest.mark.usefixtures("base")
def test_a_keeper_that_is_dead_but_not_reaped_holds_no_lab() -> None:
    child = os.fork()
    if child == 0:
        signal.pause()
    made = claimed()
    made.record_keeper(child)
    assert made.find_keeper() == child
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has ended, and stays in /proc until it is reaped
    assert made.find_keeper() is None
    os.waitpid(child, 0)


@pytest.mark.usefixtures("base")
def test_a_claimed_lab_is_kept_by_who_claimed_it() -> None:
    LabFolder("one").claim()
    with pytest.raises(FileExistsError):
        LabFolder("one").claim()


def test_what_killed_runs_left_goes_with_the_next_claim(base: Path) -> None:
    dead, living, named = claimed(f"{RUN_PREFIX}1"), claimed(f"{RUN_PREFIX}2"), claimed("mine")
    for made in (dead, named):
        (made.folder / "keeper").write_text("4194305 1")
    LabFolder("next").claim()
    assert sorted(path.name for path in base.iterdir()) == ["mine", "next", living.name]


@pytest.mark.needs("root")
def test_a_folder_of_all_labs_that_another_user_made_is_not_trusted(base: Path) -> None:
    base.mkdir()
    os.chown(base, NOBODY, NOBODY)
    with pytest.raises(PermissionError, match="it belongs to another user; set TMPDIR to a folder of your own"):
        LabFolder("one").claim()
