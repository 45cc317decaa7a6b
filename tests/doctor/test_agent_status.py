"""An agent that does not answer is a reason, except on a node without any."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from trackbed.doctor.agent_status import EXECUTABLE, AgentStatus, read_agent_status
from trackbed.host.machine import Machine


def raise_error(error: Exception) -> dict[str, Any]:
    raise error


SILENT = {
    "nobody listens": (
        ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED)),
        "it does not answer (Connection refused); see its pod: ",
    ),
    "it hangs": (TimeoutError("timed out"), "it does not answer (timed out); see its pod: "),
    "it is another program": (
        ConnectionError("the answer is not the status of an agent: x"),
        "it does not answer (the answer is not the status of an agent: x); ",
    ),
    "it is not for this user": (PermissionError(errno.EACCES, "Permission denied"), "it does not answer (Permission"),
}


@pytest.mark.parametrize(("error", "reason"), SILENT.values(), ids=SILENT)
def test_silence_is_a_reason(tmp_path: Path, error: Exception, reason: str) -> None:
    status, silence = read_agent_status(Machine(tmp_path), lambda: raise_error(error))
    assert status == AgentStatus()
    assert silence.startswith(reason)


def test_a_node_without_executable_and_socket_has_no_agent(tmp_path: Path) -> None:
    missing = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    assert read_agent_status(Machine(tmp_path), lambda: raise_error(missing)) == (AgentStatus(), "")
    assert read_agent_status(Machine(tmp_path), None) == (AgentStatus(), "")


def test_a_missing_socket_is_a_reason_where_the_executable_is_installed(tmp_path: Path) -> None:
    executable = tmp_path / EXECUTABLE.lstrip("/")
    executable.parent.mkdir(parents=True)
    executable.touch()
    _, silence = read_agent_status(Machine(tmp_path), lambda: raise_error(FileNotFoundError()))
    assert silence == (
        "it has no socket, and /opt/cni/bin/trackbed is installed; "
        "see its pod: kubectl get pods -A -o wide -l app.kubernetes.io/name=trackbed-agent"
    )


PORT = {"rail": 0, "name": "net1", "addresses": [{"text": "10.0.0.1/31", "gateway": "10.0.0.0"}]}
POD = {"container": "c", "netns": "/run/netns/x", "mode": "macvlan", "ports": [PORT]}
GARBAGE: dict[str, dict[str, Any]] = {
    "no list": {"attachments": 7},
    "a pod without namespace": {"attachments": [{"container": "c"}]},
    "a rail that is no number": {"attachments": [{**POD, "ports": [{**PORT, "rail": "x"}]}]},
    "an address that is none": {"attachments": [{**POD, "ports": [{**PORT, "addresses": [{"text": "10.0.0/x"}]}]}]},
    "a prefix that is none": {"attachments": [{**POD, "ports": [{**PORT, "addresses": [{"text": "10.0.0.1"}]}]}]},
    "a refusal without pod": {"refused": [{}]},
    "moved ports that are no names": {"moved": [1]},
}


@pytest.mark.parametrize("document", GARBAGE.values(), ids=GARBAGE)
def test_a_status_that_cannot_be_read_is_a_reason(tmp_path: Path, document: dict[str, Any]) -> None:
    status, silence = read_agent_status(Machine(tmp_path), lambda: document)
    assert status == AgentStatus()
    assert silence.startswith("its status cannot be read (")
    assert silence.endswith("; use the version of trackbed that the agent has")


def test_a_status_is_read_with_fields_that_doctor_does_not_know(tmp_path: Path) -> None:
    document = {"attachments": [POD | {"done": True}], "refused": [], "moved": ["rail0"], "timings": {}}
    status, silence = read_agent_status(Machine(tmp_path), lambda: document)
    assert (silence, status.moved, status.attachments[0].ports[0].name) == ("", frozenset({"rail0"}), "net1")
