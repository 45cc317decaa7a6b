"""`trackbed stacks` as a user runs it: the comparison as a table, wide, for one stack, and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from trackbed.cli.main import cli

FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu-[0-3]", nic: "15b3:1021"}]
  rails: 8
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/13}
"""


@pytest.fixture
def fabric(tmp_path: Path) -> str:
    path = tmp_path / "fabric.yaml"
    path.write_text(FABRIC)
    return str(path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["stacks", *arguments])
    assert result.exit_code == 0, result.output
    return result


def test_the_comparison_fits_a_terminal_of_eighty_columns_with_whole_names(fabric: str) -> None:
    table = run("-f", fabric).output.partition("\npods: ")[0].splitlines()
    assert [line.split()[0] for line in table] == [
        "stack",
        "native",
        "network-operator-hostdevice",
        "nic-configuration",
        "dranet",
        "bare-metal",
    ]
    assert max(map(len, table)) <= 80


def test_a_recommendation_has_reasons_cautions_and_alternatives(fabric: str) -> None:
    output = run("-f", fabric).output
    for line in (
        "Recommended: native",
        "  - a node has room for 1 pod with all rails",
        "Against it:",
        "  - new: Trackbed's first release",
        "  - network-operator-hostdevice if others must rely on it already: NVIDIA's product",
    ):
        assert f"{line}\n" in output


def test_each_reason_against_a_stack_has_its_line(fabric: str) -> None:
    refused = run("-f", fabric).output.partition("Do not fit:\n")[2]
    reasons = refused.partition("  network-operator-macvlan\n")[2].partition("\n  network-operator-ipoib\n")[0]
    assert [line.rpartition("[")[2] for line in reasons.splitlines()] == ["stack-rdma-mode]", "stack-scheme]"]


def test_wide_adds_what_a_stack_asks_of_a_cluster(fabric: str) -> None:
    head, native = run("-f", fabric, "-o", "wide").output.splitlines()[:2]
    assert head.split()[-5:] == ["maturity", "kernel", "for", "operators", "installs"]
    assert "5.3, or NVIDIA's OFED 4.7" in native


def test_one_stack_is_shown_with_its_figures_or_with_what_speaks_against_it(fabric: str) -> None:
    assert "  - pods with all rails on a node: 1\n" in run("dranet", "-f", fabric).output
    assert "Does not fit this Fabric:\n  - error: " in run("spiderpool", "-f", fabric).output


def test_json_has_figures_refusals_and_the_recommendation(fabric: str) -> None:
    documents = {document["name"]: document for document in json.loads(run("-f", fabric, "-o", "json").stdout)}
    native = documents["native"]
    assert native["figures"]["podsPerNode"] == 1
    assert native["figures"]["writesPerPod"] == 0
    assert native["recommendation"]["reasons"]
    assert documents["dranet"]["recommendation"] is None
    assert documents["spiderpool"]["figures"] is None
    assert len(documents["spectrum-x"]["refusals"]) == 1


def test_the_recommendation_in_json_does_not_depend_on_the_stacks_that_are_shown(fabric: str) -> None:
    (native,) = json.loads(run("native", "-f", fabric, "-o", "json").stdout)
    documents = {document["name"]: document for document in json.loads(run("-f", fabric, "-o", "json").stdout)}
    assert native["recommendation"] == documents["native"]["recommendation"]
    assert [name for name, _ in native["recommendation"]["alternatives"]][:2] == [
        "dranet",
        "network-operator-hostdevice",
    ]
