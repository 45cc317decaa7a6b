"""What runs on the host, and whether a plan is this host's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.site import _fabric
from trackbed.cli.options import read_fabric
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import write_node
from trackbed.fleet import archive, boot
from trackbed.fleet import node as on_host
from trackbed.fleet.node import answer, meant
from trackbed.fleet.task import task
from trackbed.host.machine import Machine
from trackbed.host.transaction.apply import HostError


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(json.dumps(_fabric(2)))
    return path


@pytest.fixture
def node(fabric: Path) -> NodePlan:
    return read_fabric(str(fabric))[1].nodes[0]


@pytest.mark.parametrize(
    ("hostname", "own"),
    [("gpu001", True), ("GPU001.example.org", True), ("gpu002", False), ("gpu0011", False)],
)
def test_a_plan_is_for_the_host_of_its_name(node: NodePlan, hostname: str, own: bool) -> None:
    assert meant(Machine(Path("/")), node, hostname) is own


@pytest.mark.parametrize("verb", ["diff", "apply"])
def test_the_plan_of_another_host_touches_nothing(node: NodePlan, tmp_path: Path, verb: str) -> None:
    root = tmp_path / "root"
    (root / "etc/netplan").mkdir(parents=True)
    (root / ".dockerenv").touch()
    request = {"verb": verb, "node": json.loads(write_node(node)), "files": {}, "persist": "none"}
    found = answer(Machine(root), request)
    assert (found["outcome"], "nothing was changed there" in found["message"]) == ("wrong-host", True)
    assert sorted(path.name for path in root.rglob("*")) == [".dockerenv", "etc", "netplan"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--nodes", "gpu[001-003]"), "has no node 'gpu003'"),
        (("--nodes", "gpu[001-"), "--nodes gpu[001-:"),
        (("--nodes", "gpu[001-002]", "--batch", "ten"), "--batch ten: write a number of hosts"),
        (("--nodes", "gpu[001-002]", "--batch", "0%"), "--batch 0%: write a number of hosts"),
    ],
    ids=["unknown node", "torn set", "batch in words", "empty batch"],
)
def test_wrong_words_are_refused_before_any_host_is_asked(fabric: Path, words: tuple[str, ...], said: str) -> None:
    command = [sys.executable, "-m", "trackbed", "apply", "-f", str(fabric), *words, "--yes"]
    done = subprocess.run(
        command, cwd=fabric.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, said in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


@pytest.mark.parametrize(("persist", "kept"), [("none", True), ("networkd", False)])
def test_only_persist_none_leaves_every_file_alone(
    node: NodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persist: str, kept: bool
) -> None:
    """What apply itself makes of `until_reboot` is tried on real namespaces in tests/host."""
    asked: dict[str, Any] = {}

    def refused(*_: object, until_reboot: bool) -> None:
        asked["until_reboot"] = until_reboot
        raise HostError("enough")

    monkeypatch.setattr(on_host, "apply", refused)
    monkeypatch.setattr(on_host, "meant", lambda *_: True)
    request = {"verb": "apply", "persist": persist, "files": {"networkd": {}}, "node": json.loads(write_node(node))}
    assert answer(Machine(tmp_path), request)["message"] == "enough"
    assert asked == {"until_reboot": kept}


@pytest.mark.parametrize("python", ["the same", "another"])
def test_a_host_runs_what_its_python_can_read(
    node: NodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    if python == "another":
        monkeypatch.setattr(archive, "compiled", lambda: b"compiled for a Python that is not here")
    done = subprocess.run(
        ["sh", "-c", boot.command()],
        input=boot.payload(task("boot", node, "none", 30)),
        env={"PATH": os.environ["PATH"], "TRACKBED_ROOT": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.decode().splitlines()[0] == "trackbed began"
    assert "boot_id cannot be read" in done.stdout.decode().splitlines()[1]


@pytest.mark.parametrize("kept", [0, 7, 1000])
def test_nothing_begins_before_all_has_arrived(node: NodePlan, kept: int) -> None:
    sent = boot.payload(task("boot", node, "none", 30))[:kept]
    done = subprocess.run(["sh", "-c", boot.command()], input=sent, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (boot.CUT_SHORT, b"")
