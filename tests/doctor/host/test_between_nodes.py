"""Faults between nodes: each is blamed once, with all its ends as evidence, and comes before faults of one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.doctor.sound import build_sound_view
from trackbed.doctor.across.excerpt import (
    FirmwareVersion,
    HeldAddress,
    HeldMac,
    NodeExcerpt,
    PluggedCable,
    PortExcerpt,
    RailOrder,
    excerpt_node,
)
from trackbed.doctor.across.judgement import CHECKS, judge_nodes, list_check_ids
from trackbed.doctor.across.rail_order import RailPosition
from trackbed.doctor.catalogue import build_finding, load_catalogue
from trackbed.doctor.diagnosis import diagnose_nodes, select_finding_to_fix
from trackbed.doctor.view import NodeView
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.snapshot.snapshot import Snapshot

FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: site}
spec:
  nodes: [{hosts: "gpu[001-008]"}]
  rails: 2
  nodesPerUnit: 4
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15}
"""
PLAN = compute_plan(load_fabric(FABRIC, "site.yaml").fabric, {})
NODES = {node.name: node for node in PLAN.nodes}
PARTS = ("ports", "macs", "addresses", "identity", "guids", "firmware", "driver", "rail_order", "cables")
ADDRESSES = {
    (node.name, port.rail): format_address(port.addresses[0].version, port.addresses[0].address)
    for node in PLAN.nodes
    for port in node.ports
}


def build_excerpt(node: NodePlan) -> NodeExcerpt:
    """Return the excerpt of a sound node with one VF at each port."""
    number = int(node.name[-1])
    return NodeExcerpt(
        node.name,
        ports=tuple(PortExcerpt(port.rail, port.netdev, port.leaf, has_carrier=True) for port in node.ports),
        macs=tuple(
            HeldMac(rail, f"rail{rail}", f"02:00:0{kind}:00:{number:02}:{rail:02}", vf)
            for rail in range(2)
            for kind, vf in enumerate((None, 0))
        ),
        addresses=tuple(HeldAddress(ADDRESSES[node.name, port.rail], port.netdev, port.rail) for port in node.ports),
        identity=(("/proc/sys/kernel/hostname", node.name), ("/etc/machine-id", f"{number:032}")),
        guids=tuple((f"0200:00ff:fe00:{number:02}{rail:02}", f"rail{rail}") for rail in range(2)),
        firmware=tuple(FirmwareVersion(rail, "0x15b3:0x1021", "28.39.1002") for rail in range(2)),
        driver="24.10-1.1.4",
        rail_order=(RailOrder("0000:18 0000:3b", tuple(RailPosition(rail, f"rail{rail}", rail) for rail in (0, 1))),),
        cables=tuple(PluggedCable(port.rail, port.leaf, port.leaf, f"swp{number}") for port in node.ports),
    )


SITE = {node.name: build_excerpt(node) for node in PLAN.nodes}


def change_excerpt(name: str, **parts: Any) -> Callable[[dict[str, NodeExcerpt]], None]:
    def change(site: dict[str, NodeExcerpt]) -> None:
        site[name] = msgspec.structs.replace(site[name], **parts)

    return change


def change_ports(names: Sequence[str], rail: int, **values: Any) -> Callable[[dict[str, NodeExcerpt]], None]:
    def change(site: dict[str, NodeExcerpt]) -> None:
        for name in names:
            ports = (
                msgspec.structs.replace(port, **values) if port.rail == rail else port
                for port in site[name].ports or ()
            )
            site[name] = msgspec.structs.replace(site[name], ports=tuple(ports))

    return change


def swap_cables(site: dict[str, NodeExcerpt]) -> None:
    """Swap the cables of two nodes in two units, which have leaves of their own, on rail 1."""
    first, second = (site[name].cables or () for name in ("gpu002", "gpu007"))
    at_second, at_first = (
        msgspec.structs.replace(cable, leaf=other.leaf)
        for cable, other in ((first[1], second[1]), (second[1], first[1]))
    )
    change_excerpt("gpu002", cables=(first[0], at_second))(site)
    change_excerpt("gpu007", cables=(second[0], at_first))(site)


