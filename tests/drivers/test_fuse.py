"""The folder like sysfs ends with its block, whoever else has the mount."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

import pytest

from tests.drivers.fuse import Folder, serve

pytestmark = pytest.mark.needs("root", "unshare")


def test_a_folder_ends_although_another_mount_namespace_has_a_copy_of_its_mount(tmp_path: Path) -> None:
    tree = Folder(lambda: {"name": "rail0\n"}, lambda _: None, lambda _: None, lambda _: False)
    with serve(tmp_path / "sys", tree):
        other = subprocess.Popen(["unshare", "-m", "sh", "-c", "echo ready; exec cat"], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        assert (tmp_path / "sys" / "name").read_text() == "rail0\n"
    threads = [thread.name for thread in threading.enumerate()]
    other.communicate(timeout=60)
    assert "sysfs" not in threads
