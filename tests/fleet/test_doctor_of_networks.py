"""`trackbed doctor --nodes` on hosts with real networks: each fault between nodes is named first, with both ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.fleet.network import (
    Injection,
    Network,
    darken_leaf,
    find_nic_file,
    hold_address_twice,
    hold_mac_twice,
    prepared_network,
    replace_file,
    shrink_mtu,
    swap_cables,
)

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ssh")

UNREAD = "node-unread"
REFUSED = "gpu009: ssh does not reach it (Connection refused)"
PAIR, ON_RAIL_1 = ("gpu[002,005,009]", [{"node": "gpu002", "rail": 1}, {"node": "gpu005", "rail": 1}])
NODES = [{"node": "gpu002"}, {"node": "gpu005"}]
FAULTS: list[tuple[str, Injection, str, list[dict[str, Any]]]] = [
    ("addr-duplicate-on-rail", hold_address_twice, PAIR, ON_RAIL_1),
    ("vfs-mac-duplicate", hold_mac_twice, PAIR, ON_RAIL_1),
    ("vfs-guid-duplicate", replace_file(5, find_nic_file(1, "node_guid"), "0200:00ff:fe00:0201\n"), PAIR, NODES),
    ("kubelet-duplicate-node-name", replace_file(5, "proc/sys/kernel/hostname", "gpu002\n"), PAIR, NODES),
    (
        "fabric-port-on-wrong-leaf",
        swap_cables,
        "gpu[002,007,009]",
        [{"node": "gpu002", "rail": 1}, {"node": "gpu007", "rail": 1}],
    ),
    (
        "switch-leaf-down",
        darken_leaf,
        "gpu[001-005,009]",
        [{"node": f"gpu00{number}", "rail": 0} for number in range(1, 5)],
    ),
    (
        "fw-version-mixed",
        replace_file(5, find_nic_file(1, "fw_ver"), "28.36.1010\n"),
        "gpu[001,005,009]",
        [{"node": "gpu005", "rail": 1}, {"node": "gpu001", "rail": 0}],
    ),
]


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with prepared_network(tmp_path_factory.mktemp("network")) as prepared:
        yield prepared


@pytest.mark.parametrize(("fault", "inject", "nodes", "ends"), FAULTS, ids=[fault for fault, *_ in FAULTS])
def test_a_fault_is_named_first_with_its_ends_beside_a_host_that_is_not_reached(
    network: Network, fault: str, inject: Injection, nodes: str, ends: list[dict[str, Any]]
) -> None:
    with inject(network):
        document = network.diagnose(nodes)
    assert (document["status"], document["first"]["id"], document["first"]["ends"]) == (1, fault, ends)
    assert [f["evidence"] for f in document["findings"] if f["id"] == UNREAD] == [REFUSED]


def test_faults_of_eight_hosts_that_come_together_are_each_named_with_their_ends(network: Network) -> None:
    with ExitStack() as faults:
        for _, inject, _, _ in FAULTS:
            faults.enter_context(inject(network))
        document = network.diagnose("all")
    named = {f["id"]: f["ends"] for f in document["findings"] if len(f.get("ends", ())) > 1}
    assert named == {fault: ends for fault, _, _, ends in FAULTS}


def test_sound_hosts_with_one_that_is_not_reached_are_unknown_because_of_it_alone(network: Network) -> None:
    document = network.diagnose("all")
    assert (document["status"], document["first"]["id"]) == (3, UNREAD)
    others = [finding for finding in document["findings"] if finding["verdict"] != "pass"]
    assert {finding.get("because", finding["id"]) for finding in others} == {UNREAD, "driver-version-unexpected"}


def test_a_fault_that_all_nodes_have_is_one_line_with_their_folded_names(network: Network) -> None:
    with shrink_mtu(network):
        done = network.site.trackbed("doctor", "--nodes", "gpu[001-008]", "--lldp", "5")
    first, row, saw, *_ = done.stdout.splitlines()
    assert (done.returncode, first) == (1, "Fix this first:")
    assert row.split() == ["fail", "addr-mtu-wrong", "gpu[001-008],", "rail", "1"]
    assert saw.split("saw: ")[1] == "mtu 1500, planned 9000 (and 7 more)"
    assert done.stdout.count("addr-mtu-wrong") == 1


def test_the_last_lines_say_how_many_checks_were_made_of_every_node(network: Network) -> None:
    done = network.site.trackbed("doctor", "--nodes", "gpu[001-002]", "--lldp", "5")
    assert done.stderr.splitlines()[0] == "nodes read: 2 of 2 nodes"
    assert done.stderr.splitlines()[2] == "checks between nodes: 8 of 9 were made of every node"
    assert done.stderr.splitlines()[3] == "not made, or not of every node: driver-version-unexpected"


def test_leaves_that_were_not_listened_for_are_unknown(network: Network) -> None:
    with swap_cables(network):
        done = network.site.trackbed("doctor", "--nodes", "gpu[001-008]", "--lldp", "0", "-o", "json")
    cabling = [f for f in json.loads(done.stdout)["findings"] if f["id"] == "fabric-port-on-wrong-leaf"]
    assert [(finding["verdict"], finding["evidence"]) for finding in cabling] == [
        ("unknown", "not read of gpu[001-008] (8 of 8 nodes): LLDP was not listened for")
    ]
