"""`trackbed render switch` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.render_switch import switch

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-3]"}]
  rails: 2
  nodesPerUnit: 2
  addressing: {scheme: point-to-point, ipv4: 172.16.0.0/12}
  otherRanges: {docker: []}
"""
LEAVES = ["leaf-u0-r0", "leaf-u0-r1", "leaf-u1-r0", "leaf-u1-r1"]


@pytest.fixture
def fabric(tmp_path: Path) -> Path:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    return path


def run(fabric: Path, *args: object) -> Result:
    return CliRunner().invoke(switch, ["-f", str(fabric), *map(str, args)])


def test_one_leaf_is_printed(fabric: Path) -> None:
    result = run(fabric, "--format", "nvue", "--leaf", "leaf-u1-r1", "--uplinks", "swp[31-32]")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "nv set interface swp2 ipv4 address 172.24.0.7/31\n" in result.stdout
    assert "neighbor swp32 type unnumbered" in result.stdout


def test_all_leaves_are_printed_one_after_the_other(fabric: Path) -> None:
    result = run(fabric, "--format", "nvue")
    assert [line[2:12] for line in result.stdout.splitlines() if line.startswith("# leaf")] == LEAVES
    assert (
        result.stderr
        == "note: no uplinks are named, so each leaf reaches its own hosts only; name them with --uplinks\n"
    )


@pytest.mark.parametrize(("name", "suffix"), [("nvue", ".nv"), ("sonic", ".json")])
def test_a_folder_gets_a_file_for_each_leaf_and_each_agrees(
    fabric: Path, tmp_path: Path, name: str, suffix: str
) -> None:
    folder = tmp_path / "leaves"
    assert run(fabric, "--format", name, "--to", folder).stdout == f"wrote 4 files below {folder}\n"
    assert sorted(path.name for path in folder.iterdir()) == [f"{name}{suffix}" for name in LEAVES]
    checks = [word for path in folder.iterdir() for word in ("--check", path)]
    result = run(fabric, *checks)
    assert (result.exit_code, result.stdout) == (0, "no disagreement between hosts and 4 switches\n")


def test_disagreements_end_with_status_1(fabric: Path, tmp_path: Path) -> None:
    path = tmp_path / "some.nv"
    path.write_text(run(fabric, "--format", "nvue", "--leaf", "leaf-u0-r1").stdout.replace("9216", "1500"))
    result = run(fabric, "--check", path)
    assert (result.exit_code, result.stderr) == (1, "1 disagreement between hosts and 1 switch\n")
    assert result.stdout == (
        "leaf-u0-r1 swp1, swp2: MTU: hosts send 9000 bytes, switch carries 1500; "
        "nv set interface PORT link mtu 9216 [mtu]\n"
    )


