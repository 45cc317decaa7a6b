"""libcni's own cnitool as the runtime: what Go's types take from the agent, and how it calls (CNI 0.3.1 to 1.1.0)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import build
from trackbed_lab.kubernetes.programs import CNITOOL

from tests.node.rails.node import CALL_SECONDS, Node, Pod, inside

pytestmark = [pytest.mark.needs("root", "unshare", "go"), pytest.mark.usefixtures("agent")]

VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
_KEEPS = 'mount -t tmpfs tmpfs /var/lib && mkdir /var/lib/cni && mount --bind "$0" /var/lib/cni && exec "$@"'
"""libcni keeps results in /var/lib/cni; here that is a folder of the test's."""


@pytest.fixture(scope="session")
def cnitool() -> Path:
    return build.build_programs(CNITOOL, print) / "cnitool"


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest, node: Node) -> str:
    """A network of that version."""
    (node.folder / "net.d").mkdir()
    (node.folder / "kept").mkdir()
    network = {"cniVersion": request.param, "name": "rails", "plugins": [{"type": "trackbed"}]}
    (node.folder / "net.d/rails.conflist").write_text(json.dumps(network))
    return str(request.param)


def run(cnitool: Path, node: Node, command: str, pod: Pod) -> subprocess.CompletedProcess[str]:
    """One call of cnitool."""
    variables = {"CNI_PATH": str(node.executable.parent), "NETCONFPATH": str(node.folder / "net.d")}
    argv = ["unshare", "-m", "sh", "-c", _KEEPS, str(node.folder / "kept"), str(cnitool), command, "rails"]
    return subprocess.run(
        [*argv, str(pod.path)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS,
        check=False,
    )


def good(cnitool: Path, node: Node, command: str, pod: Pod) -> str:
    """What a call that must succeed printed."""
    done = run(cnitool, node, command, pod)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_a_pod_is_attached_checked_and_given_back(cnitool: Path, node: Node, version: str) -> None:
    pod = node.pod()
    result: dict[str, Any] = json.loads(good(cnitool, node, "add", pod))
    assert result["cniVersion"] == version
    assert [entry["name"] for entry in result["interfaces"]] == [f"rail{rail}" for rail in range(8)]
    assert [entry["interface"] for entry in result["ips"]] == list(range(8))
    assert inside(pod.path).rails == [f"rail{rail}" for rail in range(8)]
    if version != "0.3.1":  # it knows no CHECK, and cnitool refuses to call it
        assert good(cnitool, node, "check", pod) == ""
    assert good(cnitool, node, "status", pod) == ""
    assert good(cnitool, node, "del", pod) == ""
    assert inside(pod.path).rails == []
    assert good(cnitool, node, "del", pod) == ""


def test_a_check_tells_what_is_not_as_it_was(cnitool: Path, node: Node, version: str) -> None:
    if version == "0.3.1":
        return
    pod = node.pod()
    good(cnitool, node, "add", pod)
    subprocess.run(
        ["nsenter", f"--net={pod.path}", "ip", "link", "set", "rail3", "mtu", "1500"], check=True, timeout=CALL_SECONDS
    )
    done = run(cnitool, node, "check", pod)
    assert done.returncode != 0
    assert "rail 3: MTU of rail3 is 1500, was 9000" in done.stderr + done.stdout


def test_a_collection_deletes_what_the_runtime_knows_and_no_more(cnitool: Path, node: Node, version: str) -> None:
    del version
    known, unknown = node.pod(), node.pod()
    good(cnitool, node, "add", known)
    node.add(unknown)  # by another runtime: cnitool names no valid attachments, so nothing can be told of it
    good(cnitool, node, "gc", known)
    assert inside(known.path).rails == []
    assert len(inside(unknown.path).rails) == 8
