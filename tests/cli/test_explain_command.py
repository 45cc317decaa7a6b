"""`explain` answers whatever the other commands name; `validate`, and errors as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.test_completion import FABRIC
from trackbed.cli.main import COMMANDS, SECTIONS, cli
from trackbed.doctor.catalogue import load_catalogue

CASES = {
    "route-rule-missing": "`from <source> lookup <table>`",
    "hca-prefix": "hca-prefix (",
    "input-unreadable": "input-unreadable (unknown): what this step needs can be read\n",
    "node-unread": "node-unread (unknown): every node was read\n",
    "spec.addressing.scheme": "value: shared-subnet or node-subnet",
    "spec.qos.dscp": "\n  example:\n    dscp: 24\n",
    "kernel.hugepages": "\n  example:\n    hugepages:\n      - size: 1G\n        count: 64\n",
    "addressing": "  ipv4: IPv4 supernet of all rails.",
    "hostPorts": "spec.nodes.hostPorts: Ports of single hosts",
    "gpu-1": "gpu-1 is a node of fabric train: slot 1, unit 0, 2 ports",
    "rail1": "rail1 is the port of rail 1 on 4 of 4 nodes of train",
    "10.0.0.16": "10.0.0.16 is the port of gpu-0 on rail 0",
    "vf-not-passed": "vf-not-passed (sriov-cni): the network got no VF\n",
    'grpc call failed: no free addresses in the pool "rail3"': "this node has no free address left in pool rail3\n",
}


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    file = tmp_path / "fabric.yaml"
    file.write_text(FABRIC)
    return str(file)


@pytest.mark.parametrize("topic", CASES)
def test_explain_knows(topic: str, fabric: str) -> None:
    done = CliRunner().invoke(cli, ["explain", topic, "-f", fabric])
    assert (done.exit_code, done.stderr) == (0, "")
    assert CASES[topic] in done.stdout


def test_the_end_of_several_fields_is_answered_with_all_of_them(fabric: str) -> None:
    done = CliRunner().invoke(cli, ["explain", "count", "-f", fabric])
    assert done.exit_code == 2
    assert "'count' is several fields of the Fabric: spec." in done.stderr
    assert "spec.vfs.count" in done.stderr


def test_an_address_of_another_range_is_explained(fabric: str) -> None:
    done = CliRunner().invoke(cli, ["explain", "172.17.0.9", "-f", fabric])
    assert done.stdout.endswith("it lies in 172.17.0.0/16, which otherRanges.docker keeps for docker\n")
    assert done.exit_code == 1


@pytest.mark.parametrize("fault", load_catalogue())
def test_no_fault_shows_a_raw_template(fault: str) -> None:
    shown = CliRunner().invoke(cli, ["faults", fault]).stdout
    assert f"{fault} (" in shown
    assert "{" not in shown.replace("{config: disabled}", "")


def test_validate_shows_all_mistakes_with_their_places(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(FABRIC.replace("rails: 2", "rails: two\n  nope: 1"))
    done = CliRunner().invoke(cli, ["validate", "-f", str(file)])
    assert done.exit_code == 1
    assert [line.removeprefix(str(file)).split(" ")[0] for line in done.stdout.splitlines()[:2]] == [":6:10:", ":7:3:"]


def test_errors_are_json_where_output_is_json(tmp_path: Path) -> None:
    file = tmp_path / "fabric.yaml"
    file.write_text(FABRIC.replace("rails: 2", "rails: two"))
    done = CliRunner().invoke(cli, ["plan", "-f", str(file), "-o", "json"])
    error = json.loads(done.stderr)["error"]
    assert (done.exit_code, done.stdout, error["exitStatus"]) == (2, "", 2)
    assert [(problem["code"], problem["line"]) for problem in error["problems"]] == [("bad-rails", 6)]
    absent = CliRunner().invoke(cli, ["plan", "-f", "absent.yaml", "-o", "json"])
    assert json.loads(absent.stderr)["error"]["message"].startswith("cannot read absent.yaml")


def test_every_command_is_in_one_section_of_help() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(COMMANDS)


def test_a_fault_that_no_namespace_can_have_is_said_to_exist() -> None:
    done = CliRunner().invoke(cli, ["lab", "break", "bios-gpu-missing"])
    assert done.exit_code == 2
    assert done.stderr == "trackbed: bios-gpu-missing cannot be broken in namespaces; no lab can break it\n"
