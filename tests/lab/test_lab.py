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

pytestmark = pytest.mark.needs("processes")

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


def with_pods(files: Path, document: bytes, inspect: Callable[[Lab], Any]) -> Any:
    """What `then` finds in a lab with a pod on each node."""

    def work() -> Any:
        lab = Lab(files)
        lab.build(document)
        lab.apply()
        lab.start_agents()
        lab.add_pods()
        return msgspec.to_builtins(inspect(lab))

    return in_sandbox(files, work)


def pairs(files: Path, addressing: str, spec: str = "") -> list[RailPair]:
    return msgspec.convert(with_pods(files, fabric(addressing, spec), measure_pairs), list[RailPair])


@pytest.mark.slow
@pytest.mark.parametrize(("addressing", "spec", "routers"), SCHEMES.values(), ids=SCHEMES)
def test_every_rail_of_every_pod_reaches_every_other(
    tmp_path: Path, addressing: str, spec: str, routers: dict[int, int]
) -> None:
    measured = pairs(tmp_path, addressing, spec)
    met = {((p.from_node, p.from_rail), (p.to_node, p.to_rail)): p for p in measured}
    assert set(met) == {(source, other) for source in ENDS for other in ENDS if source != other}
    assert len(measured) == 12
    for (source, other), pair in met.items():
        assert pair.answered
        assert pair.source_ok, f"{source} to {other}"
        differs = (source[1] != other[1]) + 2 * (source[0] != other[0])
        assert pair.hops == (0 if source[0] == other[0] else routers[differs]), f"{source} to {other}"
    assert all(pair.as_planned for pair in measured)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("addressing", "spec"),
    [(P2P, ISOLATED), (NODE_SUBNET, ISOLATED), (SHARED, ISOLATED), (FLAT, "")],
    ids=["point-to-point", "node-subnet", "shared-subnet", "no-gateway"],
)
def test_isolated_rails_reach_themselves_only(
    tmp_path: Path, addressing: str, spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SILENCE_SECONDS", 1.0)  # silence is waited for to the end
    measured = [pair for pair in pairs(tmp_path, addressing, spec) if pair.from_node != pair.to_node]
    assert len(measured) == 8
    assert [pair.answered for pair in measured] == [pair.from_rail == pair.to_rail for pair in measured]
    assert all(pair.as_planned for pair in measured)
