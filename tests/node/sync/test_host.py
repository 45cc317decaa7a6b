"""The program runs on a host whose root has no Python, no C library, no shell and no folder to write to."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.sync.test_preparer import node
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.snapshot.wire import parse_snapshot
from trackbed.node.sync.host import NodeHost

_BECOME_HOST = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
def do(name, *arguments):
    if getattr(libc, name)(*arguments):
        sys.exit(f"{name}: {os.strerror(ctypes.get_errno())}")
root = sys.argv[1].encode()
do("unshare", 0x20000)  # CLONE_NEWNS
do("mount", b"none", b"/", None, 0x44000, None)  # MS_REC | MS_PRIVATE
do("mount", b"none", root, b"tmpfs", 0, b"mode=755")
os.chdir(root)
for name in ("proc", "old", "etc"):
    os.mkdir(name)
Path("etc/hostname").write_text("bare")
do("mount", b"none", b"proc", b"proc", 0, None)
do("syscall", 155, b".", b"old")  # pivot_root on x86-64
do("umount2", b"/old", 2)  # MNT_DETACH
os.rmdir("/old")
do("mount", b"none", b"/", None, 0x29, None)  # MS_REMOUNT | MS_NOEXEC | MS_RDONLY
print("ready", flush=True)
sys.stdin.read()
"""
"""Makes a root of nothing but /proc and one file, read-only and noexec, and stays in it."""


@pytest.fixture
def bare_host(tmp_path: Path) -> Iterator[NodeHost]:
    """A host as an agent with hostPID sees it, whose root is bare."""
    argv = [sys.executable, "-c", _BECOME_HOST, str(tmp_path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != b"ready\n":
            pytest.skip(f"no mount namespaces here: {process.stderr.read().decode()}")
        yield NodeHost(("nsenter", f"--target={process.pid}", "--mount", "--"))
        process.stdin.close()


@pytest.mark.needs("nsenter")
def test_a_host_without_any_python_is_read_in_its_own_root(bare_host: NodeHost) -> None:
    outcome = asyncio.run(bare_host.capture_snapshot("bare", Wanted(files=("/etc/hostname",), folders=("/", "/etc"))))
    assert "snapshot" in outcome.answer, outcome.message
    snapshot = parse_snapshot(outcome.answer["snapshot"])
    assert (snapshot.read("/etc/hostname"), snapshot.folders["/"]) == ("bare", ("etc", "proc"))


@pytest.mark.needs("nsenter")
def test_a_host_without_any_python_is_compared_with_its_plan(bare_host: NodeHost) -> None:
    outcome = asyncio.run(bare_host.run_request("diff", node()))
    assert outcome.kind == "wrong-host", outcome.message
