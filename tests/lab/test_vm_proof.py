"""`trackbed lab vm prove`: each fault is where it belongs, and is told from the others in what a proof says."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from trackbed_lab.kubernetes.proof import POD_FAULTS
from trackbed_lab.vm.leaves import LeafSettings, PortSettings, SwitchSettings
from trackbed_lab.vm.machine import LabShape
from trackbed_lab.vm.proof import find_lack, is_sound, prove_faults
from trackbed_lab.vm.proof_faults import FAULTS, FaultPlace, ProofFault
from trackbed_lab.vm.run import VmRun, derive_shape

from tests.prove.hosts import SOUND_GBPS, Hosts, build_plan
from tests.prove.test_small_fabrics import SlowUplinkHosts
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.prove.findings import ProofVerdict
from trackbed.prove.report import ProofReport, build_report

LAB_PLAN: Plan = compute_plan(
    load_fabric(files("trackbed_lab.vm").joinpath("proof.yaml").read_bytes(), "proof.yaml").fabric, {}
)
PLAN = build_plan(4, 2)
"""The lab's Fabric with the names of simulated hosts."""
PLACE = FaultPlace(PLAN.nodes[1], PLAN.nodes[1].ports[-1])
PORT = ("n2", 1)
HOSTS = {
    "slow port": Hosts(PLAN, gbps={PORT: 0.6 * SOUND_GBPS}),
    "lossy port": Hosts(PLAN, gbps={PORT: 0.1 * SOUND_GBPS}),
    "wrong leaf": Hosts(PLAN, silent=[("n2", 0), PORT]),
    "leaf MTU 1500": Hosts(PLAN, small_mtu=[("n1", 1), PORT]),
    "missing GID": Hosts(PLAN, without_gid=[PORT]),
    "slow uplink": SlowUplinkHosts(PLAN),
}
SAME_SIGN = {"slow port", "lossy port", "missing GID", "wrong leaf"}
"""Faults of which the port is blamed."""


@pytest.fixture(scope="module")
def reports() -> dict[str, ProofReport]:
    """What a proof says of simulated hosts with each fault."""
    return {name: build_report(hosts.prove()) for name, hosts in HOSTS.items()}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_by_the_proof_of_it_and_not_by_those_of_others(
    fault: ProofFault, reports: dict[str, ProofReport]
) -> None:
    named = {name for name, report in reports.items() if all(fault.is_named(PLACE, c) for c in report.culprits)}
    assert fault.name in named
    assert named <= (SAME_SIGN if fault.name in SAME_SIGN else {fault.name})


@pytest.mark.parametrize(
    ("odd", "sound"),
    [
        ({"write_bw": {"fail": 1}}, True),
        ({"write_bw": {"fail": 2}}, False),
        ({"write_lat": {"fail": 1}}, True),
        ({"ping": {"fail": 1}}, False),
        ({"write_bw": {"unknown": 1}, "write_lat": {"not-tested": 1, "unknown": 1}}, True),
        ({"write_bw": {"unknown": 1}, "write_lat": {"not-tested": 1, "unknown": 2}}, False),
        ({"write_lat": {"not-tested": 2}}, False),
    ],
)
def test_one_odd_rate_is_a_busy_moment_and_an_odd_ping_is_not(
    odd: dict[str, dict[ProofVerdict, int]], *, sound: bool
) -> None:
    assert is_sound(build_odd_report(odd)) is sound


def build_odd_report(odd: dict[str, dict[ProofVerdict, int]]) -> ProofReport:
    """Return the report of sound hosts, of whose tests some have other verdicts, by rung."""
    report = build_report(Hosts(PLAN).prove())
    rungs = tuple(
        rung._replace(verdicts={**rung.verdicts, "pass": rung.verdicts["pass"] - sum(counts.values()), **counts})
        for rung in report.rungs
        for counts in [odd.get(rung.rung, {})]
    )
    return report._replace(rungs=rungs)