def change_host_name(site: dict[str, NodeExcerpt]) -> None:
    change_excerpt("gpu005", identity=SITE["gpu002"].identity)(site)


def hold_twice(site: dict[str, NodeExcerpt]) -> None:
    """Configure the address of gpu003 on rail 1 at gpu001, too, on an interface that is no rail's."""
    extra = HeldAddress(ADDRESSES["gpu003", 1], "eth0", None)
    change_excerpt("gpu001", addresses=(*(SITE["gpu001"].addresses or ()), extra))(site)


UNIT = ("gpu001", "gpu002", "gpu003", "gpu004")
OLD = tuple(FirmwareVersion(rail, "0x15b3:0x1021", "28.36.1010") for rail in range(2))
SWAPPED = (
    "LLDP: gpu002 rail 1 is at leaf-u1-r1 port swp2, planned leaf-u0-r1; "
    "gpu007 rail 1 is at leaf-u0-r1 port swp7, planned leaf-u1-r1"
)
OTHER_ORDER = (
    "rail 0: rail0, port 1 by PCI, on gpu001 rail0, port 0 by PCI; "
    "rail 1: rail1, port 0 by PCI, on gpu001 rail1, port 1 by PCI"
)
FAULTS: dict[str, tuple[str, Callable[[dict[str, NodeExcerpt]], None], list[str], str]] = {
    "an address twice on a rail": (
        "addr-duplicate-on-rail",
        hold_twice,
        ["gpu003 rail 1", "gpu001"],
        f"{ADDRESSES['gpu003', 1]} is at gpu003 rail1, gpu001 eth0",
    ),
    "the GUID of a VF twice": (
        "vfs-guid-duplicate",
        change_excerpt("gpu006", guids=(("0200:00ff:fe00:0200", "mlx5_4"),)),
        ["gpu002", "gpu006"],
        "0200:00ff:fe00:0200 is at gpu002 rail0, gpu006 mlx5_4",
    ),
    "a MAC twice": (
        "vfs-mac-duplicate",
        change_excerpt("gpu008", macs=(HeldMac(1, "rail1", "02:00:00:00:04:01", 3),)),
        ["gpu004 rail 1", "gpu008 rail 1"],
        "02:00:00:00:04:01 is at gpu004 rail1, gpu008 rail1 VF 3",
    ),
    "a node name twice": (
        "kubelet-duplicate-node-name",
        change_host_name,
        ["gpu002", "gpu005"],
        "gpu002 (/proc/sys/kernel/hostname) is at gpu002, gpu005; so is 1 more",
    ),
    "two cables swapped": (
        "fabric-port-on-wrong-leaf",
        swap_cables,
        ["gpu002 rail 1", "gpu007 rail 1"],
        SWAPPED,
    ),
    "a leaf down": (
        "switch-leaf-down",
        change_ports(UNIT, 0, has_carrier=False),
        [f"{name} rail 0" for name in UNIT],
        "leaf-u0-r0: no carrier at gpu001 rail 0, gpu002 rail 0, gpu003 rail 0, gpu004 rail 0",
    ),
    "firmware that differs": (
        "fw-version-mixed",
        change_excerpt("gpu003", firmware=OLD),
        ["gpu003 rail 0", "gpu003 rail 1", "gpu001 rail 0"],
        "firmware of NIC 0x15b3:0x1021 28.36.1010 at gpu003 rail 0, 28.39.1002 at gpu001 rail 0 and 14 of 16 ports",
    ),
    "a driver that differs": (
        "driver-version-unexpected",
        change_excerpt("gpu003", driver="of the kernel itself"),
        ["gpu003", "gpu001"],
        "mlx5_core of the kernel itself at gpu003, 24.10-1.1.4 at gpu001 and 7 of 8 nodes",
    ),
    "rails in another order": (
        "names-rail-order-differs",
        change_excerpt(
            "gpu003",
            rail_order=(RailOrder("0000:18 0000:3b", (RailPosition(0, "rail0", 1), RailPosition(1, "rail1", 0))),),
        ),
        ["gpu003", "gpu001"],
        OTHER_ORDER,
    ),
}


