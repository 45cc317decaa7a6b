"""Nodes that were read over SSH: each judged by itself, and with the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.across.excerpt import TOO_SHORT, NodeExcerpt
from trackbed.doctor.diagnosis import Diagnosis
from trackbed.doctor.finding import Finding
from trackbed.doctor.grouping import group_findings
from trackbed.doctor.readings import (
    TOO_MANY,
    JudgedNode,
    diagnose_judged_nodes,
    judge_reading,
    list_own_check_ids,
)
from trackbed.host.snapshot.reading import LldpReading, NetworkReading, NodeReading
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.wire.lldp import Advertisement

PLAN = compute_small_plan()
NODES = {node.name: node for node in PLAN.nodes}
LEAVES = {(node.name, port.netdev): port.leaf for node in PLAN.nodes for port in node.ports}
SHORT, LONG = 2.0, 31.0


def build_reading(name: str, leaves: Mapping[tuple[str, str], str] = LEAVES) -> NodeReading:
    """Return the reading of a sound node that is a container, at these leaves."""
    view = build_sound_view(NODES[name])
    state = view.state
    network = NetworkReading(
        state.links, state.addresses, state.routes, state.rules, {}, {}, dict(view.sysctls), (), (), {}
    )
    heard = {
        netdev: Advertisement(leaf, "swp1", system_name=leaf) for (node, netdev), leaf in leaves.items() if node == name
    }
    files = {"/proc/sys/kernel/hostname": name.encode(), "/etc/machine-id": f"id of {name}".encode()}
    snapshot = Snapshot(files=files, folders={"/sys/module": ()})
    return NodeReading(snapshot, network, LldpReading(heard), shared_reason="this is a container")


def judge(readings: Mapping[str, NodeReading], seconds: float = SHORT) -> Diagnosis:
    judged = [judge_reading(NODES[name], reading, seconds) for name, reading in readings.items()]
    return diagnose_judged_nodes(judged, NODES)


def judge_all(seconds: float = SHORT, leaves: Mapping[tuple[str, str], str] = LEAVES) -> Diagnosis:
    return judge({name: build_reading(name, leaves) for name in NODES}, seconds)


def change_ports(reading: NodeReading, mtu: int) -> NodeReading:
    """Return a reading with another MTU on the ports."""
    assert reading.network is not None
    links: tuple[Link, ...] = tuple(
        link._replace(mtu=mtu) if link.name.startswith("rail") else link for link in reading.network.links
    )
    return reading._replace(network=reading.network._replace(links=links))


def list_broken(diagnosis: Diagnosis) -> list[tuple[str, str | None, int | None]]:
    return [(f.id, f.node, f.rail) for f in diagnosis.findings if f.verdict in {"fail", "warn"}]


def find_cabling(diagnosis: Diagnosis) -> Finding:
    return next(f for f in diagnosis.findings if f.id == "fabric-port-on-wrong-leaf" and not f.ends)


def test_sound_nodes_that_hear_their_leaves_are_sound() -> None:
    diagnosis = judge_all()
    assert (diagnosis.exit_status, list_broken(diagnosis), diagnosis.first) == (0, [], None)
    assert diagnosis.unlisted_passes > 50


def test_two_swapped_cables_are_one_finding_with_both_ends() -> None:
    swapped = {**LEAVES, ("n0", "rail1"): LEAVES["n1", "rail1"], ("n1", "rail1"): LEAVES["n0", "rail1"]}
    diagnosis = judge_all(leaves=swapped)
    assert list_broken(diagnosis) == [("fabric-port-on-wrong-leaf", "n0", 1)]
    assert diagnosis.first is not None
    assert [str(end) for end in diagnosis.first.ends] == ["n0 rail 1", "n1 rail 1"]


def test_a_port_that_heard_nothing_in_a_short_time_is_unknown() -> None:
    leaves = {place: leaf for place, leaf in LEAVES.items() if place != ("n1", "rail0")}
    cabling = find_cabling(judge_all(leaves=leaves))
    assert (cabling.verdict, cabling.evidence) == ("unknown", f"not read of n1 (1 of 2 nodes): {TOO_SHORT}")


def test_a_port_that_heard_nothing_in_a_long_time_is_silent_and_its_cabling_unknown() -> None:
    leaves = {place: leaf for place, leaf in LEAVES.items() if place != ("n1", "rail0")}
    diagnosis = judge_all(LONG, leaves)
    assert list_broken(diagnosis) == [("fabric-lldp-silent", "n1", 0)]
    assert find_cabling(diagnosis).verdict == "unknown"


def test_nodes_that_could_not_listen_are_unknown_with_the_reason() -> None:
    readings = {name: build_reading(name)._replace(lldp=LldpReading({}, "no permission")) for name in NODES}
    diagnosis = judge(readings, LONG)
    cabling = find_cabling(diagnosis)
    assert (cabling.verdict, cabling.evidence) == ("unknown", "not read of n[0-1] (2 of 2 nodes): no permission")
    assert list_broken(diagnosis) == []


def test_a_node_without_a_readable_network_is_judged_by_its_files() -> None:
    reading = build_reading("n0")._replace(network=None, failure="it has no netlink", shared_reason="")
    judged = judge_reading(NODES["n0"], reading, SHORT)
    assert {finding.step for finding in judged.findings} <= {"bios", "cmdline", "firmware", "kubelet", "runtime"}
    assert judged.excerpt.addresses is None
    assert judged.excerpt.gaps["cables"] == "it has no netlink"


def test_ports_in_pods_are_not_missed() -> None:
    reading = build_reading("n0")
    assert reading.network is not None
    links = tuple(link for link in reading.network.links if link.name != "rail1")
    network = reading.network._replace(links=links, moved=("rail1",))
    judged = judge_reading(NODES["n0"], reading._replace(network=network), SHORT)
    assert [finding for finding in judged.findings if finding.rail == 1] == []


def test_a_fault_of_all_nodes_is_one_group_with_their_folded_names() -> None:
    diagnosis = judge({name: change_ports(build_reading(name), 1500) for name in NODES})
    groups = group_findings([finding for finding in diagnosis.findings if finding.id == "addr-mtu-wrong"])
    assert [(group.where, group.evidence) for group in groups] == [
        ("n[0-1], rails 0-1", "mtu 1500, planned 9000 (and 3 more)")
    ]


def test_a_fault_between_nodes_is_not_repeated_by_its_nodes_and_explains_later_ones() -> None:
    swapped = {**LEAVES, ("n0", "rail1"): LEAVES["n1", "rail1"], ("n1", "rail1"): LEAVES["n0", "rail1"]}
    readings = {name: build_reading(name, swapped) for name in NODES}
    network = readings["n0"].network
    assert network is not None
    readings["n0"] = readings["n0"]._replace(network=network._replace(rules=()))
    diagnosis = judge(readings)
    wrong_leaf = [finding for finding in diagnosis.findings if finding.id == "fabric-port-on-wrong-leaf"]
    later = [finding for finding in diagnosis.findings if finding.id == "route-rule-missing" and finding.rail == 1]
    assert len(wrong_leaf) == 1
    assert {finding.because for finding in later} == {"fabric-port-on-wrong-leaf"}


def test_passes_are_counted_and_kept_only_where_they_are_asked_for() -> None:
    reading = build_reading("n0")
    counted, kept = (judge_reading(NODES["n0"], reading, SHORT, keeps_passes=keeps) for keeps in (False, True))
    assert counted.findings == ()
    assert tuple(finding.id for finding in kept.findings) == counted.passed


def test_a_check_that_one_node_could_not_make_was_not_made_of_every_node() -> None:
    unreadable = build_reading("n1")
    assert unreadable.network is not None
    unreadable = unreadable._replace(network=unreadable.network._replace(chains=None))
    judged = [
        judge_reading(NODES[name], reading, SHORT)
        for name, reading in (("n0", build_reading("n0")), ("n1", unreadable))
    ]
    made, others = list_own_check_ids(judged)
    assert others == ["route-firewall-drops-rails"]
    assert "addr-mtu-wrong" in made
    assert "route-firewall-drops-rails" not in made


def test_evidence_of_a_hostile_node_is_cut_off() -> None:
    reading = build_reading("n0")
    assert reading.network is not None
    extra = tuple(replace(reading.network.addresses[0], index=10, address=number) for number in range(1, 9000))
    judged = judge_reading(NODES["n0"], reading._replace(network=reading.network._replace(addresses=extra)), SHORT)
    assert 1000 < max(len(finding.evidence) for finding in judged.findings) < 1100


def test_findings_of_a_hostile_node_are_cut_off_and_that_is_said() -> None:
    devices = tuple(f"mlx5_{number}" for number in range(1000))
    files = {f"/sys/kernel/config/rdma_cm/{name}/ports/1/default_roce_mode": b"IB/RoCE v1" for name in devices}
    snapshot = Snapshot(files=files, folders={"/sys/class/net/rail0/device/infiniband": devices})
    reading = build_reading("n0")._replace(snapshot=snapshot, shared_reason="")
    judged = judge_reading(NODES["n0"], reading, SHORT)
    assert (len(judged.findings), judged.findings[-1].id) == (501, TOO_MANY)
    assert judged.findings[-1].verdict == "unknown"


def test_a_node_that_was_not_read_is_unknown_beside_the_others() -> None:
    judged = [
        judge_reading(NODES["n0"], build_reading("n0"), SHORT),
        JudgedNode(NodeExcerpt("n1", "ssh does not reach it (no route)")),
    ]
    diagnosis = diagnose_judged_nodes(judged, NODES)
    assert diagnosis.exit_status == 3
    assert diagnosis.first is not None
    assert (diagnosis.first.id, diagnosis.first.evidence) == ("node-unread", "n1: ssh does not reach it (no route)")
