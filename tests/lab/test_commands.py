"""`trackbed lab` as its users start it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.lab_folder import LabFolder

from tests.cli.json_page import check_document
from tests.lab.commands import Said, lab, trackbed
from tests.lab.fabrics import P2P, fabric
from tests.lab.nobody import NOBODY
from tests.lab.sandboxes import all_ending, descendants, keeper
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("processes")


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabFolder]:
    with lab(tmp_path_factory.mktemp("up"), "--pods") as place:
        yield place


def execute(place: LabFolder, where: str, *program: str) -> Said:
    return trackbed("lab", "exec", "--name", place.name, where, "--", *program)


def interfaces(place: LabFolder, where: str) -> set[str]:
    listed = "import socket; print(*(name for _, name in socket.if_nameindex()))"
    return set(execute(place, where, sys.executable, "-c", listed).out.split())


def test_status_shows_each_node_with_its_pod_and_the_rails_it_has(up: LabFolder) -> None:
    lines = trackbed("lab", "status", "--name", up.name).out.splitlines()
    assert [line.split() for line in lines if line.startswith("node-")] == [
        ["node-0", "0", "2", "pod-node-0", "2"],
        ["node-1", "1", "2", "pod-node-1", "2"],
    ]


def test_exec_is_in_the_namespace_that_it_names(up: LabFolder) -> None:
    assert interfaces(up, "node-0") == {"lo", "eth0"}  # its rails have moved into the pod
    assert interfaces(up, "pod-node-0") == {"lo", "eth0", "rail0", "rail1"}
    assert interfaces(up, "spine") == {"lo", "down0", "down1", "down2", "down3"}


@pytest.mark.parametrize("status", [0, 1, 7])
def test_exec_ends_with_the_status_of_its_program(up: LabFolder, status: int) -> None:
    assert execute(up, "node-1", "sh", "-c", f"exit {status}") == Said(status, "", "")


def test_exec_of_a_killed_program_says_by_which_signal(up: LabFolder) -> None:
    assert execute(up, "node-1", "sh", "-c", "kill -9 $$").status == 128 + signal.SIGKILL


def test_exec_names_what_the_lab_has_when_asked_for_something_else(up: LabFolder) -> None:
    done = execute(up, "nod-0", "true")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("trackbed: the lab has no 'nod-0'; did you mean 'node-0'?")


def test_exec_names_all_that_the_lab_has_when_nothing_is_similar(up: LabFolder) -> None:
    names = "leaf-u[0-1]-r[0-1],mgmt,node-[0-1],pod-node-[0-1],spine"
    assert execute(up, "xyz", "true") == Said(2, "", f"trackbed: the lab has no 'xyz'; it has {names}\n")


def test_exec_says_which_program_it_cannot_run(up: LabFolder) -> None:
    assert execute(up, "node-0", "no-such") == Said(2, "", "trackbed: cannot run no-such: No such file or directory\n")


def test_a_second_lab_of_the_same_name_is_refused(up: LabFolder) -> None:
    done = trackbed("lab", "up", "--name", up.name)
    assert done.status == 2
    assert f"lab {up.name!r} is up already; trackbed lab down --name {up.name} removes it" in done.err
    assert trackbed("lab", "status", "--name", up.name).status == 0


def test_doctor_finds_a_lab_that_is_up_sound(up: LabFolder) -> None:
    assert trackbed("lab", "doctor", "--name", up.name).status == 0


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_a_lab_that_is_not_there_is_said_to_be_missing(command: str) -> None:
    done = trackbed("lab", command, "--name", "test-nothing")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("trackbed: there is no lab 'test-nothing'; ")


def test_down_removes_everything_and_may_be_said_twice(tmp_path: Path) -> None:
    with lab(tmp_path) as place:
        keeper = place.find_keeper()
        assert keeper is not None
        processes = [keeper, *descendants(keeper)]
        assert len(processes) >= 5  # keeper, first, two agents, the leaves' voice
        with all_ending(processes):
            first = trackbed("lab", "down", "--name", place.name)
        assert first == Said(0, f"lab {place.name!r} is gone\n", "")
        assert not place.folder.exists()
        assert str(place.folder) not in Path("/proc/self/mountinfo").read_text()
        second = trackbed("lab", "down", "--name", place.name)
        assert second == Said(0, f"there is no lab {place.name!r}\n", "")


def test_after_kill_9_nothing_runs_and_the_name_is_free(tmp_path: Path) -> None:
    with lab(tmp_path) as place:
        keeper = place.find_keeper()
        assert keeper is not None
        with all_ending([keeper, *descendants(keeper)]):
            os.kill(keeper, signal.SIGKILL)
        assert place.find_keeper() is None
        assert trackbed("lab", "status", "--name", place.name) == Said(
            2,
            "",
            f"trackbed: lab {place.name!r} has ended: its log is empty; "
            f"trackbed lab down --name {place.name} clears it away\n",
        )
        assert trackbed("lab", "down", "--name", place.name).status == 0
        assert not place.folder.exists()
        again = trackbed("lab", "up", "-f", tmp_path / "fabric.yaml", "--name", place.name)
        assert (again.status, again.err) == (0, "")
        assert execute(place, "node-0", "true").status == 0


def test_a_fault_is_broken_named_and_healed(up: LabFolder) -> None:
    there = ("--name", up.name, "fabric-port-on-wrong-leaf", "--node", "node-1", "--rail", "0")
    assert trackbed("lab", "break", *there).status == 0
    try:
        broken = trackbed("lab", "doctor", "--name", up.name, "-o", "json")
        assert broken.status == 1
        check_document("lab doctor", json.loads(broken.out))
        first = json.loads(broken.out)["first"]
        assert (first["id"], first["node"], first["rail"]) == ("fabric-port-on-wrong-leaf", "node-1", 0)
    finally:
        assert trackbed("lab", "heal", *there).status == 0
    assert trackbed("lab", "doctor", "--name", up.name).status == 0


@pytest.fixture
def home() -> Iterator[Path]:
    """Return a folder that a user without privileges may write."""
    path = Path(tempfile.mkdtemp(prefix="trackbed-test-"))
    if os.geteuid() == 0:
        os.chown(path, NOBODY, NOBODY)
    yield path
    shutil.rmtree(path)


@pytest.mark.slow
@pytest.mark.parametrize("runtime", [True, False], ids=["with-runtime-folder", "without"])
def test_a_user_without_privileges_runs_it_all_and_nothing_is_left(home: Path, *, runtime: bool) -> None:
    (home / "fabric.yaml").write_bytes(fabric(P2P))
    drop = (sys.executable, "-m", "tests.lab.nobody") if os.geteuid() == 0 else ()
    where = {"HOME": str(home), "TMPDIR": str(home), "XDG_RUNTIME_DIR": str(home) if runtime else ""}
    files = ("-f", home / "fabric.yaml", "--report", home / "report.html")
    done = trackbed("lab", "run", *files, "-o", "json", before=drop, variables=where)
    if "does not allow namespaces" in done.err:
        pytest.skip(done.err)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    check_document("lab run", result)
    assert [line.split(maxsplit=1)[0] for line in done.err.splitlines()] == ["ok"] * len(result["phases"])
    assert [phase["name"] for phase in result["phases"] if not phase["ok"]] == []
    assert len(result["pairs"]) == 12
    assert (result["fault"]["named"]["id"], result["fault"]["healed"]) == (result["fault"]["id"], True)
    assert (home / "report.html").read_text().startswith("<!doctype html>")
    assert sorted(path.name for path in home.iterdir()) == ["fabric.yaml", "report.html"]


def test_up_lets_go_of_the_pipes_it_was_started_with(tmp_path: Path) -> None:
    (tmp_path / "fabric.yaml").write_bytes(fabric(P2P))
    place = LabFolder(f"test-pipe-{os.getpid()}")
    command = [sys.executable, "-m", "trackbed", "lab", "up", "-f", str(tmp_path / "fabric.yaml")]
    try:
        done = subprocess.run([*command, "--name", place.name], capture_output=True, timeout=30, check=True)
        assert done.stdout.startswith(f"lab {place.name!r} is up".encode())
    finally:
        trackbed("lab", "down", "--name", place.name)


@pytest.mark.parametrize("command", [("up",), ("down",), ("status",), ("doctor",), ("exec", "node-0", "true")])
def test_no_command_takes_a_name_that_leads_elsewhere(tmp_path: Path, command: tuple[str, ...]) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    done = trackbed("lab", command[0], "--name", precious, *command[1:])
    assert done.status == 2
    assert f"{str(precious)!r} is no name for a lab" in done.err
    assert precious.is_dir()


@pytest.mark.parametrize("taken", ["mgmt", "spine", "pod-a"])
def test_a_node_called_as_a_switch_or_pod_of_the_lab_is_refused_at_once(tmp_path: Path, taken: str) -> None:
    (tmp_path / "fabric.yaml").write_bytes(fabric(P2P, hosts=f'"a,{taken}"'))
    place = LabFolder(f"test-taken-{os.getpid()}")
    done = trackbed("lab", "up", "-f", tmp_path / "fabric.yaml", "--name", place.name)
    expected = f"the lab did not come up: the lab has a switch or pod called {taken!r}; rename the node"
    assert done == Said(2, "", f"trackbed: {expected}\n")
    assert not place.folder.exists()


def test_run_refuses_an_unknown_fault_before_it_does_anything() -> None:
    done = trackbed("lab", "run", "--break", "route-rule-mising")
    assert done == Said(2, "", "trackbed: no fault 'route-rule-mising'; did you mean 'route-rule-missing'?\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_early_takes_its_lab_with_it(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "fabric.yaml").write_bytes(fabric(P2P))
    files = ("-f", str(tmp_path / "fabric.yaml"), "--report", str(tmp_path / "report.html"))
    command = [sys.executable, "-u", "-m", "trackbed", "lab", "run", *files]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"ok   set up")
        with all_ending(descendants(process.pid)):
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    left = LabFolder(f"run-{process.pid}")
    if number == signal.SIGKILL:
        assert left.find_keeper() is None
        left.release()
    else:
        assert (process.returncode, errors) == (128 + number, b"interrupted; the lab is gone\n")
    assert not left.folder.exists()
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_up_that_is_interrupted_takes_its_lab_with_it(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "fabric.yaml").write_bytes(fabric(P2P))
    place = LabFolder(f"test-interrupted-{os.getpid()}-{number}")
    command = ["env", "--default-signal=INT", sys.executable, "-m", "trackbed", "lab", "up", "-f", "fabric.yaml"]
    command += ["--name", place.name]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: place.find_keeper() not in {None, process.pid}, "the lab has a keeper")
        pid = place.find_keeper()
        assert pid is not None
        inside = wait_until(lambda: descendants(pid), "the keeper has children")
        os.kill(inside[0], signal.SIGSTOP)  # so that it does not come up meanwhile
        with all_ending([pid, *descendants(pid)]):
            process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (128 + number, b"", b"interrupted; the lab is gone\n")
    assert not place.folder.exists()


def test_a_lab_that_is_still_being_set_up_is_said_to_be() -> None:
    place = LabFolder(f"test-early-{os.getpid()}")
    place.claim()
    try:
        with keeper(lambda: signal.sigwait({signal.SIGUSR1}), place.files) as pid:
            place.record_keeper(pid)
            wait_until(lambda: descendants(pid), "the keeper has children")
            assert place.find_keeper() == pid
            done = trackbed("lab", "status", "--name", place.name)
    finally:
        place.release()
    assert done == Said(3, "", f"trackbed: lab {place.name!r} is still being set up; try again in some seconds\n")


def test_an_agent_that_died_is_named_with_its_last_words(tmp_path: Path) -> None:
    with lab(tmp_path) as place:
        keeper = place.find_keeper()
        assert keeper is not None
        agents = [pid for pid in descendants(keeper) if b"\0agent\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        with all_ending(agents):
            for pid in agents:
                os.kill(pid, signal.SIGKILL)
        done = trackbed("lab", "status", "--name", place.name)
        assert done.status == 3
        assert done.err.startswith("trackbed: the agent of node-0 does not serve: ")
        assert "Traceback" not in done.err
