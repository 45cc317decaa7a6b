"""doctor compares the host name of what it reads with the node as which it is to judge it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.main import cli
from trackbed.host.snapshot.recorded import RECORD

FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes:
    - hosts: gpu-[0-1]
      ports: [{netdev: rail0}]
      hostPorts: {gpu-0: ["02:00:00:00:00:00"], gpu-1: ["02:00:00:00:01:00"]}
  rails: 1
  addressing: {scheme: point-to-point, ipv4: 172.20.0.0/16}
"""
NAME, MAC = "proc/sys/kernel/hostname", "sys/class/net/eth5/address"
REFUSAL = "is gpu-1 by its host name, another node of fabric 'train' than gpu-0"


def diagnose(tmp_path: Path, files: Mapping[str, str], *options: str, identified: bool = True) -> Result:
    """Run doctor as gpu-0 on a captured tree with these files."""
    root, fabric = tmp_path / "root", tmp_path / "fabric.yaml"
    fabric.write_text(FABRIC)
    record = json.dumps({"outputs": [], "identified": identified})
    for path, text in {RECORD: record, "proc/cmdline": "quiet", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return CliRunner().invoke(cli, ["doctor", "-f", str(fabric), "--node", "gpu-0", "--root", str(root), *options])


@pytest.mark.parametrize("name", ["gpu-1\n", "GPU-1.site.example\n"])
def test_the_files_of_another_node_are_not_judged(tmp_path: Path, name: str) -> None:
    done = diagnose(tmp_path, {NAME: name})
    assert (done.exit_code, done.stdout) == (2, "")
    assert REFUSAL in done.stderr
    assert "Write --node gpu-1" in done.stderr


def test_a_live_root_is_compared_by_its_configured_name(tmp_path: Path) -> None:
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/hostname").write_text("gpu-1\n")
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    options = ("-f", str(tmp_path / "fabric.yaml"), "--node", "gpu-0", "--root", str(tmp_path / "root"))
    done = CliRunner().invoke(cli, ["doctor", *options, "--netns", "/proc/self/ns/net"])
    assert (done.exit_code, REFUSAL in done.stderr) == (2, True)


def test_this_host_is_compared_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("Linux", "gpu-1", "6.1", "1", "x86_64")
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(names))
    (tmp_path / "fabric.yaml").write_text(FABRIC)
    done = CliRunner().invoke(cli, ["doctor", "-f", str(tmp_path / "fabric.yaml"), "--node", "gpu-0"])
    assert (done.exit_code, f"this host {REFUSAL}" in done.stderr) == (2, True)


JUDGED: dict[str, tuple[Mapping[str, str], str]] = {
    "its own name": ({NAME: "gpu-0.site\n"}, ""),
    "another node's name, but its own MAC": ({NAME: "gpu-1\n", MAC: "02:00:00:00:00:00\n"}, ""),
    "no name": ({}, ""),
    "a name of no node": ({NAME: "localhost\n"}, "is called localhost; it is judged as gpu-0"),
}


@pytest.mark.parametrize(("files", "note"), JUDGED.values(), ids=JUDGED)
def test_a_machine_that_may_be_the_node_is_judged(tmp_path: Path, files: Mapping[str, str], note: str) -> None:
    done = diagnose(tmp_path, files, "-o", "json")
    assert {finding["node"] for finding in json.loads(done.stdout)["findings"]} == {"gpu-0"}
    assert [line for line in done.stderr.splitlines() if line.startswith("note: ")] == (
        [f"note: the machine below {tmp_path / 'root'} {note}"] if note else []
    )


def test_a_pseudonym_is_no_name(tmp_path: Path) -> None:
    done = diagnose(tmp_path, {NAME: "host-1\n"}, "-o", "json", identified=False)
    assert json.loads(done.stdout)["findings"]
    assert "note: " not in done.stderr
