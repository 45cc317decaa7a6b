"""Every known fault of the host has a check, or a written reason why it has none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.doctor.sound import build_sound_view
from tests.doctor.test_checks import FAULTS, NODE
from trackbed.doctor.across.judgement import CHECKS
from trackbed.doctor.catalogue import load_catalogue, load_unchecked_faults
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.finding import BROKEN

FACTS = Path(__file__).parents[3] / "shared" / "facts" / "faults.yaml"
LINKS = {
    *("bios", "cmdline", "firmware", "driver", "rdma-core", "vfs", "names", "addresses", "routing"),
    *("qos", "limits", "kubelet", "runtime"),
}


@pytest.mark.may_skip("the list of known faults lies beside the project")
def test_each_known_fault_of_the_host_has_a_check_or_a_reason() -> None:
    if not FACTS.exists():
        pytest.skip(f"{FACTS} does not exist")
    known = {fault["id"] for fault in yaml.safe_load(FACTS.read_text()) if fault["link"] in LINKS}
    assert len(known) == 174
    assert known - set(load_catalogue()) - set(load_unchecked_faults()) == set()
    assert len(known & set(load_catalogue())) >= 130


def test_only_fixes_have_placeholders() -> None:
    faults = load_catalogue().values()
    assert [fault.id for fault in faults if "{" in fault.title + fault.cause] == []


def test_nothing_is_both_looked_for_and_given_up() -> None:
    assert set(load_catalogue()) & set(load_unchecked_faults()) == set()
    assert all(reason.strip() for reason in load_unchecked_faults().values())


def test_the_readme_counts_what_a_host_alone_is_checked_for() -> None:
    count = sum(fault.runs_on == "host" for fault in load_catalogue().values())
    assert f"looks for [{count} faults]" in (Path(__file__).parents[2] / "README.md").read_text()


@pytest.mark.parametrize("fault_id", FAULTS)
def test_a_check_runs_where_the_catalogue_says(fault_id: str) -> None:
    alone = replace(FAULTS[fault_id](build_sound_view(NODE)), switches=None, management=())
    verdicts = {finding.verdict for finding in diagnose_nodes([alone]).findings if finding.id == fault_id}
    assert bool(verdicts & BROKEN) is (load_catalogue()[fault_id].runs_on == "host")


def test_what_needs_other_nodes_is_a_check_between_nodes() -> None:
    between_nodes = {fault.id for fault in load_catalogue().values() if fault.runs_on == "nodes"}
    assert between_nodes <= {check.fault_id for check in CHECKS}
