"""The rail map: spine, leaves and nodes as coordinates. The fabric is regular, so each place is a formula."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trackbed_lab.run_result import RunPort, RunResult

WIDTH, NODE_WIDTH_MAX = 1200.0, 280.0
SPINE_Y, LEAF_Y, NODE_Y = 34.0, 132.0, 318.0
_MARGIN, _LEAF_HEIGHT, _NODE_HEIGHT = 16.0, 26.0, 62.0


class Box(NamedTuple):
    """A rectangle with a name and a second line, and the rail it belongs to (-1: none)."""

    x: float
    y: float
    width: float
    height: float
    text: str
    note: str
    rail: int


class Cable(NamedTuple):
    """A cable from a node's port up to its leaf, or (rail of a leaf) from a leaf up to the spine."""

    x1: float
    y1: float
    x2: float
    y2: float
    rail: int
    text: str
    broken: bool


class RailMap(NamedTuple):
    """Everything to draw, in a box of width × height."""

    width: float
    height: float
    spine: Box
    leaves: tuple[Box, ...]
    nodes: tuple[Box, ...]
    uplinks: tuple[Cable, ...]
    cables: tuple[Cable, ...]
    rails: tuple[tuple[int, str], ...]


def build_rail_map(result: RunResult) -> RailMap:
    """Place everything: units side by side, in each its leaves above its nodes."""
    leaves = _leaves(result)
    nodes = _nodes(result)
    spine = Box(WIDTH / 2 - 90, SPINE_Y - 17, 180, 34, "spine", "", -1)
    uplinks = tuple(
        Cable(box.x + box.width / 2, box.y, WIDTH / 2, SPINE_Y + 17, box.rail, name, broken=False)
        for name, box in leaves.items()
    )
    cables = tuple(_cable(result, port, nodes[port.node], leaves[port.leaf]) for port in result.ports)
    rails = tuple((rail.rail, rail.name) for rail in result.rails)
    height = NODE_Y + _NODE_HEIGHT + 10
    return RailMap(WIDTH, height, spine, tuple(leaves.values()), tuple(nodes.values()), uplinks, cables, rails)


def _units(result: RunResult) -> list[int]:
    return sorted({node.unit for node in result.nodes})


def _leaves(result: RunResult) -> dict[str, Box]:
    """Leaves by name: units side by side, rails in order."""
    unit_of = {node.name: node.unit for node in result.nodes}
    seen = {port.leaf: (unit_of[port.node], port.rail) for port in result.ports}
    units, band = _units(result), _band(result)
    step = (band - 2 * _MARGIN) / max(1, len(result.rails))
    width = min(step - 6, 84.0)
    return {
        name: Box(
            _MARGIN + units.index(unit) * band + rail * step + (step - width) / 2,
            LEAF_Y,
            width,
            _LEAF_HEIGHT,
            f"u{unit} r{rail}",
            name,
            rail,
        )
        for name, (unit, rail) in sorted(seen.items(), key=lambda item: item[1])
    }


def _band(result: RunResult) -> float:
    return WIDTH / max(1, len(_units(result)))


def _nodes(result: RunResult) -> dict[str, Box]:
    units, band = _units(result), _band(result)
    found = {}
    for unit in units:
        members = [node for node in result.nodes if node.unit == unit]
        step = (band - 2 * _MARGIN) / len(members)
        width = min(step - 12, NODE_WIDTH_MAX)
        for place, node in enumerate(members):
            x = _MARGIN + units.index(unit) * band + place * step + (step - width) / 2
            found[node.name] = Box(x, NODE_Y, width, _NODE_HEIGHT, node.name, node.pod, -1)
    return found


def _cable(result: RunResult, port: RunPort, node: Box, leaf: Box) -> Cable:
    step = node.width / (len(result.rails) + 1)
    fault = result.fault
    broken = fault is not None and (fault.node, fault.rail) == (port.node, port.rail)
    text = f"{port.node} rail {port.rail}: {port.address} on {port.leaf}"
    x = node.x + step * (port.rail + 1)
    return Cable(x, node.y, leaf.x + leaf.width / 2, leaf.y + leaf.height, port.rail, text, broken)
