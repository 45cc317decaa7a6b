"""The agent's start: failures are single exceptions that a caller can catch."""

from pathlib import Path

import pytest

from tests.node.rails.node import planned
from trackbed.node.rails.agent import AgentPaths, run_agent
from trackbed.node.rails.presence import CniFolders

pytestmark = pytest.mark.needs("namespaces")


def test_a_socket_that_cannot_be_created_raises_its_error(tmp_path: Path) -> None:
    paths = AgentPaths(tmp_path / "state", tmp_path / ("s" * 120))
    with pytest.raises(OSError, match="a socket's path may have 107 bytes at most"):
        run_agent(planned(), paths, lambda: None)


def test_an_executable_that_cannot_be_installed_raises_its_error(tmp_path: Path) -> None:
    folders = CniFolders(tmp_path / "none", tmp_path)
    with pytest.raises(FileNotFoundError, match="none/"):
        run_agent(planned(), AgentPaths(tmp_path / "state", tmp_path / "socket", cni=folders), lambda: None)
