from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from trackbed_lab import run
from trackbed_lab.lab import Lab
from trackbed_lab.run import measure_pairs
from trackbed_lab.run_result import RailPair

from tests.lab.fabrics import FLAT, ISOLATED, NODE_SUBNET, ONLY_V6, P2P, SHARED, fabric
from tests.lab.sandboxes import in_sandbox

ENDS = [(node, rail) for node in ("node-0", "node-1") for rail in (0, 1)]
ROUTED = {0: 0, 1: 3, 2: 3, 3: 3}
"""Routers on the way, by what differs between two ends: 1 the rail, 2 the node (and so the unit), 3 both."""
BRIDGED = {0: 0, 1: 1, 2: 0, 3: 1}
SCHEMES = {
    "point-to-point": (P2P, "", ROUTED),
    "node-subnet": (NODE_SUBNET, "", ROUTED),
    "shared-subnet": (SHARED, "", BRIDGED),
    "ipv6": (ONLY_V6, "", ROUTED),
}


def with_pods(files: Path, document: bytes, then: Callable[[Lab], Any]) -> Any:
    """What `then` finds in a lab with a pod on each node."""

    def work() -> Any:
        lab = Lab(files)
        lab.build(document)
        lab.apply()
        lab.start_agents()
        lab.add_pods()
        return msgspec.to_builtins(then(lab))

    return in_sandbox(files, work)


def pairs(files: Path, addressing: str, more: str = "") -> list[RailPair]:
    return msgspec.convert(with_pods(files, fabric(addressing, more), measure_pairs), list[RailPair])


@pytest.mark.slow
@pytest.mark.parametrize(("addressing", "more", "routers"), SCHEMES.values(), ids=SCHEMES)
def test_every_rail_of_every_pod_reaches_every_other(
    tmp_path: Path, addressing: str, more: str, routers: dict[int, int]
) -> None:
    found = pairs(tmp_path, addressing, more)
    met = {((p.from_node, p.from_rail), (p.to_node, p.to_rail)): p for p in found}
    assert set(met) == {(one, other) for one in ENDS for other in ENDS if one != other}
    assert len(found) == 12
    for (one, other), pair in met.items():
        assert pair.answered
        assert pair.source_ok, f"{one} to {other}"
        differs = (one[1] != other[1]) + 2 * (one[0] != other[0])
        assert pair.hops == (0 if one[0] == other[0] else routers[differs]), f"{one} to {other}"
    assert all(pair.as_planned for pair in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("addressing", "more"),
    [(P2P, ISOLATED), (NODE_SUBNET, ISOLATED), (SHARED, ISOLATED), (FLAT, "")],
    ids=["point-to-point", "node-subnet", "shared-subnet", "no-gateway"],
)
def test_isolated_rails_reach_themselves_only(
    tmp_path: Path, addressing: str, more: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "MATRIX_SECONDS", 1.0)  # silence is waited for to the end
    found = [pair for pair in pairs(tmp_path, addressing, more) if pair.from_node != pair.to_node]
    assert len(found) == 8
    assert [pair.answered for pair in found] == [pair.from_rail == pair.to_rail for pair in found]
    assert all(pair.as_planned for pair in found)
