"""Archives of a site are read by several processes, which end whatever happens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.waiting import wait_until
from trackbed.host.machine import Machine
from trackbed.host.snapshot.capture import capture
from trackbed.host.snapshot.snapshot import Wanted

ARCHIVES = 40
PRINT = """
import os, sys
from pathlib import Path
from trackbed.doctor import captured_site
from trackbed.doctor.captured import ForeignCaptureError
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
{change}
os.sched_getaffinity = lambda pid: {{0, 1}}
fabric = load_fabric(Path(sys.argv[1], "fabric.yaml").read_bytes(), "fabric.yaml").fabric
nodes = {{node.name: node for node in compute_plan(fabric, {{}}).nodes}}
archives = sorted(Path(sys.argv[1]).glob("*.tar.gz"))
for result in captured_site.excerpt_captures(archives, nodes):
    print(result if isinstance(result, ForeignCaptureError) else f"{{result.node}} {{result.failure}}".strip())
"""
SHOW_WORKERS = """
from tests.waiting import wait_until
excerpt = captured_site.excerpt_capture
def excerpt_capture(archive, nodes):
    Path(sys.argv[1], f"{os.getpid()}.pid").touch()
    wait_until(lambda: len(list(Path(sys.argv[1]).glob("*.pid"))) == 2, "the other worker has begun")
    return excerpt(archive, nodes)
captured_site.excerpt_capture = excerpt_capture
"""
"""A worker that begins late would find no archive left, so the first waits for it."""
DIE = "captured_site.excerpt_capture = lambda archive, nodes: os._exit(9)"
HANG = """
import signal
def excerpt_capture(archive, nodes):
    Path(sys.argv[1], f"{os.getpid()}.pid").touch()
    signal.pause()
captured_site.excerpt_capture = excerpt_capture
"""
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu[01-40]"}]
  rails: 2
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Return a folder with archives of 40 hosts, of which one is cut off and one is of another fabric."""
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    (tmp_path / "host/etc").mkdir(parents=True)
    (tmp_path / "host/etc/machine-id").write_text("a")
    for number in range(1, ARCHIVES + 1):
        with (tmp_path / f"gpu{number:02}.tar.gz").open("xb") as stream:
            capture(Machine(tmp_path / "host"), Wanted(("/etc/machine-id",)), stream)
    (tmp_path / "gpu30.tar.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / "gpu40.tar.gz").rename(tmp_path / "other.tar.gz")
    return tmp_path


def build_argv(site: Path, change: str) -> list[str]:
    return [sys.executable, "-c", PRINT.format(change=change), str(site)]


def list_workers(site: Path) -> Sequence[int]:
    return [int(path.stem) for path in site.glob("*.pid")]


@pytest.mark.needs("processes")
def test_two_processes_give_the_excerpts_in_the_order_of_the_archives(site: Path) -> None:
    argv = build_argv(site, SHOW_WORKERS)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert [line.partition(" ")[0] for line in lines[:39]] == [f"gpu{number:02}" for number in range(1, 40)]
    assert [line for line in lines if " " in line] == [
        f"gpu30 {site}/gpu30.tar.gz cannot be read: it ends before its end: it was cut off, so copy it again",
        f"{site}/other.tar.gz: it has no host name; call the file NODE.tar.gz, or capture with --identified",
    ]
    assert len(list_workers(site)) == 2


@pytest.mark.needs("processes")
def test_a_killed_process_is_an_error_that_says_so(site: Path) -> None:
    done = subprocess.run(build_argv(site, DIE), capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr.splitlines()[-1] == (
        "trackbed.doctor.captured_site.WorkerKilledError: "
        "a process that reads captures was killed; memory may have run out"
    )


@pytest.mark.needs("processes")
def test_processes_end_when_the_command_is_killed(site: Path) -> None:
    with subprocess.Popen(build_argv(site, HANG)) as command:
        wait_until(lambda: len(list_workers(site)) == 2, "two workers have begun")
        workers = list_workers(site)
        command.kill()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), "the workers have ended")
