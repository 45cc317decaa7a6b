import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from trackbed_lab.sandbox import find_first_process, run_inside, start_sandbox

from tests.lab.sandboxes import SECONDS, all_ending, descendants, in_sandbox, keeper
from tests.namespaces import fresh_netns
from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, list_links
from trackbed.kernel.netlink.sockets import Socket

pytestmark = pytest.mark.needs("namespaces")

_RTMGRP_LINK = 1  # include/uapi/linux/rtnetlink.h


def kinds() -> dict[str, int]:
    return {kind: Path(f"/proc/self/ns/{kind}").stat().st_ino for kind in ("mnt", "net", "pid")}


@contextmanager
def waiting(folder: Path) -> Iterator[int]:
    """A sandbox that has written a file and waits, by the pid of its keeper."""
    reading, writing = os.pipe()

    def wait() -> int:
        (folder / "said").write_text("hello")
        os.write(writing, b"ready")
        signal.pause()
        return 0

    with keeper(wait, folder) as pid:
        os.close(writing)
        ready, _, _ = select.select([reading], [], [], SECONDS)
        output = os.read(reading, 5) if ready else b""
        os.close(reading)
        if output != b"ready":
            pytest.skip("this machine does not allow namespaces for a lab")
        yield pid


def test_the_work_is_the_first_process_of_namespaces_of_its_own(tmp_path: Path) -> None:
    pid, theirs = in_sandbox(tmp_path, lambda: (os.getpid(), kinds()))
    assert pid == 1
    assert not {*theirs.values()} & {*kinds().values()}


def test_the_work_sees_only_its_own_processes(tmp_path: Path) -> None:
    assert in_sandbox(tmp_path, lambda: [p.name for p in Path("/proc").iterdir() if p.name.isdecimal()]) == ["1"]


def test_files_of_the_sandbox_are_seen_inside_only(tmp_path: Path) -> None:
    with waiting(tmp_path) as pid:
        assert list(tmp_path.iterdir()) == []
        assert run_inside(pid, lambda: (tmp_path / "said").read_text() != "hello") == 0


@pytest.mark.parametrize("status", [0, 1, 3])
def test_the_keeper_ends_with_the_status_of_the_work(tmp_path: Path, status: int) -> None:
    with keeper(lambda: status, tmp_path) as pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == status


def test_a_bug_in_the_work_is_told_and_never_runs_into_the_callers_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fall() -> int:
        raise KeyError("wrench")

    with keeper(fall, tmp_path) as pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 70
    assert "KeyError: 'wrench'" in capfd.readouterr().err


@pytest.mark.parametrize(("body", "status"), [("return", 7), ("exit", 8), ("killed", 128 + signal.SIGKILL)])
def test_who_joins_gets_the_status_of_what_it_ran(tmp_path: Path, body: str, status: int) -> None:
    def run() -> int:
        if body == "exit":
            sys.exit(8)
        if body == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return 7

    with waiting(tmp_path) as pid:
        assert run_inside(pid, run) == status


def test_who_joins_is_in_the_namespaces_of_the_first(tmp_path: Path) -> None:
    def differ() -> int:
        try:
            theirs = {k: Path(f"/proc/1/ns/{k}").stat().st_ino for k in ("mnt", "net", "pid")}
        except OSError:
            traceback.print_exc()
            return 2
        return int(theirs != kinds())

    with waiting(tmp_path) as pid:
        assert run_inside(pid, differ) == 0


def test_a_sandbox_that_is_gone_cannot_be_joined(tmp_path: Path) -> None:
    with waiting(tmp_path) as pid:
        with all_ending([pid, *descendants(pid)]):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(OSError, match=rf"process {pid} holds no lab any more|No such file or directory"):
            run_inside(pid, lambda: 0)


@pytest.mark.needs("root")  # a rootless lab cannot put a cable into a namespace of the test's
@pytest.mark.parametrize("victim", ["keeper", "first"])
def test_kill_9_leaves_no_process_no_mount_and_no_namespace(tmp_path: Path, victim: str) -> None:
    reading, writing = os.pipe()
    with fresh_netns() as outside, _link_events(outside) as events:

        def hold() -> int:
            netns.create_netns(tmp_path / "pinned")
            with Socket(netns=tmp_path / "pinned") as sock:
                sock.send([build_create_veth(VethEnd("in-the-lab"), VethEnd("canary", outside))])
            if os.fork() == 0:
                os.setsid()
            else:
                os.write(writing, b"ready")
            signal.pause()
            return 0

        with keeper(hold, tmp_path) as pid:
            assert os.read(reading, 5) == b"ready"
            assert _names(outside) == {"lo", "canary"}
            below = descendants(pid)
            assert len(below) == 2
            with all_ending([pid, *below]):
                os.kill(pid if victim == "keeper" else find_first_process(pid), signal.SIGKILL)
        # The other end of its cable goes when the kernel has taken a namespace apart, and only then.
        while "canary" in _names(outside):
            assert events.recv(1 << 16)
    os.close(reading)
    os.close(writing)
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    tmp_path.rmdir()


@contextmanager
def _link_events(descriptor: int) -> Iterator[socket.socket]:
    """What the kernel tells of network links in a namespace (rtnetlink(7)); a wait is bounded."""
    with netns.enter_netns(descriptor):
        events = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    with events:
        events.bind((0, _RTMGRP_LINK))
        events.settimeout(SECONDS)
        yield events


def _names(descriptor: int) -> set[str]:
    with Socket(netns=descriptor) as sock:
        return {link.name for link in list_links(sock)}


def test_a_keeper_with_a_log_keeps_nothing_of_its_callers_pipes_and_session(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log, files = tmp_path / "log", tmp_path / "files"
    files.mkdir()

    def speak() -> int:
        os.write(1, b"to the log")
        return os.getsid(0)  # 0: the session's leader is not in this pid namespace

    pid = start_sandbox(speak, files, log)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert log.read_text() == "to the log"
    assert capfd.readouterr().out == ""


def test_a_keeper_without_a_log_dies_with_its_caller(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    caller = os.fork()
    if caller == 0:
        pid = start_sandbox(_pause, tmp_path)
        os.write(writing, str(pid).encode())
        signal.pause()
    pid = int(os.read(reading, 16))
    with all_ending([pid]):
        os.kill(caller, signal.SIGKILL)
        os.waitpid(caller, 0)
    os.close(reading)
    os.close(writing)


def _pause() -> int:
    signal.pause()
    return 0
