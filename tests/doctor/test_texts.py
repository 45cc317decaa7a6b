"""No text of the catalogue reaches a user with a placeholder, whatever is known of the port."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import trackbed.doctor
from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.catalogue import build_finding, load_catalogue
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.fabric.plan.plan import PortPlan

CHECKS = Path(trackbed.doctor.__file__).parent / "checks"
UNFIT = re.compile(r"\{|\}|<\w+>|\bNone\b|\bTrue\b|\bFalse\b| object at ")
OF_NODE = {"node", "mtu", "vfs"}
NODE = compute_small_plan().nodes[0]


def list_faults_of_nodes() -> set[str]:
    """Return the faults whose checks give a finding of the node, not of a port."""
    calls = [
        call
        for path in CHECKS.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "build_finding"
    ]
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
        and isinstance(call.args[2], ast.Constant)
    }


@pytest.mark.parametrize("fault_id", load_catalogue())
def test_only_the_fix_has_placeholders(fault_id: str) -> None:
    fault = load_catalogue()[fault_id]
    assert not re.search(r"\{\w", fault.title + fault.cause)


@pytest.mark.parametrize("fault_id", sorted(list_faults_of_nodes()))
def test_the_fix_of_a_node_names_nothing_of_a_port(fault_id: str) -> None:
    assert set(re.findall(r"\{(\w+)\}", load_catalogue()[fault_id].fix)) <= OF_NODE


PORTS = {
    "all known": NODE.ports[0],
    "by name only": NODE.ports[0]._replace(mac=None, pci=None, kernel_name=None),
}


@pytest.mark.parametrize("port", PORTS.values(), ids=PORTS)
@pytest.mark.parametrize("fault_id", load_catalogue())
def test_the_fix_of_a_port_is_complete(fault_id: str, port: PortPlan) -> None:
    fix = build_finding(fault_id, NODE, port, ok=False).fix
    assert not UNFIT.search(fix.replace("{config: disabled}", "")), fix


def test_a_port_that_apply_cannot_find_is_not_said_to_be_renamed_by_it() -> None:
    fixes = {name: build_finding("names-netdev-missing", NODE, port, ok=False).fix for name, port in PORTS.items()}
    assert ("which renames" in fixes["all known"], "which renames" in fixes["by name only"]) == (True, False)
    assert "cannot find it: call it rail0 on the host" in fixes["by name only"]


def test_no_check_of_a_name_passes_for_an_interface_that_is_not_there() -> None:
    view = build_sound_view(NODE)
    empty = replace(view, state=replace(view.state, links=()))
    names = [(finding.id, finding.verdict) for finding in run_checks(empty, {"names"}) if finding.rail is not None]
    assert {pair for pair in names if pair[0] in {"names-netdev-missing", "names-on-wrong-device"}} == {
        ("names-netdev-missing", "fail")
    }
    assert ("names-rename-conflict", "pass") not in names


def test_unreadable_sysctls_are_said_to_be_unreadable() -> None:
    findings = list(run_checks(replace(build_sound_view(NODE), sysctls={})))
    evidence = {finding.id: finding.evidence for finding in findings}
    assert evidence["route-rp-filter-strict"] == "rp_filter unreadable, all unreadable: effective unreadable"
    assert evidence["addr-arp-flux"] == "arp_ignore unreadable, arp_announce unreadable"


def test_the_steps_that_were_left_out_are_said_with_the_reason() -> None:
    shared, *others = diagnose_nodes([replace(build_sound_view(NODE), host=None, pods=())]).left_out
    assert {"bios", "firmware", "runtime"} <= set(shared.steps)
    assert not {"addresses", "pod"} & set(shared.steps)
    assert "shares its host" in shared.why
    assert [(left_out.steps, left_out.why) for left_out in others] == [(("cni", "pod"), "no pod here has rails")]
