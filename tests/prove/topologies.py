"""Topologies of Fabrics with unlike groups, as text and as a strategy."""

from array import array
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.prove.rounds import Round
from trackbed.prove.topology import FabricTopology, Uplinks, build_topology

_HEAD = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "f"}}


def build(
    nodes: int, nodes_per_unit: int = 8, rails: int = 2, uplinks: Uplinks | None = None, half: int = 0
) -> FabricTopology:
    """Return a topology in which `half` further nodes have a port on the first rail only."""
    groups: list[Mapping[str, object]] = [{"hosts": f"n[1-{nodes}]"}]
    if half:
        groups.append({"hosts": f"half[1-{half}]", "ports": ["0000:18:00.0", *[None] * (rails - 1)]})
    spec = {"nodes": groups, "rails": rails, "nodesPerUnit": nodes_per_unit, "addressing": {"scheme": "none"}}
    return build_topology(compute_plan(Fabric.model_validate(_HEAD | {"spec": spec}), {}), uplinks)


@st.composite
def topologies(draw: st.DrawFn) -> FabricTopology:
    """Draw a small fabric: odd counts, units that are not full, nodes without some rails, one pod or several."""
    uplinks = Uplinks(
        draw(st.integers(1, 4)), draw(st.integers(1, 2)), units_per_pod=draw(st.sampled_from([None, 1, 2]))
    )
    return build(
        draw(st.integers(1, 23)), draw(st.integers(1, 8)), draw(st.integers(1, 3)), uplinks, draw(st.integers(0, 3))
    )


def list_tests(tests: Round) -> list[tuple[int, int]]:
    """Return the tests of a round as pairs of ports, the lower first."""
    return [(min(pair), max(pair)) for pair in zip(tests.a, tests.b, strict=True)]


def build_round(kind: str, pairs: Sequence[tuple[int, int]]) -> Round:
    """Return a spread round of these pairs."""
    a, b = (array("i", column) for column in zip(*pairs, strict=True))
    return Round("near" if kind == "near" else "far", a, b)
