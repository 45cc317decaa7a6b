"""The pods' stand-ins on emulated servers: a server starts again until its test is over."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from trackbed_lab.vm import pods

pytestmark = pytest.mark.needs("processes")


def serve(tmp_path: Path, command: str) -> list[str]:
    """Run a server's script to its end, without its pauses; return the lines of its log."""
    text = pods.render_server(command, str(tmp_path / "log")).replace(pods.SERVING, str(tmp_path / "serving"))
    subprocess.run(["sh", "-c", f"sleep() {{ :; }}\n{text}wait\n"], check=True, timeout=30)
    return (tmp_path / "log").read_text().splitlines()


def test_a_server_is_started_again_also_after_it_has_served_a_client(tmp_path: Path) -> None:
    assert serve(tmp_path, "echo up") == ["up"] * pods.TRIES


def test_a_server_ends_where_its_test_is_over(tmp_path: Path) -> None:
    assert serve(tmp_path, f"echo up; rm -rf {tmp_path}/serving") == ["up"]