@pytest.mark.parametrize(("fault", "change", "ends", "evidence"), FAULTS.values(), ids=FAULTS)
def test_a_fault_between_nodes_is_blamed_once_with_all_its_ends(
    fault: str, change: Callable[[dict[str, NodeExcerpt]], None], ends: list[str], evidence: str
) -> None:
    site = dict(SITE)
    change(site)
    findings = judge_nodes(list(site.values()), NODES)
    broken = [finding for finding in findings if finding.verdict != "pass"]
    assert [(finding.id, finding.verdict) for finding in broken] == [(fault, load_catalogue()[fault].verdict)]
    assert select_finding_to_fix(findings) == broken[0] == findings[0]
    assert ([str(end) for end in broken[0].ends], broken[0].evidence) == (ends, evidence)
    assert broken[0].fix


def test_sound_nodes_pass_every_check() -> None:
    findings = judge_nodes(list(SITE.values()), NODES)
    assert [(finding.id, finding.verdict) for finding in findings] == [(check.fault_id, "pass") for check in CHECKS]
    assert list_check_ids(findings) == ([check.fault_id for check in CHECKS], [])


def test_a_node_that_was_not_read_is_unknown_and_hides_nothing_of_the_others() -> None:
    site = dict(SITE) | {"gpu008": NodeExcerpt("gpu008", failure="ssh: Connection refused")}
    findings = judge_nodes(list(site.values()), NODES)
    assert {finding.verdict for finding in findings} == {"unknown"}
    assert (findings[0].id, findings[0].evidence) == ("node-unread", "gpu008: ssh: Connection refused")
    assert {finding.because for finding in findings[1:]} == {"node-unread"}
    assert {finding.evidence for finding in findings[1:]} == {"not read of gpu008 (1 of 8 nodes)"}
    change_ports(UNIT, 0, has_carrier=False)(site)
    first = select_finding_to_fix(judge_nodes(list(site.values()), NODES))
    assert first is not None
    assert first.id == "switch-leaf-down"


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_not_read_of_one_node_never_passes(part: str) -> None:
    site = dict(SITE)
    change_excerpt("gpu004", **{part: None})(site)
    verdicts = {finding.id: finding.verdict for finding in judge_nodes(list(site.values()), NODES)}
    assert verdicts == {check.fault_id: "unknown" if check.part == part else "pass" for check in CHECKS}


def test_a_fault_is_found_though_a_part_was_not_read_of_another_node() -> None:
    site = dict(SITE)
    change_excerpt("gpu003", firmware=OLD)(site)
    change_excerpt("gpu004", firmware=None)(site)
    verdicts = [
        finding.verdict for finding in judge_nodes(list(site.values()), NODES) if finding.id == "fw-version-mixed"
    ]
    assert verdicts == ["warn", "unknown"]


def test_several_unusual_versions_are_named_in_the_order_of_the_nodes() -> None:
    site = dict(SITE)
    for number in range(2, 7):
        change_excerpt(f"gpu00{number}", driver=f"24.{number}")(site)
    ends = [str(finding.ends[0]) for finding in judge_nodes(list(site.values()), NODES) if finding.verdict == "warn"]
    assert ends == [f"gpu00{number}" for number in range(2, 7)]


def swap_cables_within(name: str, site: dict[str, NodeExcerpt]) -> None:
    first, second = site[name].cables or ()
    at_first, at_second = (
        msgspec.structs.replace(cable, leaf=other.leaf) for cable, other in ((first, second), (second, first))
    )
    change_excerpt(name, cables=(at_first, at_second))(site)


