"""plan, lock and explain as a user runs them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.main import cli
from trackbed.fabric.plan.node_document import decode_node

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-3]"}]
  rails: 2
  nodesPerUnit: 2
  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/15, gateway: last}
"""


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    return path


def run(*args: object, stdin: str | None = None) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin)


def test_the_table_has_a_line_for_each_port(fabric: Path) -> None:
    result = run("plan", "-f", fabric, "--nodes", "gpu-[0-1]")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].split() == ["node", "unit", "rail", "netdev", "ipv4", "gateway", "pods", "leaf"]
    assert lines[1].split() == [
        "gpu-0", "0", "0", "rail0", "10.0.0.16/16", "10.0.255.254", "10.0.0.17+15", "leaf-u0-r0",
    ]  # fmt: skip
    assert len(lines) == 1 + 2 * 2


def test_json_says_the_same_as_csv(fabric: Path) -> None:
    nodes = json.loads(run("plan", "-f", fabric, "-o", "json").stdout)["nodes"]
    rows = list(csv.DictReader(io.StringIO(run("plan", "-f", fabric, "-o", "csv").stdout)))
    addresses = [port["ipv4"]["address"] for node in nodes for port in node["ports"]]
    assert addresses == [row["ipv4"] for row in rows]
    assert len(addresses) == 4 * 2


def test_one_rail_can_be_chosen(fabric: Path) -> None:
    nodes = json.loads(run("plan", "-f", fabric, "--rail", "1", "-o", "json").stdout)["nodes"]
    assert {port["rail"] for node in nodes for port in node["ports"]} == {1}


def test_the_fabric_can_come_from_standard_input() -> None:
    result = run("plan", "-f", "-", "-o", "json", stdin=FABRIC)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["fabric"]["fabric"] == "train"


def test_the_lock_keeps_addresses_when_a_node_is_removed(fabric: Path) -> None:
    before = run("plan", "-f", fabric, "--nodes", "gpu-3", "-o", "csv").stdout
    assert run("lock", "-f", fabric).stdout.endswith("4 nodes added, 4 in all\n")
    fabric.write_text(FABRIC.replace("gpu-[0-3]", "gpu-[1-3]"))
    assert run("plan", "-f", fabric, "--nodes", "gpu-3", "-o", "csv").stdout == before


def test_lock_check_says_what_is_missing_and_writes_nothing(fabric: Path) -> None:
    result = run("lock", "-f", fabric, "--check")
    assert result.exit_code == 1
    assert "lacks 4 nodes" in result.stdout
    assert not fabric.with_name("trackbed.lock.yaml").exists()


def test_a_count_of_one_has_a_singular_noun(fabric: Path) -> None:
    run("lock", "-f", fabric)
    fabric.write_text(FABRIC.replace("gpu-[0-3]", "gpu-[0-4]"))
    assert "note: 1 node has no slot" in run("plan", "-f", fabric).stderr
    assert "lacks 1 node;" in run("lock", "-f", fabric, "--check").stdout
    assert run("lock", "-f", fabric).stdout.endswith("1 node added, 5 in all\n")
    fabric.write_text(FABRIC.replace("rails: 2", "rails: two"))
    assert run("validate", "-f", fabric).stdout.endswith("1 error, 0 warnings\n")


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("10.0.0.32", "10.0.0.32 is the port of gpu-1 on rail 0 (slot 1, unit 0)"),
        ("10.1.0.18", "10.1.0.18 is for pods of gpu-0 on rail 1 (slot 0, unit 0)"),
        ("10.0.255.254", "10.0.255.254 is the gateway of rail 0 (10.0.0.0/16)"),
        ("10.0.0.80", "10.0.0.80 is free: it would be the port of a node on rail 0 with slot 4 (unit 2)"),
        ("10.0.0.3", "10.0.0.3 lies in rail 0's 10.0.0.0/16, in no node's share; not assigned"),
        ("10.0.0.0", "10.0.0.0 is the network address of rail 0's 10.0.0.0/16; not assigned"),
        ("10.0.255.255", "10.0.255.255 is the broadcast address of rail 0's 10.0.0.0/16; not assigned"),
    ],
)
def test_explain_says_whose_an_address_is(fabric: Path, address: str, says: str) -> None:
    result = run("explain", address, "-f", fabric)
    assert result.stdout == says + "\n"
    assert result.exit_code == 0


def test_an_address_that_the_lock_keeps_is_not_free(fabric: Path) -> None:
    run("lock", "-f", fabric)
    fabric.write_text(FABRIC.replace("gpu-[0-3]", "gpu-[0,2-3]"))
    text = "10.0.0.32 is kept for gpu-1, which left the Fabric: the lock gives it slot 1, here on rail 0"
    assert run("explain", "10.0.0.32", "-f", fabric).stdout == f"{text}\n"


def test_an_address_of_no_rail_is_found_out(fabric: Path) -> None:
    result = run("explain", "192.0.2.1", "-f", fabric)
    assert (result.exit_code, result.stdout) == (1, "192.0.2.1 belongs to no rail of fabric train\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (
            ["plan", "-f", "missing.yaml"],
            "trackbed: cannot read missing.yaml: No such file or directory; name one with -f FILE\n",
        ),
        (
            ["explain", "10.0.0", "-f", "x"],
            (
                "trackbed: '10.0.0' is no address, fault, lint rule, known message or field of the Fabric; "
                "to find a host or an interface, name its Fabric with -f FILE\n"
            ),
        ),
    ],
)
def test_wrong_use_is_one_line_and_status_2(args: list[str], says: str) -> None:
    result = run(*args)
    assert (result.exit_code, result.stderr) == (2, says)


def test_an_unknown_node_is_guessed_at(fabric: Path) -> None:
    result = run("plan", "-f", fabric, "--nodes", "gpu-9")
    message = "trackbed: fabric 'train' has no node 'gpu-9'; did you mean 'gpu-3'?\n"
    assert (result.exit_code, result.stderr) == (2, message)


def test_every_problem_of_a_fabric_is_told_with_its_place(fabric: Path) -> None:
    fabric.write_text(FABRIC.replace("10.0.0.0/15", "10.0.0.1/15").replace("nodesPerUnit", "nodePerUnit"))
    result = run("plan", "-f", fabric)
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{fabric}:7:3: error: unknown field 'nodePerUnit'; did you mean 'nodesPerUnit'? [unknown-field]",
        f"{fabric}:8:45: error: 10.0.0.1/15 has host bits set, write 10.0.0.0/15 [host-bits]",
        "2 problems found; nothing was done",
    ]


def test_a_node_plan_is_what_an_agent_reads(fabric: Path) -> None:
    result = run("render", "node", "-f", fabric, "--node", "gpu-2")
    assert decode_node(result.stdout.encode()).name == "gpu-2"
