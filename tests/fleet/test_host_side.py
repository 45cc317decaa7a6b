"""What runs on the host, and whether a plan is this host's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.site import _fabric
from tests.namespaces import fresh_netns
from trackbed.cli.options import read_fabric
from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet import archive, boot
from trackbed.fleet import node as on_host
from trackbed.fleet.node import handle_request, is_planned_host
from trackbed.fleet.task import build_task
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
    ("hostname", "matches"),
    [("gpu001", True), ("GPU001.example.org", True), ("gpu002", False), ("gpu0011", False)],
)
def test_a_plan_is_for_the_host_of_its_name(node: NodePlan, hostname: str, matches: bool) -> None:
    assert is_planned_host(Machine(Path("/")), node, hostname) is matches


@pytest.mark.parametrize("verb", ["diff", "apply"])
def test_the_plan_of_another_host_touches_nothing(node: NodePlan, tmp_path: Path, verb: str) -> None:
    root = tmp_path / "root"
    (root / "etc/netplan").mkdir(parents=True)
    (root / ".dockerenv").touch()
    request = {"verb": verb, "node": json.loads(encode_node(node)), "files": {}, "persist": "none"}
    reply = handle_request(Machine(root), request)
    assert (reply["outcome"], "nothing was changed there" in reply["message"]) == ("wrong-host", True)
    assert sorted(path.name for path in root.rglob("*")) == [".dockerenv", "etc", "netplan"]


@pytest.mark.needs("processes")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "gpu[001-003]"), "has no node 'gpu003'"),
        (("--nodes", "gpu[001-"), "--nodes gpu[001-:"),
        (("--nodes", "gpu[001-002]", "--batch", "ten"), "--batch ten: write a number of hosts"),
        (("--nodes", "gpu[001-002]", "--batch", "0%"), "--batch 0%: write a number of hosts"),
    ],
    ids=["unknown node", "torn set", "batch in words", "empty batch"],
)
def test_wrong_words_are_refused_before_any_host_is_asked(fabric: Path, words: tuple[str, ...], message: str) -> None:
    command = [sys.executable, "-m", "trackbed", "apply", "-f", str(fabric), *words, "--yes"]
    done = subprocess.run(
        command, cwd=fabric.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, message in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


@pytest.mark.parametrize(("persist", "kept"), [("none", True), ("networkd", False)])
def test_only_persist_none_leaves_every_file_alone(
    node: NodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persist: str, kept: bool
) -> None:
    """What apply itself makes of `until_reboot` is tried on real namespaces in tests/host."""
    arguments: dict[str, Any] = {}

    def refused(*values: Any) -> None:
        arguments["until_reboot"] = values[-1].until_reboot
        raise HostError("enough")

    monkeypatch.setattr(on_host, "apply", refused)
    monkeypatch.setattr(on_host, "is_planned_host", lambda *_: True)
    request = {"verb": "apply", "persist": persist, "files": {"networkd": {}}, "node": json.loads(encode_node(node))}
    assert handle_request(Machine(tmp_path), request)["message"] == "enough"
    assert arguments == {"until_reboot": kept}


@pytest.mark.parametrize("python", ["the same", "another"])
def test_a_host_runs_what_its_python_can_read(
    node: NodePlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    if python == "another":
        monkeypatch.setattr(archive, "pack_compiled", lambda: b"compiled for a Python that is not here")
    done = subprocess.run(
        ["sh", "-c", boot.build_command()],
        input=boot.build_payload(build_task("boot", node, "none", 30)),
        env={"PATH": os.environ["PATH"], "TRACKBED_ROOT": str(tmp_path)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.decode().splitlines()[0] == "trackbed began"
    assert "boot_id cannot be read" in done.stdout.decode().splitlines()[1]


def test_every_login_shell_can_parse_the_command() -> None:
    """Between single quotes csh expands `!` and ends a word at a newline, and fish reads backslashes."""
    command = boot.build_command()
    assert (set("!\\\n") & set(command), command.count("'")) == (set(), 6)


@pytest.mark.parametrize("kept", [0, 7, 1000])
def test_nothing_begins_before_all_has_arrived(node: NodePlan, kept: int) -> None:
    sent = boot.build_payload(build_task("boot", node, "none", 30))[:kept]
    done = subprocess.run(["sh", "-c", boot.build_command()], input=sent, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (boot.CUT_SHORT, b"")


@pytest.mark.parametrize(
    ("content", "has"),
    [
        (encode_node, True),
        (lambda node: json.dumps(json.loads(encode_node(node)), indent=2).encode(), True),
        (lambda node: encode_node(node._replace(slot=node.slot + 1)), False),
        (lambda _: b"{}", False),
        (lambda _: b"torn", False),
        (None, False),
    ],
    ids=["same", "in other words", "another", "no plan", "torn", "none"],
)
def test_a_host_says_whether_it_was_given_this_very_plan(
    node: NodePlan,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: Callable[[NodePlan], bytes] | None,
    has: bool,
) -> None:
    monkeypatch.setattr(on_host, "is_planned_host", lambda *_: True)
    if content is not None:
        (tmp_path / "etc/trackbed").mkdir(parents=True)
        (tmp_path / "etc/trackbed/node.json").write_bytes(content(node))
    request = {"verb": "diff", "persist": "none", "files": {}, "node": json.loads(encode_node(node))}
    with fresh_netns() as namespace:
        reply = handle_request(Machine(tmp_path, namespace), request)
    assert (reply["outcome"], reply["has_plan"]) == ("differs", has)
