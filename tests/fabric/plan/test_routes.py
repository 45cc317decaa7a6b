from __future__ import annotations

import pytest

from tests.fabric.plan.fabrics import fabric
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.routes import build_fence_rule, build_source_rule, iter_routes


def _lines(rail: int, **spec: object) -> list[str]:
    plan = compute_plan(fabric(nodes=[{"hosts": "n[0-1]", "ports": ["a", "b"]}], rails=2, **spec), {})
    addressing = plan.nodes[1].ports[rail].v4
    assert addressing is not None
    lines = []
    for route in iter_routes(plan.common, rail, addressing, carries_supernet=rail == 0):
        via = f" via {format_address(4, route.gateway)}" if route.gateway else ""
        kind = "unreachable " if route.unreachable else ""
        lines.append(f"{route.table}: {kind}{route.to}{via}")
    source = build_source_rule(plan.common, rail, addressing)
    lines.append(f"rule {source.priority}: from {source.source} lookup {source.table}")
    around = build_fence_rule(plan.common, 4)
    if around:
        lines.append(f"rule {around.priority}: not to {around.unless_to} lookup {around.table}")
    return lines


POINTS = {"scheme": "point-to-point", "ipv4": "10.0.0.0/15"}


@pytest.mark.parametrize(
    ("rail", "spec", "expected"),
    [
        pytest.param(
            0,
            {"addressing": POINTS},
            [
                "1000: 10.0.0.2/31",
                "1000: 0.0.0.0/0 via 10.0.0.3",
                "254: 10.0.0.0/16 via 10.0.0.3",
                "254: 10.0.0.0/15 via 10.0.0.3",
                "rule 1000: from 10.0.0.2/32 lookup 1000",
                "rule 999: not to 10.0.0.0/15 lookup 254",
            ],
            id="the first rail carries the supernet",
        ),
        pytest.param(
            1,
            {"addressing": POINTS, "routing": {"crossRail": "isolated"}},
            [
                "1001: 10.1.0.2/31",
                "1001: 10.1.0.0/16 via 10.1.0.3",
                "1001: unreachable 0.0.0.0/0",
                "254: 10.1.0.0/16 via 10.1.0.3",
                "rule 1001: from 10.1.0.2/32 lookup 1001",
                "rule 999: not to 10.0.0.0/15 lookup 254",
            ],
            id="isolated rails reach their own range and nothing else",
        ),
        pytest.param(
            1,
            {"addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/15"}},
            [
                "1001: 10.1.0.0/16",
                "1001: unreachable 0.0.0.0/0",
                "rule 1001: from 10.1.0.32/32 lookup 1001",
                "rule 999: not to 10.0.0.0/15 lookup 254",
            ],
            id="a flat rail without gateway ends at its subnet",
        ),
        pytest.param(
            0,
            {"addressing": POINTS, "routing": {"tableBase": 5000, "rulePriority": 20}},
            [
                "5000: 10.0.0.2/31",
                "5000: 0.0.0.0/0 via 10.0.0.3",
                "254: 10.0.0.0/16 via 10.0.0.3",
                "254: 10.0.0.0/15 via 10.0.0.3",
                "rule 20: from 10.0.0.2/32 lookup 5000",
                "rule 19: not to 10.0.0.0/15 lookup 254",
            ],
            id="tables and priorities can be moved",
        ),
    ],
)
def test_routes_and_rules_of_a_port(rail: int, spec: dict[str, object], expected: list[str]) -> None:
    assert _lines(rail, **spec) == expected