@pytest.mark.parametrize(
    ("swap", "first"),
    [
        pytest.param(lambda site: swap_cables_within("gpu002", site), "names-on-wrong-device", id="within a node"),
        pytest.param(swap_cables, "fabric-port-on-wrong-leaf", id="between nodes"),
    ],
)
def test_a_fault_that_one_node_shows_comes_behind_its_causes_in_that_node(
    swap: Callable[[dict[str, NodeExcerpt]], None], first: str
) -> None:
    """Where the names of two ports are exchanged, each seems to be at the leaf of the other."""
    site, node = dict(SITE), NODES["gpu002"]
    swap(site)
    named = build_finding("names-on-wrong-device", node, node.ports[1], ok=False, evidence="0000:18:00.0")
    finding = select_finding_to_fix([*judge_nodes(list(site.values()), NODES), named])
    assert finding is not None
    assert finding.id == first


def test_two_nodes_with_their_cables_swapped_within_are_two_pairs() -> None:
    site = dict(SITE)
    for name in ("gpu001", "gpu002"):
        swap_cables_within(name, site)
    findings = [finding for finding in judge_nodes(list(site.values()), NODES) if finding.verdict == "fail"]
    assert [[str(end) for end in finding.ends] for finding in findings] == [
        ["gpu001 rail 0", "gpu001 rail 1"],
        ["gpu002 rail 0", "gpu002 rail 1"],
    ]


def test_one_node_alone_at_a_dark_leaf_is_no_leaf_that_is_down() -> None:
    site = dict(SITE)
    change_ports(["gpu001"], 0, has_carrier=False)(site)
    alone = [excerpt for name, excerpt in site.items() if name not in UNIT[1:]]
    assert {finding.verdict for finding in judge_nodes(alone, NODES)} == {"pass"}


def test_addresses_outside_the_rails_ranges_may_be_on_many_nodes() -> None:
    views = [build_sound_view(node) for node in PLAN.nodes[:2]]
    bridged = [_add_address(view, "172.17.0.1") for view in views]
    assert diagnose_nodes(bridged).exit_status == 0
    excerpts = [excerpt_node(view) for view in bridged]
    assert [held.text for held in excerpts[0].addresses or ()] == [ADDRESSES["gpu001", rail] for rail in (0, 1)]


def _add_address(view: NodeView, text: str) -> NodeView:
    number = int.from_bytes(bytes(map(int, text.split("."))), "big")
    bridge = replace(view.state.addresses[0], index=2, address=number, prefix=16)
    return replace(view, state=replace(view.state, addresses=(*view.state.addresses, bridge)))


def test_faults_of_one_node_come_below_and_name_the_fault_between_nodes_that_they_follow() -> None:
    views = [build_sound_view(node) for node in PLAN.nodes[:2]]
    dark = [_lose_carrier(view) for view in views]
    diagnosis = diagnose_nodes(dark)
    broken = [finding for finding in diagnosis.findings if finding.verdict in {"fail", "warn"}]
    assert diagnosis.first == broken[0] == diagnosis.findings[0]
    assert broken[0].id == "switch-leaf-down"
    carriers = [finding for finding in broken if finding.id == "addr-no-carrier"]
    assert [(finding.node, finding.because) for finding in carriers] == [
        ("gpu001", "switch-leaf-down"),
        ("gpu002", "switch-leaf-down"),
    ]


def _lose_carrier(view: NodeView) -> NodeView:
    links = tuple(link._replace(carrier=link.name != "rail0") for link in view.state.links)
    return replace(view, state=replace(view.state, links=links))


UNREADABLE = {
    "/etc/machine-id": "identity",
    "/sys/module/mlx5_core/version": "driver",
    "/sys/class/infiniband/mlx5_0/node_guid": "guids",
    "/sys/bus/pci/devices/0000:18:00.0/infiniband/mlx5_0/fw_ver": "firmware",
}


@pytest.mark.parametrize(("path", "part"), UNREADABLE.items(), ids=UNREADABLE)
def test_a_file_that_exists_and_cannot_be_read_leaves_its_part_unread(path: str, part: str) -> None:
    host = Snapshot(
        files={"/proc/sys/kernel/hostname": b"gpu001"},
        folders={"/sys/module": ("mlx5_core",)},
        unreadable={path: "EIO"},
    )
    excerpt = excerpt_node(replace(build_sound_view(PLAN.nodes[0]), host=host))
    assert [name for name in PARTS if getattr(excerpt, name) is None] == [part]
