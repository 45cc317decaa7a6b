"""Faults between the nodes of a Fabric, found in what their agents report; whatever a report has, others are judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from tests.doctor.host.test_between_nodes import FABRIC, FAULTS, SITE, change_excerpt, change_ports
from trackbed.cluster.controller import comparison
from trackbed.cluster.controller.comparison import NodeComparison, build_condition, compare_nodes, list_findings
from trackbed.cluster.controller.excerpts import NOT_REPORTED
from trackbed.cluster.controller.objects import RailNode
from trackbed.cluster.controller.slices import build_slices
from trackbed.cluster.resources.node_report import MAX_REPORT_BYTES
from trackbed.doctor.across.excerpt import HeldMac, NodeExcerpt
from trackbed.doctor.catalogue import load_catalogue
from trackbed.doctor.finding import FaultEnd
from trackbed.fabric.model.load import load_fabric
from trackbed.node.sync.host_report import build_report

SLICES = build_slices(load_fabric(FABRIC, "site.yaml").fabric, {})
SHARED = change_excerpt("gpu008", macs=(HeldMac(1, "rail1", "02:00:00:00:04:01", 3),))


def report_site(site: Mapping[str, NodeExcerpt]) -> dict[str, bytes | None]:
    """Return the report of each node, whose host has reached its plan."""
    return {
        name: msgspec.json.encode(build_report(excerpt, SLICES.nodes[name].digest)) for name, excerpt in site.items()
    }


def compare(*changes: Callable[[dict[str, NodeExcerpt]], None], **reports: bytes | None) -> NodeComparison:
    site = dict(SITE)
    for change in changes:
        change(site)
    return compare_nodes({**report_site(site), **reports}, SLICES)


def summarize(outcome: NodeComparison) -> str:
    condition = build_condition(outcome)
    return f"{condition.status} {condition.reason} {condition.message}"


def test_a_port_with_carrier_that_heard_no_lldp_makes_the_cabling_unknown() -> None:
    verdicts = {finding.id: finding.verdict for finding in compare(change_excerpt("gpu002", cables=())).findings}
    assert verdicts["fabric-port-on-wrong-leaf"] == "unknown"
    assert {finding.id: finding.verdict for finding in compare().findings}["fabric-port-on-wrong-leaf"] == "pass"


@pytest.mark.parametrize(("fault", "change", "ends", "evidence"), FAULTS.values(), ids=FAULTS)
def test_a_fault_between_nodes_is_told_once_with_all_its_ends(
    fault: str, change: Callable[[dict[str, NodeExcerpt]], None], ends: list[str], evidence: str
) -> None:
    outcome = compare(change)
    (finding,) = list_findings(outcome)
    assert (finding.code, finding.verdict) == (fault, load_catalogue()[fault].verdict)
    assert [str(FaultEnd(end.node, end.rail or None)) for end in finding.ends] == [
        end.removesuffix(" rail 0") for end in ends
    ]
    assert (finding.end_count, evidence in finding.message) == (len(ends), True)
    reason = "Broken" if finding.verdict == "fail" else "Differs"
    suspects = "any of these ends may be the wrong one"
    assert summarize(outcome) == f"False {reason} 1 fault between nodes: {fault}: {evidence}; {suspects}"


def test_nodes_that_agree_are_consistent() -> None:
    outcome = compare()
    assert summarize(outcome) == "True NothingDiffers 8 nodes compared"
    assert list_findings(outcome) == ()


def test_a_node_without_a_report_is_unknown_and_hides_no_fault() -> None:
    gap = f"not compared: 1 of 8 nodes: gpu002: {NOT_REPORTED}"
    assert summarize(compare(gpu002=None)) == f"Unknown NotReported no fault is known between 8 nodes; {gap}"
    assert summarize(compare(SHARED, gpu002=None)).endswith(f"any of these ends may be the wrong one; {gap}")


def test_many_nodes_without_a_report_do_not_hide_the_reason() -> None:
    fabric = FABRIC.replace(b"gpu[001-008]", b"gpu[0001-1000]").replace(b"nodesPerUnit: 4", b"nodesPerUnit: 32")
    slices = build_slices(load_fabric(fabric, "site.yaml").fabric, {})
    driver = b'{"driver": ""}'
    reports = {name: driver if number % 2 else None for number, name in enumerate(slices.plans)}
    message = build_condition(compare_nodes(reports, slices)).message
    assert "not compared: 500 of 1000 nodes: gpu[0001,0003,0005," in message
    assert message.endswith(NOT_REPORTED)


def test_a_fabric_without_nodes_in_the_cluster_is_unknown() -> None:
    assert summarize(compare_nodes({}, SLICES)).startswith("Unknown NotReported no fault is known between 0 nodes")


def test_a_part_that_was_not_reported_is_unknown() -> None:
    message = "not compared in full: fw-version-mixed: not read of gpu003 (1 of 8 nodes)"
    assert summarize(compare(change_excerpt("gpu003", firmware=None))).endswith(message)


def test_addresses_of_a_host_that_has_not_reached_its_plan_are_unknown() -> None:
    """Else a node would be blamed while the nodes are renumbered one after the other."""
    old = msgspec.json.encode(build_report(SITE["gpu003"], "an earlier plan"))
    assert summarize(compare(gpu003=old)).endswith("addr-duplicate-on-rail: not read of gpu003 (1 of 8 nodes)")


HOSTILE: dict[str, tuple[bytes, str]] = {
    "a list": (b"[]", "Expected `object`, got `array`"),
    "a wrong type": (b'{"macs": 7}', "Expected `array`, got `int` - at `$.macs`"),
    "a rail that no node has": (b'{"ports": [{"rail": 64}]}', "Expected `int` <= 63 - at `$.ports[0].rail`"),
    "a long text": (b'{"driver": "%s"}' % (b"x" * 129), "Expected `str` of length <= 128 - at `$.driver`"),
    "an escape sequence": (
        b'{"driver": "\\u001b[31m"}',
        "a text in it has unprintable characters, quotes or backslashes",
    ),
    "megabytes": (b'{"driver": "%s"}' % (b"x" * 3_000_000), f"it has more than {MAX_REPORT_BYTES} bytes"),
}


@pytest.mark.parametrize(("report", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_a_report_that_is_not_understood_is_told_and_the_others_are_compared(report: bytes, reason: str) -> None:
    outcome = compare(SHARED, gpu002=report)
    assert outcome.unreadable == {"gpu002": reason}
    assert [(finding.code, str(finding.ends[0].node)) for finding in list_findings(outcome)] == [
        ("vfs-mac-duplicate", "gpu004")
    ]
    assert f"not compared: 1 of 8 nodes: gpu002: its report is not understood: {reason}" in summarize(outcome)


ODD_REPORTS = {
    "rails of another node": {
        "ports": [{"rail": 63}],
        "macs": [{"rail": 63, "mac": "x"}],
        "cables": [{"rail": 9, "leaf": "", "leafPort": ""}],
    },
    "everything twice": {
        "ports": [{"rail": 0}] * 2,
        "macs": [{"rail": 0, "mac": "x"}] * 2,
        "devices": [{"guid": "x", "name": ""}] * 2,
    },
    "positions of no port": {
        "railOrder": [{"hardwareDigest": "", "positions": [{"rail": 5, "rdma": "", "position": 60}] * 9}]
    },
    "addresses of no kind": {"addresses": [{"address": "999.1", "netdev": "x"}] * 9},
    "fields of a later version": {"later": {"x": 1}, "macs": []},
    "names of others": {"identity": {"hostName": "gpu001"}},
}


@pytest.mark.parametrize("report", ODD_REPORTS.values(), ids=ODD_REPORTS)
def test_an_odd_report_ends_nothing_and_blames_a_sound_node_only_as_the_other_end(report: dict[str, Any]) -> None:
    odd = msgspec.json.encode({"reachedHash": SLICES.nodes["gpu002"].digest, **report})
    outcome = compare(SHARED, gpu002=odd)
    faults = {(finding.code, tuple(end.node for end in finding.ends)) for finding in list_findings(outcome)}
    assert ("vfs-mac-duplicate", ("gpu004", "gpu008")) in faults
    assert all("gpu002" in nodes for _, nodes in faults - {("vfs-mac-duplicate", ("gpu004", "gpu008"))})


def test_what_a_fabric_tells_is_bounded_whatever_the_number_of_faults() -> None:
    numbers = range(1, 9)
    claims = {
        "macs": tuple(HeldMac(1, "rail1", f"02:00:00:00:0{number}:01", number) for number in numbers),
        "guids": tuple((f"0200:00ff:fe00:0{number}00", f"mlx5_{number}") for number in numbers),
    }
    outcome = compare(change_excerpt("gpu001", **claims), change_ports([*SITE], 0, has_carrier=False))
    findings = list_findings(outcome)
    assert (len(outcome.broken), len(findings)) == (7 + 7 + 2, 10)
    assert (
        max(len(finding.ends) for finding in list_findings(compare(change_ports([*SITE], 0, has_carrier=False)))) <= 8
    )
    assert len(build_condition(outcome).message) <= 1024


def test_a_fault_is_known_again_by_what_was_written_of_it() -> None:
    outcome = compare(SHARED)
    (fault,) = comparison.map_faults(outcome)
    assert comparison.restore_faults(list_findings(outcome), ()) == {fault}
    assert comparison.restore_faults((), {fault}) == set()
    assert comparison.restore_faults(list_findings(outcome) * 10, [("more", ())]) == {fault, ("more", ())}


def test_a_fault_is_gone_when_all_its_ends_are_read_again() -> None:
    (fault,) = comparison.map_faults(compare(SHARED))
    assert comparison.is_gone(fault, compare())
    assert not comparison.is_gone(fault, compare(gpu008=None))
    assert not comparison.is_gone(fault, compare(change_excerpt("gpu004", macs=None)))
    assert comparison.is_gone(fault, compare(change_excerpt("gpu004", driver=None)))


def test_a_railnode_keeps_a_report_as_bytes_and_none_makes_it_unreadable() -> None:
    def decode(report: Any) -> Any:
        body = {"metadata": {"name": "n0", "resourceVersion": "1"}, "spec": {"fabric": "x", "slot": 0}}
        return msgspec.convert({**body, "status": {"report": report}}, RailNode).status.report

    assert decode({"driver": ""}) == b'{"driver":""}'
    assert decode(None) is None
    assert (decode(7), decode("x"), decode([])) == (b"7", b'"x"', b"[]")
    assert len(decode("x" * 3_000_000)) == MAX_REPORT_BYTES + 1
