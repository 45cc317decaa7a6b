"""The report of a host in its RailNode: what checks between nodes need, short, and within the limits of the CRD."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import UNSET

from tests.doctor.host.test_between_nodes import NODES, PARTS, SITE
from trackbed.cluster.controller.excerpts import build_excerpt
from trackbed.cluster.resources.node_report import MAX_REPORT_BYTES, NodeReport
from trackbed.doctor.across.excerpt import HOST_NAME, HeldMac, NodeExcerpt, PluggedCable
from trackbed.node.sync.host_report import build_report

NAME = "gpu003"
REPORTED = {"guids": "devices"}
"""Part of an excerpt -> field of the report, where the names differ."""


def send(excerpt: NodeExcerpt) -> NodeExcerpt:
    """Return what the controller reads of an excerpt that an agent has reported."""
    return build_excerpt(NODES[NAME], msgspec.json.encode(build_report(excerpt, "p1")), "p1")


def test_the_controller_reads_what_the_agent_has_read() -> None:
    excerpt = SITE[NAME]
    received = send(excerpt)
    assert received.identity is not None
    assert received.identity[0] == (HOST_NAME, NAME)
    digests = {"identity": received.identity, "rail_order": received.rail_order}
    assert received == msgspec.structs.replace(excerpt, **digests)
    assert [order.positions for order in received.rail_order or ()] == [
        order.positions for order in excerpt.rail_order or ()
    ]


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_was_not_read_is_absent_and_one_that_is_empty_is_not(part: str) -> None:
    empty: object = "" if part == "driver" else ()
    for value in (None, empty):
        excerpt = msgspec.structs.replace(SITE[NAME], **{part: value})
        report = msgspec.json.decode(msgspec.json.encode(build_report(excerpt, "")))
        keys = {name.replace("_", "").lower() for name in PARTS} - {part.replace("_", "")} | (
            {part} if value is not None else set()
        )
        assert {name.lower() for name in report} == {REPORTED.get(key, key).replace("_", "") for key in keys}
        assert getattr(send(excerpt), part) == value


def test_the_machine_id_is_not_told_and_equal_ones_have_equal_digests() -> None:
    reports = [
        build_report(msgspec.structs.replace(SITE[name], node="x"), "") for name in ("gpu001", "gpu002", "gpu001")
    ]
    digests = [report.identity and report.identity.machine_id_digest for report in reports]
    assert digests[0] == digests[2] != digests[1]
    assert f"{1:032}" not in msgspec.json.encode(reports[0]).decode()


def test_a_part_with_more_than_its_maximum_is_unknown_and_the_others_are_reported() -> None:
    macs = tuple(
        HeldMac(1, "rail1", f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}", number) for number in range(513)
    )
    report = build_report(msgspec.structs.replace(SITE[NAME], macs=macs), "")
    assert report.macs is UNSET
    assert report.addresses
    assert build_report(msgspec.structs.replace(SITE[NAME], macs=macs[:512]), "").macs


def test_a_report_never_exceeds_its_longest_size() -> None:
    macs = tuple(
        HeldMac(rail, "rail", f"02:00:00:00:{rail:02x}:{vf:02x}", vf) for rail in range(64) for vf in range(256)
    )
    report = build_report(msgspec.structs.replace(SITE[NAME], macs=macs), "")
    assert (report.macs, len(msgspec.json.encode(report)) <= MAX_REPORT_BYTES) == (UNSET, True)
    assert report.devices


def test_what_a_leaf_sends_is_made_printable_and_short() -> None:
    cables = (PluggedCable(0, "leaf", '\x1b[31m"leaf\\é\n', "x" * 999),)
    report = build_report(msgspec.structs.replace(SITE[NAME], cables=cables), "")
    assert report.cables is not UNSET
    assert (report.cables[0].leaf, len(report.cables[0].leaf_port)) == ("?[31m?leaf???", 128)
    assert build_excerpt(NODES[NAME], msgspec.json.encode(report), "").cables


def test_a_node_of_two_rails_has_a_report_of_a_kilobyte() -> None:
    report = msgspec.json.encode(build_report(SITE[NAME], "0123456789abcdef"))
    assert len(report) < 1200
    assert msgspec.json.decode(report, type=NodeReport).reached_hash == "0123456789abcdef"


def test_a_part_that_was_read_in_part_is_unknown_but_for_cables_which_show_themselves_what_lacks() -> None:
    excerpt = msgspec.structs.replace(SITE["gpu001"], gaps={"macs": "VFs cannot be listed", "cables": "too short"})
    report = build_report(excerpt, "")
    assert (report.macs, report.cables is UNSET) == (UNSET, False)
