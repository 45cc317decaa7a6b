"""What others wrote reaches a terminal as visible text: every command that prints such texts, run on a pty."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml
from trackbed_lab.kubernetes.blocking import connect

from tests.kinds import installed

pytestmark = pytest.mark.needs("processes")

SECONDS = 120.0
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[5mblink\x9b31m\r\u202egnp\u2028\x7f"
"""A title, an erased screen, blinking, a C1 introducer, a carriage return, a reversed line, a separator, DEL."""
OURS = re.compile(r"\x1b\[(0|1|22|3[1236]|39|49)(;(0|1|22|3[1236]|39|49))*m")
"""The sequences of Trackbed's own styles."""
FABRIC = {
    "apiVersion": "trackbed.dev/v1alpha1",
    "kind": "Fabric",
    "metadata": {"name": "evil"},
    "spec": {"nodes": [{"hosts": "evil-[0-1]"}], "rails": 2,
             "addressing": {"scheme": "shared-subnet", "ipv4": "10.99.0.0/16"}},
}  # fmt: skip


def run_on_terminal(*words: str, folder: Path) -> str:
    """Return all that a command sends to the terminal on which it runs."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "PYTHONUTF8": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "trackbed", *words],
        cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    sent, deadline = b"", time.monotonic() + SECONDS
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            sent += part
        process.wait(60)
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return sent.decode()


def assert_harmless(sent: str, *, shown: bool = True) -> None:
    """Check that a terminal would act on nothing but line ends and our own styles."""
    text = OURS.sub("", sent).replace("\r\n", "\n")
    assert [char for char in text if not char.isprintable() and char not in "\n\t"] == [], ascii(text)
    assert "Traceback" not in text, text
    assert not shown or "owned" in text, ascii(text)


def _inventory() -> dict[str, object]:
    nics = [
        {"pci": f"0000:{bus}:00.0", "path": [f"pci0000:{bus}"], "id": "15b3:1021", "model": EVIL, "netdev": EVIL,
         "mac": "02:00:00:00:00:01", "link": "ethernet", "subsystem": "", "speed": 400000, "driver": EVIL}
        for bus in ("17", "3d")
    ]  # fmt: skip
    return {"host": "evil-0", "vendor": EVIL, "product": f"{EVIL}\n  evil: true", "nics": nics, "gpus": []}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inventory.json").write_text(json.dumps(_inventory()))
    (tmp_path / "fabric.yaml").write_text(yaml.safe_dump(FABRIC))
    spec = cast("dict[str, object]", FABRIC["spec"])
    broken = {**FABRIC, "metadata": {"name": EVIL}, "spec": {**spec, EVIL: EVIL}}
    (tmp_path / "broken.yaml").write_text(yaml.safe_dump(broken))
    metadata = {"name": EVIL, "annotations": {EVIL: EVIL}}
    containers = {"containers": [{"name": "c", "image": EVIL}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": containers}
    (tmp_path / f"pod{EVIL}.yaml".replace("/", "")).write_text(yaml.safe_dump(pod))
    template = {"spec": {"containers": [{"name": EVIL, "image": EVIL}]}}
    job_metadata = {"name": f"job{EVIL}", "annotations": {"a": EVIL}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": job_metadata, "spec": {"template": template}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    plans = tmp_path / "netplan"
    plans.mkdir()
    network = {"network": {"version": 2, "ethernets": {f"x{EVIL}": {"addresses": [EVIL], "match": {"name": EVIL}}}}}
    (plans / "evil-0.yaml").write_text(yaml.safe_dump(network))
    return tmp_path


COMMANDS = [
    ("discover", "--root", "inventory.json"),
    ("discover", "--root", "inventory.json", "-o", "json"),
    ("init", "inventory.json"),
    ("plan", "-f", "broken.yaml"),
    ("lint", "."),
    ("lint", ".", "-o", "json"),
    ("job", "add", "native", "job.yaml", "-f", "fabric.yaml"),
    ("import", "netplan", "netplan"),
    ("plan", "-f", f"no{EVIL}.yaml"),
    ("render", "stack", f"no{EVIL}", "-f", "fabric.yaml"),
    (f"no{EVIL}",),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: ascii(" ".join(words))[:40])
def test_what_files_and_machines_say_is_shown_and_not_sent(folder: Path, words: tuple[str, ...]) -> None:
    assert_harmless(run_on_terminal(*words, folder=folder), shown=False)


def test_a_comment_of_a_new_fabric_stays_a_comment(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trackbed", "init", "inventory.json"],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    assert "owned" in done.stdout
    assert "evil" not in yaml.safe_load(done.stdout)["spec"]["nodes"][0]


def test_json_is_the_same_value_for_programs(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "trackbed", "discover", "--root", "inventory.json", "-o", "json"],
        cwd=folder, capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["vendor"] == EVIL
    assert [char for char in done.stdout.decode() if not char.isprintable() and char != "\n"] == []


@pytest.fixture
def evil_cluster(api_server: Path) -> Iterator[Path]:
    """A cluster in which a kubelet and an agent wrote all that they may."""
    labels = {"trackbed.dev/fabric": "evil"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "evil-0", "labels": labels}}
    ready = {"type": "Ready", "status": "False", "reason": f"r{EVIL}", "message": f"{EVIL}\nevil-1: as planned"}
    rails = {"trackbed.dev/rail0": "1"}
    status = {"conditions": [ready], "allocatable": rails, "capacity": rails}
    head = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "RailNode", "metadata": {"name": "evil-0"}}
    rail_node = {**head, "spec": {"fabric": "evil", "slot": 0}}
    rolled = {"type": "Rolled", "status": "False", "reason": f"Failed{EVIL}", "message": f"{EVIL}\nforged"}
    progressing = {**rolled, "type": "Progressing"}
    fabric_head = {key: FABRIC[key] for key in ("apiVersion", "kind", "metadata")}
    with connect(str(api_server)) as client:
        installed(client)
        for body in (FABRIC, node, rail_node):
            client.apply(body)
        client.apply({**fabric_head, "status": {"conditions": [progressing]}}, subresource="/status", manager="x")
        client.apply({**node, "status": status}, subresource="/status", manager="kubelet", force=True)
        client.apply({**head, "status": {"conditions": [rolled]}}, subresource="/status", manager="agent")
        yield api_server
        for body in (rail_node, FABRIC, node):
            client.delete(body)


@pytest.mark.parametrize(
    "words",
    [("status",), ("status", "-f", "fabric.yaml"), ("status", "-o", "json"), ("diff", "cluster", "native")],
    ids=" ".join,
)
def test_what_nodes_say_in_the_cluster_is_shown_and_not_sent(
    evil_cluster: Path, folder: Path, words: tuple[str, ...]
) -> None:
    sent = run_on_terminal(*words, "--kubeconfig", str(evil_cluster), folder=folder)
    assert_harmless(sent, shown=words[0] == "status")
    assert not [line for line in sent.splitlines() if line.startswith(("forged", "evil-1: as planned"))]


def test_a_traceback_and_a_log_line_are_shown_and_not_sent(folder: Path) -> None:
    """Whatever writes to standard output or error goes through the filter, also what no command prints itself."""
    program = (
        "import sys, logging\n"
        "from trackbed.cli.terminal import guard_streams\n"
        "guard_streams()\n"
        f"text = {EVIL!r}\n"
        "logging.basicConfig(stream=sys.stderr)\n"
        "logging.warning(text)\n"
        "print(text)\n"
        "raise SystemExit(text)\n"
    )
    (folder / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    printed = done.stdout + done.stderr
    assert printed.count("owned") == 3
    assert [char for char in printed if not char.isprintable() and char != "\n"] == []
