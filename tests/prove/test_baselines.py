"""Baselines: a class of ports is compared with an earlier proof, by server, firmware and rate."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.prove.hosts import Hosts, build_plan
from trackbed.fabric.documents import parse_document, to_camel, to_document
from trackbed.prove.baselines import ClassBaseline, PortClass, compute_baselines, find_regressions
from trackbed.prove.proof import Proof
from trackbed.prove.report import build_report, list_details


def build(median: float, rung: str = "write_bw", firmware: str = "28.40", tests: int = 9) -> ClassBaseline:
    unit = "Gb/s" if rung == "write_bw" else "us"
    return ClassBaseline(PortClass("DGX", firmware, 400.0, rung, "far"), unit, median, tests)


@dataclass
class Fleet(Hosts):
    """Hosts that say which server and firmware they are."""

    firmware: str = "28.40.1000"

    def answer(self, node: str, step: object) -> object:
        """Return what a node answers, with its model and firmware."""
        answer = super().answer(node, step)  # type: ignore[arg-type] # a step
        if isinstance(answer, dict) and "files" in answer:
            rail = next(path.split("/rail")[1][0] for path in answer["files"] if "/rail" in path)
            device = f"/sys/class/infiniband/rail{rail}"
            answer["files"] |= {
                "/sys/class/dmi/id/product_name": "DGX H100\n",
                f"{device}/board_id": "MT_0000000838\n",
                f"{device}/fw_ver": f"{self.firmware}\n",
            }
        return answer


def prove_at(gbps: float, firmware: str) -> Proof:
    ports = {(f"n{number}", rail): gbps for number in range(1, 13) for rail in (0, 1)}
    return Fleet(build_plan(12), gbps=ports, firmware=firmware).prove(rungs=("ping", "gid", "write_bw"))


def test_each_class_has_a_median_for_each_rung_that_measures() -> None:
    baselines = compute_baselines(Fleet(build_plan(12)).prove())
    names = [(entry.port_class.rung, entry.port_class.path, entry.median, entry.unit) for entry in baselines]
    assert names == [
        ("write_bw", "far", 390.0, "Gb/s"),
        ("write_bw", "near", 390.0, "Gb/s"),
        ("write_lat", "far", 2.0, "us"),
        ("write_lat", "near", 2.0, "us"),
    ]
    assert {entry.port_class[:2] for entry in baselines} == {("DGX H100", "MT_0000000838 28.40.1000")}
    assert {entry.port_class.kind for entry in baselines} == {"screen"}


def test_a_baseline_survives_json() -> None:
    baselines = compute_baselines(Fleet(build_plan(12)).prove())
    assert tuple(parse_document(to_document(baselines, to_camel), list[ClassBaseline], to_camel)) == baselines


@pytest.mark.parametrize(
    ("now", "before", "is_slower"),
    [
        (build(379), build(390), False),
        (build(378), build(390), True),
        (build(390), build(378), False),
        (build(3.0, "write_lat"), build(2.0, "write_lat"), False),
        (build(3.1, "write_lat"), build(2.0, "write_lat"), True),
    ],
    ids=["0.97 of the rate", "less", "faster", "1.5 times the latency", "more"],
)
def test_a_class_is_slower_from_a_bound_on(now: ClassBaseline, before: ClassBaseline, *, is_slower: bool) -> None:
    assert bool(list(find_regressions([now], [before]))) is is_slower


def test_the_same_firmware_is_compared_before_another() -> None:
    before = [build(390, firmware="28.39", tests=900), build(370)]
    assert list(find_regressions([build(365)], before)) == []
    [regression] = find_regressions([build(365, firmware="28.41")], before)
    assert regression.before.median == 390


def test_ports_of_another_rate_or_rung_are_never_compared() -> None:
    other = build(900)._replace(port_class=build(900).port_class._replace(rate_gbps=800.0))
    assert list(find_regressions([build(390)], [other, build(900, "write_lat")])) == []


def test_an_update_that_makes_all_ports_slower_is_named_though_no_port_is_blamed() -> None:
    before = build_report(prove_at(398, "28.40.1000")).baselines
    slow = build_report(prove_at(382, "28.41.0"), before)
    assert (slow.culprits, slow.status, slow.summary.partition(":")[0]) == ((), 1, "slower than before")
    lines = dict(list_details(slow))["Slower than in the earlier proof"]
    assert lines[0] == (
        "write_bw (far) of DGX H100, firmware MT_0000000838 28.41.0, 400 Gb/s:"
        " 382 Gb/s, before 398 Gb/s with firmware MT_0000000838 28.40.1000"
    )


def test_a_proof_at_a_share_of_the_rate_is_not_compared_with_one_at_all_of_it() -> None:
    before = build_report(Fleet(build_plan(12)).prove()).baselines
    report = build_report(Fleet(build_plan(12)).prove(share=0.1), before)
    assert (report.status, report.regressions) == (3, ())
    assert "40 Gb/s" in " ".join(report.uncompared)


def test_without_an_earlier_class_it_is_said_that_nothing_was_compared_and_the_status_is_unknown() -> None:
    report = build_report(Fleet(build_plan(12)).prove(), [])
    assert (report.status, len(report.uncompared), report.lapsed) == (3, 4, ())
    assert report.summary.endswith(
        "; no class could be compared with the earlier proof: it needs 4 tests of like ports in both"
    )
    assert build_report(Fleet(build_plan(12)).prove()).uncompared == ()


@dataclass
class HalfUpdated(Fleet):
    """Hosts of which two have other firmware."""

    def answer(self, node: str, step: object) -> object:
        """Return what a node answers."""
        self.firmware = "28.41.0" if node in {"n1", "n3"} else "28.40.1000"
        return super().answer(node, step)


def test_earlier_classes_without_a_counterpart_are_listed_where_half_of_the_nodes_were_updated() -> None:
    before = build_report(Fleet(build_plan(4, rails=1)).prove()).baselines
    report = build_report(HalfUpdated(build_plan(4, rails=1)).prove(), before)
    assert (report.status, report.baselines, report.uncompared) == (3, (), ())
    assert report.lapsed == tuple(
        f"{rung} (near) of DGX H100, firmware MT_0000000838 28.40.1000, 400 Gb/s" for rung in ("write_bw", "write_lat")
    )
    assert dict(list_details(report))["In the earlier proof alone, so not compared"] == report.lapsed


def test_a_proof_of_an_older_release_is_read_and_it_is_said_why_its_classes_are_not_compared() -> None:
    old_class = {"server": "DGX H100", "firmware": "MT_0000000838 28.40.1000", "rateGbps": 400, "rung": "write_bw"}
    document = [{"portClass": old_class | {"kind": "far"}, "unit": "Gb/s", "median": 398, "tests": 24}]
    before = parse_document(document, list[ClassBaseline], to_camel)
    report = build_report(Fleet(build_plan(12)).prove(), before)
    assert (report.status, report.regressions, len(report.uncompared)) == (3, (), 4)
    assert report.lapsed[0].endswith(
        "400 Gb/s: an older release wrote it, whose classes mix paths within and between leaves;"
        " keep this proof's JSON instead"
    )
