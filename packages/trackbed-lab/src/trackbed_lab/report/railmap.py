"""The rail map: coordinates of spine, leaves and nodes, computed from the fabric's regular structure."""

from __future__ import annotations

from typing import NamedTuple

from trackbed_lab.run_result import RunPort, RunResult

WIDTH, NODE_WIDTH_MAX = 1200.0, 280.0
SPINE_Y, LEAF_Y, NODE_Y = 34.0, 132.0, 318.0
_MARGIN, _LEAF_HEIGHT, _NODE_HEIGHT = 16.0, 26.0, 62.0


class Box(NamedTuple):
    """A rectangle with two lines of text, and its rail (-1: none)."""

    x: float
    y: float
    width: float
    height: float
    text: str
    note: str
    rail: int


class Cable(NamedTuple):
    """A cable from a node's port up to its leaf, or from a leaf up to the spine."""

    x1: float
    y1: float
    x2: float
    y2: float
    rail: int
    text: str
    broken: bool


class RailMap(NamedTuple):
    """The drawing, in a box of width × height."""

    width: float
    height: float
    spine: Box
    leaves: tuple[Box, ...]
    nodes: tuple[Box, ...]
    uplinks: tuple[Cable, ...]
    cables: tuple[Cable, ...]
    rails: tuple[tuple[int, str], ...]


def build_rail_map(result: RunResult) -> RailMap:
    """Compute the map: units side by side, the leaves of each above its nodes."""
    leaves = _place_leaves(result)
    nodes = _place_nodes(result)
    spine = Box(WIDTH / 2 - 90, SPINE_Y - 17, 180, 34, "spine", "", -1)
    uplinks = tuple(
        Cable(box.x + box.width / 2, box.y, WIDTH / 2, SPINE_Y + 17, box.rail, name, broken=False)
        for name, box in leaves.items()
    )
    cables = tuple(_draw_cable(result, port, nodes[port.node], leaves[port.leaf]) for port in result.ports)
    rails = tuple((rail.rail, rail.name) for rail in result.rails)
    height = NODE_Y + _NODE_HEIGHT + 10
    return RailMap(WIDTH, height, spine, tuple(leaves.values()), tuple(nodes.values()), uplinks, cables, rails)


def _list_units(result: RunResult) -> list[int]:
    return sorted({node.unit for node in result.nodes})


def _place_leaves(result: RunResult) -> dict[str, Box]:
    """Return the box of each leaf by name, sorted by unit and then by rail."""
    unit_by_node = {node.name: node.unit for node in result.nodes}
    leaves = {port.leaf: (unit_by_node[port.node], port.rail) for port in result.ports}
    units, band = _list_units(result), _compute_band(result)
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
        for name, (unit, rail) in sorted(leaves.items(), key=lambda item: item[1])
    }


def _compute_band(result: RunResult) -> float:
    """Return the width of one unit."""
    return WIDTH / max(1, len(_list_units(result)))


def _place_nodes(result: RunResult) -> dict[str, Box]:
    """Return the box of each node by name."""
    units, band = _list_units(result), _compute_band(result)
    boxes = {}
    for unit in units:
        members = [node for node in result.nodes if node.unit == unit]
        step = (band - 2 * _MARGIN) / len(members)
        width = min(step - 12, NODE_WIDTH_MAX)
        for number, node in enumerate(members):
            x = _MARGIN + units.index(unit) * band + number * step + (step - width) / 2
            boxes[node.name] = Box(x, NODE_Y, width, _NODE_HEIGHT, node.name, node.pod, -1)
    return boxes


def _draw_cable(result: RunResult, port: RunPort, node: Box, leaf: Box) -> Cable:
    step = node.width / (len(result.rails) + 1)
    fault = result.fault
    broken = fault is not None and (fault.node, fault.rail) == (port.node, port.rail)
    text = f"{port.node} rail {port.rail}: {port.address} on {port.leaf}"
    x = node.x + step * (port.rail + 1)
    return Cable(x, node.y, leaf.x + leaf.width / 2, leaf.y + leaf.height, port.rail, text, broken)