@pytest.mark.parametrize(("odd_proofs", "gbps"), [(0, 3.0), (1, 2.25), (2, 1.6875), (3, None)])
def test_servers_that_do_not_bear_a_rate_are_proved_sound_at_a_lower_one(
    odd_proofs: int, gbps: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rate is found by one rung, at 4 Gb/s, and the next lower one is proved by the ladder."""
    monkeypatch.setattr("trackbed_lab.vm.proof._set_leaves", lambda *_: None)
    sound = build_odd_report({})
    reports = iter([sound, *[build_odd_report({"write_bw": {"fail": 2}})] * odd_proofs, sound])
    lab: Any = None
    run = VmRun(lab, PLAN._replace(rate_gbps=4.0), lambda _: None)
    assert prove_faults(run, (), lambda *_: next(reports)) is (gbps is not None)
    assert gbps in {None, run.plan.rate_gbps}


def test_the_labs_servers_are_as_its_fabric_says() -> None:
    assert [node.name for node in LAB_PLAN.nodes] == ["node-0", "node-1", "node-2", "node-3"]
    assert [len({node.ports[rail].leaf for node in LAB_PLAN.nodes}) for rail in (0, 1)] == [2, 2]


def test_the_labs_nodes_tell_faults_apart_too_and_give_a_vf_to_pods() -> None:
    text = files("trackbed_lab.kubernetes").joinpath("proof.yaml").read_bytes()
    plan = compute_plan(load_fabric(text, "proof.yaml").fabric, {})
    assert find_lack(plan) == ""
    assert plan.common.vfs == 1


def test_pods_have_the_faults_of_servers_and_what_breaks_a_port_breaks_the_device_of_a_pod() -> None:
    assert [fault.name for fault in POD_FAULTS] == [fault.name for fault in FAULTS]
    assert [bool(fault.break_script) for fault in POD_FAULTS] == [bool(fault.break_script) for fault in FAULTS]
    script = next(fault.break_script for fault in POD_FAULTS if fault.break_script)
    assert "device=${link%/1}\n" in script.format(rdma="", netdev="")


def test_faults_change_the_leaves_where_they_are_and_keep_the_rate() -> None:
    node = LAB_PLAN.nodes[1]
    place = FaultPlace(node, node.ports[-1])
    sound = SwitchSettings(gbps=1.0)
    changed = {fault.name: fault.change_leaves(place, sound) for fault in FAULTS}
    assert {settings.gbps for settings in changed.values()} == {1.0}
    assert changed["missing GID"] == sound
    assert changed["slow port"].ports == {"node-1/1": PortSettings(rate_share=0.6)}
    assert changed["wrong leaf"].ports == {
        "node-1/1": PortSettings(plugged_into=0),
        "node-1/0": PortSettings(plugged_into=1),
    }
    assert changed["leaf MTU 1500"].leaves == {node.ports[1].leaf: LeafSettings(mtu_bytes=1500)}
    assert list(changed["slow uplink"].leaves) == [node.ports[1].leaf]


def test_each_server_has_the_leaves_of_its_unit() -> None:
    shape = derive_shape(LAB_PLAN, LabShape())
    assert [shape.list_leaves(server)[1] for server in range(4)] == [node.ports[1].leaf for node in LAB_PLAN.nodes]


@pytest.mark.parametrize(
    ("old", "new", "lack"),
    [
        ("", "", ""),
        ("node-[0-3]", "node-[0-2]", "3 nodes of 2 rails: "),
        ("nodesPerUnit: 2", "nodesPerUnit: 4", "one leaf a rail: "),
        ("rate: 0.0045", "", "no spec.rate: "),
    ],
)
def test_a_fabric_in_which_faults_look_alike_is_told_before_servers_start(old: str, new: str, lack: str) -> None:
    text = files("trackbed_lab.vm").joinpath("proof.yaml").read_text().replace(old, new)
    message = find_lack(compute_plan(load_fabric(text.encode(), "proof.yaml").fabric, {}))
    assert message.startswith(lack)
    assert bool(message) == bool(lack)
