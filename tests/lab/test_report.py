"""The report: one small page at any size, with every port in it, that loads nothing and needs no script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import pytest
from trackbed_lab.report.grouping import GROUPS_MAX, group_ports
from trackbed_lab.report.html import render_html
from trackbed_lab.report.matrix import FAILURES_MAX, Matrix, build_matrix
from trackbed_lab.run_result import Phase, RailPair, RunNode, RunPort, RunRail, RunResult

SIZES = {
    "4 x 8": (4, 8, 2),
    "6 x 8": (6, 8, 2),
    "64 x 8": (64, 8, 32),
    "16 x 64": (16, 64, 8),
    "40 x 2": (40, 2, 1),
    "4 x 2": (4, 2, 1),
}
NOUNS = {"4 x 8": "port", "6 x 8": "port", "64 x 8": "leaf", "16 x 64": "unit", "40 x 2": "unit", "4 x 2": "port"}


def build_run(size: str) -> RunResult:
    """Return a run of nodes x rails in which everything is as planned."""
    nodes, rails, nodes_per_unit = SIZES[size]
    ports = [(f"gpu-{node}", rail) for node in range(nodes) for rail in range(rails)]
    units = {f"gpu-{node}": node // nodes_per_unit for node in range(nodes)}
    return RunResult(
        fabric="big",
        scheme="point-to-point",
        version="1",
        kernel="6",
        cores=2,
        finished_at="2026-01-01T00:00:00Z",
        mtu_bytes=9000,
        cross_rail="routed",
        pod_mode="move",
        nodes=tuple(RunNode(name, unit, f"pod-{name}") for name, unit in units.items()),
        rails=tuple(RunRail(rail, f"rail{rail}", "10.0.0.0/8") for rail in range(rails)),
        ports=tuple(
            RunPort(node, rail, f"leaf-u{units[node]}-r{rail}", f"10.{rail}.{node.removeprefix('gpu-')}.0/31")
            for node, rail in ports
        ),
        phases=(Phase("prove", 1.0, "all", ok=True),),
        pairs=tuple(_iter_pairs(ports, units)),
        fault=None,
        findings=(),
    )


def _iter_pairs(ports: list[tuple[str, int]], units: dict[str, int]) -> Iterator[RailPair]:
    for node, rail in ports:
        for peer, peer_rail in ports:
            if (node, rail) == (peer, peer_rail):
                continue
            hops = 0 if node == peer else 1 if (units[node], rail) == (units[peer], peer_rail) else 3
            yield RailPair(
                from_node=node,
                from_rail=rail,
                to_node=peer,
                to_rail=peer_rail,
                expected=True,
                answered=True,
                source_ok=True,
                expected_hops=hops,
                hops=hops,
            )


def change_pairs(run: RunResult, number: int, **changes: object) -> RunResult:
    """Return the run with the first pairs changed."""
    changed = (msgspec.structs.replace(pair, **changes) for pair in run.pairs[:number])
    return msgspec.structs.replace(run, pairs=(*changed, *run.pairs[number:]))


class SoundRun(NamedTuple):
    """A run in which everything is as planned, and its matrix."""

    size: str
    run: RunResult
    matrix: Matrix


@pytest.fixture(scope="module", params=SIZES)
def sound(request: pytest.FixtureRequest) -> SoundRun:
    run = build_run(request.param)
    return SoundRun(request.param, run, build_matrix(run))


def test_ports_are_grouped_until_the_drawing_can_be_read(sound: SoundRun) -> None:
    size, run, matrix = sound
    grouping = group_ports(run)
    assert (grouping.noun, len(grouping.groups) <= GROUPS_MAX) == (NOUNS[size], True)
    assert len(grouping.number_by_port) == len(run.ports)
    assert sum(number for _, _, number in matrix.counts) == len(run.pairs)
    if grouping.noun == "port":
        assert (len(matrix.cells), matrix.groups) == (len(run.pairs), ())
    else:
        listed = [(port.node, port.rail) for group in matrix.groups for port in group.ports]
        assert sorted(listed) == sorted((port.node, port.rail) for port in run.ports)
        assert {port.pairs for group in matrix.groups for port in group.ports} == {len(run.ports) - 1}


def test_labels_of_the_matrix_have_their_room(sound: SoundRun) -> None:
    matrix = sound.matrix
    ends = [*matrix.lines[1:], matrix.size - 1]
    widths = [end - start for start, end in zip(matrix.lines, ends, strict=True)]
    needed = [7 * len(band.text) for band in matrix.bands]
    across = [11] * len(needed) if matrix.turned else needed
    assert [(need, width) for need, width in zip(across, widths, strict=True) if need > width] == []
    assert max(needed) < matrix.label


@pytest.mark.parametrize("size", ["4 x 8", "64 x 8"])
def test_a_page_is_small_and_has_every_address(size: str) -> None:
    run = build_run(size)
    page = render_html(run)
    assert len(page.encode()) < 400_000
    assert all(port.address in page for port in run.ports)


def test_the_rail_map_tells_the_uplinks_that_the_fabric_describes() -> None:
    described = msgspec.structs.replace(build_run("4 x 8"), uplinks="16 spines a rail, 2 links to each at 400 Gb/s")
    assert "16 spines a rail, 2 links to each at 400 Gb/s</text>" in render_html(described)


def test_a_page_loads_nothing_and_has_no_script() -> None:
    page = render_html(change_pairs(build_run("64 x 8"), 3, answered=False))
    assert not re.search(r"<script|<link|\bsrc=|@import|url\(|https?:", page)


def test_a_group_has_the_colour_of_its_worst_pair_and_failures_are_listed() -> None:
    run = change_pairs(build_run("64 x 8"), FAILURES_MAX + 5, answered=False, hops=None)
    matrix = build_matrix(run)
    assert matrix.cells[0].tone == "silent"
    assert matrix.failures[0] == "gpu-0 rail 0 to gpu-0 rail 1: no answer"
    assert (len(matrix.failures), matrix.more_failures) == (FAILURES_MAX, 5)
    assert [group.name for group in matrix.groups if not group.ok] == ["leaf-u0-r0"]
    assert "And 5 more; <code>trackbed lab run -o json</code>" in render_html(run)


def test_a_pair_that_was_not_tested_is_no_failure_and_no_pass() -> None:
    run = change_pairs(build_run("64 x 8"), 7, tested=False, answered=False, hops=None)
    matrix = build_matrix(run)
    assert ("untested", "not tested", 7) in matrix.counts
    assert matrix.failures == ()
    assert (matrix.groups[0].ports[0].planned, matrix.groups[0].ports[0].untested) == (504, 7)
    page = render_html(run)
    assert "Not fully tested" in page
    assert f"{len(run.pairs) - 7} / {len(run.pairs)}" in page