def test_disagreements_are_json_too(fabric: Path, tmp_path: Path) -> None:
    path = tmp_path / "leaf-u0-r0.json"
    path.write_text(json.dumps({"PORT": {"Ethernet0": {}, "Ethernet4": {}}}))
    result = run(fabric, "--check", path, "-o", "json")
    mismatches = json.loads(result.stdout)
    assert result.exit_code == 1
    assert [mismatch["code"] for mismatch in mismatches] == ["address", "class", "cnp", "address"]
    assert mismatches[0] == {
        "code": "address",
        "where": "leaf-u0-r0 Ethernet0",
        "what": "the gateway of gpu-0",
        "host": "use 172.16.0.1/31",
        "switch": "has no address",
        "fix": "config interface ip add Ethernet0 172.16.0.1/31",
    }


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param([], "--format is missing: ", id="no format"),
        pytest.param(["--format", "nvue", "--leaf", "leaf-u0-r3"], "no leaf 'leaf-u0-r3'; did you mean", id="leaf"),
        pytest.param(["--format", "sonic"], "4 leaves, and JSON holds one", id="several in one JSON"),
        pytest.param(["--format", "nvue", "-o", "json"], "-o json belongs to --check", id="json"),
        pytest.param(["--format", "nvue", "--ports", "swp[1-"], "--ports: 'swp[1-' is no port range", id="ports"),
        pytest.param(["--format", "nvue", "--ports", "swp[1-999999999]"], "--ports: ", id="ports without end"),
        pytest.param(["--format", "nvue", "--ports", "swp1"], "leaf-u0-r0 has ports for 1 hosts", id="too few ports"),
        pytest.param(["--format", "nvue", "--uplink-range", "10.0.0.1/8"], "--uplink-range: ", id="range"),
        pytest.param(
            ["--format", "nvue", "--uplinks", "swp[57-58]", "--uplink-range", "172.16.0.0/24"],
            "uplink range 172.16.0.0/24 overlaps 172.16.0.0/13 of rail 0; name a free --uplink-range",
            id="range of a rail",
        ),
        pytest.param(["--format", "sonic", "--first-vlan", "1"], "VLANs from 2 to 4094", id="default VLAN, sonic"),
        pytest.param(["--format", "nvue", "--first-vlan", "1"], "VLANs from 2 to 4094", id="default VLAN, nvue"),
        pytest.param(["--format", "nvue", "--first-asn", "0"], "AS numbers from 4200000000", id="asn"),
        pytest.param(["--check", "absent.nv"], "cannot read absent.nv: No such file", id="absent file"),
        pytest.param(["--check", "absent.nv", "--format", "nvue"], "--check reads the format from the file", id="both"),
        pytest.param(["--check", "a", "--check", "b", "--leaf", "c"], "several files", id="one leaf for two files"),
    ],
)
def test_wrong_use_ends_with_status_2(fabric: Path, args: list[str], message: str) -> None:
    result = run(fabric, *args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_a_file_that_is_no_configuration_is_named(fabric: Path) -> None:
    result = run(fabric, "--check", fabric)
    assert result.exit_code == 2
    assert result.stderr == (
        f"trackbed: {fabric} is not a configuration of a switch: it has neither `nv set` commands nor a `set` mapping, "
        "as `nv config show` prints them\n"
    )


@pytest.mark.parametrize(
    ("ranges", "given_range", "message"),
    [
        pytest.param(
            "{docker: [], services: [10.96.0.0/12]}",
            "10.100.0.0/24",
            "uplink range 10.100.0.0/24 overlaps 10.96.0.0/12 of otherRanges.services; name a free --uplink-range",
            id="services",
        ),
        pytest.param(
            "{}",
            "172.17.0.0/24",
            "uplink range 172.17.0.0/24 overlaps 172.17.0.0/16 of otherRanges.docker; name a free --uplink-range, or "
            "write otherRanges: {docker: []} where no docker runs",
            id="docker's default",
        ),
    ],
)
def test_an_uplink_range_that_others_use_is_refused(
    tmp_path: Path, ranges: str, given_range: str, message: str
) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.replace("{docker: []}", ranges).replace("172.16.0.0/12", "10.0.0.0/12"))
    result = run(path, "--format", "nvue", "--uplinks", "swp[57-58]", "--uplink-range", given_range)
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"error: {message} [uplink-range-overlap]\n" in result.stderr


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("nv set qos roce state enabled\nnv set qos roce mode lossy-multi-tc\n", 2, id="commands"),
        pytest.param("- set:\n    qos:\n      roce:\n        mode: lossy-multi-tc\n", 4, id="YAML"),
        pytest.param('[{"set": {"qos": {"roce": {"mode": "lossy-multi-tc"}}}}]', 1, id="JSON"),
    ],
)
def test_an_unknown_roce_profile_is_refused_with_its_line(fabric: Path, tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "leaf-u0-r0.nv"
    path.write_text(text)
    result = run(fabric, "--check", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"trackbed: {path}:{line}: --check does not know the classes of `qos roce mode lossy-multi-tc`, only those of "
        "lossless, lossless-single-ipool, lossy; compare `nv show qos roce` with the Fabric's qos by hand\n"
    )


def test_a_profile_that_is_off_is_compared(fabric: Path, tmp_path: Path) -> None:
    path = tmp_path / "leaf-u0-r0.nv"
    path.write_text("nv set qos roce mode lossy-multi-tc\nnv set qos roce state disabled\n")
    result = run(fabric, "--check", path)
    assert result.exit_code == 1
    assert "switch puts it in lossy priority 0" in result.stdout


def test_infiniband_is_refused_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC.replace("spec:\n", "spec:\n  linkType: infiniband\n"))
    result = run(path, "--format", "sonic")
    assert result.exit_code == 2
    assert result.stderr.startswith(
        f"{path}:5:13: error: InfiniBand switches are configured by their subnet manager, not by files"
    )
