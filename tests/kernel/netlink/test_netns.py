from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.namespaces import fresh_netns
from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket

OWN = Path("/proc/thread-self/ns/net")


def test_thread_is_inside_for_the_block_and_back_after_it(here: int) -> None:
    original = netns.read_inode(OWN)
    with netns.enter_netns(here):
        assert netns.read_inode(OWN) == netns.read_inode(here) != original
    assert netns.read_inode(OWN) == original


def test_thread_comes_back_when_the_block_fails(here: int) -> None:
    original = netns.read_inode(OWN)
    with pytest.raises(ZeroDivisionError), netns.enter_netns(here):
        _ = 1 // 0
    assert netns.read_inode(OWN) == original


def test_no_namespace_means_staying() -> None:
    original = netns.read_inode(OWN)
    with netns.enter_netns(None):
        assert netns.read_inode(OWN) == original


def test_other_threads_stay_where_they_are(here: int) -> None:
    original, inodes = netns.read_inode(OWN), []
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        entered.wait(10)
        inodes.append(netns.read_inode(OWN))
        left.set()

    thread = threading.Thread(target=other)
    thread.start()
    with netns.enter_netns(here):
        entered.set()
        assert left.wait(10)
    thread.join()
    assert inodes == [original]


def test_blocks_nest(here: int, there: int) -> None:
    with netns.enter_netns(here):
        with netns.enter_netns(there):
            assert netns.read_inode(OWN) == netns.read_inode(there)
        assert netns.read_inode(OWN) == netns.read_inode(here)


def test_no_descriptor_stays_open(here: int) -> None:
    before = _open_descriptors()
    with netns.enter_netns(Path(f"/proc/self/fd/{here}")), Socket(netns=here), fresh_netns():
        pass
    with pytest.raises(OSError, match="cannot enter"), netns.enter_netns(Path("/proc/self/ns/mnt")):
        pass
    assert _open_descriptors() == before


def test_missing_namespace_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="gone"), netns.enter_netns(tmp_path / "gone"):
        pass
    with pytest.raises(FileNotFoundError, match="gone"):
        netns.read_inode(tmp_path / "gone")


@pytest.mark.needs("root")
def test_file_that_is_no_namespace_is_named(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.touch()
    with (
        pytest.raises(OSError, match=r"cannot enter network namespace .*/plain: Invalid argument"),
        netns.enter_netns(plain),
    ):
        pass


@pytest.mark.needs("root")
def test_pinned_namespace_lives_until_deleted_and_deleting_twice_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "pod"
    netns.create_netns(path)
    try:
        with Socket(netns=path) as sock:
            assert [link.name for link in list_links(sock)] == ["lo"]
        assert netns.read_inode(path) != netns.read_inode(OWN)
    finally:
        netns.delete_netns(path)
    netns.delete_netns(path)
    assert not path.exists()
    assert str(path) not in Path("/proc/self/mounts").read_text()


def test_new_leaves_what_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_text("mine")
    with pytest.raises(FileExistsError):
        netns.create_netns(path)
    assert path.read_text() == "mine"


def test_thread_that_cannot_come_back_ends_the_program(here: int) -> None:
    lose_the_way_home = f"""
import os
from trackbed.kernel.netlink import netns
with netns.enter_netns({here}):
    for fd in map(int, os.listdir("/proc/self/fd")):
        if fd > 2 and fd != {here} and os.path.exists(f"/proc/self/fd/{{fd}}"):
            os.dup2(0, fd)
print("went on")
"""
    ended = _python(lose_the_way_home, here)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("trackbed: cannot return to the original network namespace (")
    assert ended.stderr.endswith("; stopping before the wrong one is changed\n")


@pytest.mark.needs("root")
def test_nothing_is_entered_where_coming_back_is_not_allowed() -> None:
    own_a_foreign_namespace = """
import ctypes, os, threading
from trackbed.kernel.netlink import netns
assert ctypes.CDLL(None).unshare(0x10000000) == 0, "CLONE_NEWUSER"
made = []
def make():
    netns.unshare()
    made.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
thread = threading.Thread(target=make)
thread.start()
thread.join()
before = os.stat("/proc/thread-self/ns/net").st_ino
try:
    with netns.enter_netns(made[0]):
        print("inside")
except OSError as error:
    print(os.stat("/proc/thread-self/ns/net").st_ino == before, error)
"""
    ended = _python(own_a_foreign_namespace)
    assert ended.stdout == (
        "True [Errno 1] cannot return to the original network namespace: Operation not permitted\n"
    ), ended.stderr


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def _python(code: str, *descriptors: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        pass_fds=descriptors,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
