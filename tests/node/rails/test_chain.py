"""Trackbed in the chain of somebody else's network."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from trackbed.cli.agent import command
from trackbed.node.rails.chain import ChainError, add_to_chain, remove_from_chain

FLANNEL = {
    "name": "cbr0",
    "cniVersion": "1.0.0",
    "plugins": [
        {"type": "flannel", "delegate": {"hairpinMode": True, "isDefaultGateway": True}},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}


@pytest.fixture
def conflist(tmp_path: Path) -> Path:
    path = tmp_path / "10-flannel.conflist"
    path.write_text(json.dumps(FLANNEL))
    path.chmod(0o640)
    return path


def test_our_plugin_comes_last_and_goes_without_a_trace(conflist: Path) -> None:
    assert add_to_chain(conflist)
    assert [plugin["type"] for plugin in json.loads(conflist.read_text())["plugins"]] == [
        "flannel",
        "portmap",
        "trackbed",
    ]
    assert not add_to_chain(conflist)
    assert remove_from_chain(conflist)
    assert json.loads(conflist.read_text()) == FLANNEL
    assert list(json.loads(conflist.read_text())) == list(FLANNEL)
    assert not remove_from_chain(conflist)
    assert conflist.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in conflist.parent.iterdir()] == [conflist.name]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "has no list of plugins; name the .conflist of the primary network"),
        ('{"type": "bridge"}', "has no list of plugins"),
        ('{"plugins": ["bridge"]}', "has no list of plugins"),
        ('{"plugins": []}', "has cniVersion null, in which Trackbed cannot be called; give it one of 0.3.0, 0.3.1"),
        ('{"cniVersion": "0.2.0", "plugins": [{"type": "trackbed"}]}', 'has cniVersion "0.2.0"'),
    ],
)
def test_what_is_no_list_is_told_and_left(conflist: Path, text: str, message: str) -> None:
    conflist.write_text(text)
    with pytest.raises(ChainError, match=re.escape(message)):
        add_to_chain(conflist)
    assert conflist.read_text() == text


@pytest.mark.parametrize("versions", [{"cniVersion": "0.3.1"}, {"cniVersion": "0.2.0", "cniVersions": ["1.0.0"]}])
def test_a_list_of_each_version_in_use_is_extended(conflist: Path, versions: dict[str, object]) -> None:
    conflist.write_text(json.dumps(FLANNEL | versions))
    assert add_to_chain(conflist)


def test_a_disk_that_is_full_leaves_the_list_as_it_was(conflist: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        add_to_chain(conflist)
    assert json.loads(conflist.read_text()) == FLANNEL


def test_the_commands_chain_and_unchain(conflist: Path) -> None:
    done = CliRunner().invoke(command, ["install-cni", str(conflist.parent), "--chain", str(conflist)])
    assert (done.exit_code, done.output.splitlines()[1]) == (0, f"{conflist}: added")
    assert CliRunner().invoke(command, ["remove-cni", str(conflist.parent), "--chain", str(conflist)]).exit_code == 0
    assert json.loads(conflist.read_text()) == FLANNEL
    assert not (conflist.parent / "trackbed").exists()


def test_every_configuration_of_a_folder_is_left_and_what_is_none_stays(conflist: Path) -> None:
    folder = conflist.parent
    second, odd = folder / "20-second.conflist", folder / "30-odd.conf"
    second.write_text(json.dumps(FLANNEL))
    odd.write_text("no JSON")
    for path in (conflist, second):
        assert CliRunner().invoke(command, ["install-cni", str(folder), "--chain", str(path)]).exit_code == 0
    done = CliRunner().invoke(command, ["remove-cni", str(folder), "--networks", str(folder)])
    assert (done.exit_code, done.output) == (0, f"{conflist}: removed\n{second}: removed\n")
    assert [json.loads(path.read_text()) for path in (conflist, second)] == [FLANNEL] * 2
    assert odd.read_text() == "no JSON"
    again = CliRunner().invoke(command, ["remove-cni", str(folder), "--networks", str(folder / "none")])
    assert (again.exit_code, again.output) == (0, "")


@pytest.mark.needs("processes")
def test_a_pod_that_must_not_end_stays_until_it_is_told(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "trackbed", "agent", "remove-cni", str(tmp_path), "--stay"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "Trackbed is out of the chain; this waits for SIGTERM\n"
        program.terminate()
        assert program.wait(30) == 0


def test_a_list_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["install-cni", str(tmp_path), "--chain", str(tmp_path / "no.conflist")])
    assert (done.exit_code, "No such file or directory" in done.output) == (2, True)
