"""A port that a pod has is known from the agent's journal: it is no difference, and no plan misfits for it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.host.places import MACS, PORTS, Host
from tests.host.steps.fabrics import FLAT, node_plan
from trackbed.host.boot_id import read_boot_id
from trackbed.host.journal_records import frame_record
from trackbed.host.machine import Machine
from trackbed.host.moved_ports import JOURNAL, MovedPort, read_moved_ports
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply
from trackbed.host.transaction.compare import compare, compare_view, read_view
from trackbed.host.transaction.fit import explain_misfit, measure_fit
from trackbed.kernel.netlink.links import build_delete_link
from trackbed.kernel.netlink.rules import build_delete_rule, list_rules


def held(*rails: int, container: str = "c1", **fields: Any) -> dict[str, Any]:
    ports = [
        {"rail": rail, "name": f"rail{rail}", "mac": MACS[rail], "host": {"name": f"rail{rail}"}} for rail in rails
    ]
    whole = {"container": container, "ifname": "net1", "boot": read_boot_id(), "pod": "train/worker-0", "ports": ports}
    return {"record": "held", "attachment": {**whole, **fields}}


def gone(container: str = "c1") -> dict[str, Any]:
    return {"record": "gone", "key": [container, "net1"]}


def write_journal(root: Path, *records: dict[str, Any] | bytes) -> None:
    path = root / JOURNAL.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    payloads = [record if isinstance(record, bytes) else json.dumps(record).encode() for record in records]
    path.write_bytes(b"".join(map(frame_record, payloads)))


VF = {"rail": 0, "name": "rail0", "mac": MACS[0], "host": {"name": "rail0v1", "vf": 1, "pf": "rail0"}}
MACVLAN = {"rail": 0, "name": "rail0", "mac": "0e:7b:00:00:00:01"}
RAIL1 = {"rail1": MovedPort("rail1", MACS[1], "train/worker-0")}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ((held(1),), RAIL1),
        ((held(1), gone()), {}),
        ((held(1), gone("c2")), RAIL1),
        ((held(1), gone(), held(1, container="c2")), RAIL1),
        ((held(1, boot="another"),), {}),
        ((held(0, 1), {"record": "done", "key": ["c1", "net1"]}, {"record": "last", "addresses": {}}), None),
        ((held(ports=[VF]),), {}),
        ((held(ports=[MACVLAN]),), {}),
        ((b"{", b"[]", {"record": "held"}, {"record": "held", "attachment": {"ports": []}}, held(1)), RAIL1),
    ],
    ids=["held", "gone", "another gone", "held again", "boot", "two", "a VF", "a macvlan", "malformed ones"],
)
def test_ports_of_the_journal(
    tmp_path: Path, records: tuple[dict[str, Any] | bytes, ...], expected: dict[str, MovedPort] | None
) -> None:
    write_journal(tmp_path, *records)
    ports = read_moved_ports(Machine(tmp_path))
    assert (ports == expected) if expected is not None else (set(ports) == {"rail0", "rail1"})


def test_without_a_journal_no_port_is_in_a_pod(tmp_path: Path) -> None:
    assert read_moved_ports(Machine(tmp_path)) == {}


def test_a_port_in_a_pod_is_no_difference(place: Host) -> None:
    node = node_plan(FLAT, PORTS)
    apply(place.machine, iter_settings(node), place.records)
    place.send(build_delete_link(place.index("rail1")))
    assert place.differs(node) == [f"name of {MACS[1]}"]
    write_journal(place.machine.root, held(1))
    comparison = compare(place.machine, iter_settings(node))
    assert comparison.changes == ()
    assert {skip.reason for skip in comparison.skipped if skip.setting.rail == 1} == {
        "pod train/worker-0 has it",
        "pod train/worker-0 has rail1",
    }


def test_rules_of_a_port_in_a_pod_may_go_with_it(place: Host) -> None:
    node = node_plan(FLAT, PORTS)
    apply(place.machine, iter_settings(node), place.records)
    place.send(build_delete_link(place.index("rail1")))
    with place.machine.open_socket() as sock:
        rules = list_rules(sock)
    place.send(*(build_delete_rule(rule) for rule in rules if rule.priority in {1000, 1001}))
    write_journal(place.machine.root, held(1))
    assert place.differs(node) == ["rule 1000 IPv4", "rule 1000 IPv6"]  # of the port that is here


def test_another_port_of_the_same_name_is_a_difference(place: Host) -> None:
    node = node_plan(FLAT, PORTS)
    apply(place.machine, iter_settings(node), place.records)
    place.send(build_delete_link(place.index("rail1")))
    ports = [{"rail": 1, "name": "rail1", "mac": "b8:3f:d2:ff:ff:ff", "host": {"name": "rail1"}}]
    write_journal(place.machine.root, held(ports=ports))
    assert place.differs(node) == [f"name of {MACS[1]}"]


def test_a_port_whose_pci_device_is_absent_is_a_difference(place: Host) -> None:
    node = node_plan(FLAT, '[{pci: "0000:18:00.0", netdev: rail0}, {pci: "0000:3a:00.0", netdev: rail1}]')
    place.send(build_delete_link(place.index("eth0")), build_delete_link(place.index("eth1")))
    write_journal(place.machine.root, held(0, 1))
    assert place.differs(node)[:2] == ["name of 0000:18:00.0", "name of 0000:3a:00.0"]
    for pci in ("0000:18:00.0", "0000:3a:00.0"):
        (place.machine.root / f"sys/bus/pci/devices/{pci}").mkdir(parents=True)
    assert [subject for subject in place.differs(node) if "name of" in subject] == []


def test_a_plan_fits_a_host_whose_ports_are_in_pods_although_an_entry_would_go(place: Host) -> None:
    node = node_plan(FLAT, PORTS)
    apply(place.machine, iter_settings(node), place.records)
    other = node_plan(FLAT, PORTS, nodes=5)  # the same node of a larger Fabric
    place.send(build_delete_link(place.index("rail1")))
    view = read_view(place.machine, iter_settings(other))
    assert measure_fit(view, compare_view(view)).absent_ports == ("rail1",)
    write_journal(place.machine.root, held(1))
    view = read_view(place.machine, iter_settings(other))
    fit = measure_fit(view, compare_view(view))
    assert (fit.absent_ports, explain_misfit(fit)) == ((), "")
