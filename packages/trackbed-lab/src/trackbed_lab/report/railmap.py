"""The rail map: coordinates of spine, leaves and nodes, computed from the fabric's regular structure.

Where there are more than NODES_MAX nodes, the nodes of a unit are one box, with one cable to each leaf.
"""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed_lab.run_result import RunPort, RunResult

WIDTH, NODE_WIDTH_MAX = 1200.0, 280.0
SPINE_Y, SPINE_WIDTH, LEAF_Y, NODE_Y = 34.0, 180.0, 132.0, 318.0
NODES_MAX = 12
_LEAF_TEXT_WIDTH, _NODE_TEXT_WIDTH = 34.0, 90.0
"""Widths below which a box's text would leave it; its tooltip has it."""
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
    boxes = _place_nodes(result) if len(result.nodes) <= NODES_MAX else _place_unit_boxes(result)
    spine = Box(WIDTH / 2 - SPINE_WIDTH / 2, SPINE_Y - 17, SPINE_WIDTH, 34, "spine", result.uplinks, -1)
    uplinks = tuple(
        Cable(box.x + box.width / 2, box.y, WIDTH / 2, SPINE_Y + 17, box.rail, name, broken=False)
        for name, box in leaves.items()
    )
    cables = tuple(_iter_cables(result, boxes, leaves))
    nodes = tuple(dict.fromkeys(boxes.values()))
    rails = tuple((rail.rail, rail.name) for rail in result.rails)
    height = NODE_Y + _NODE_HEIGHT + 10
    return RailMap(WIDTH, height, spine, tuple(leaves.values()), nodes, uplinks, cables, rails)


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
            f"u{unit} r{rail}" if width >= _LEAF_TEXT_WIDTH else "",
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


def _place_unit_boxes(result: RunResult) -> dict[str, Box]:
    """Return the box of each node by name, which is that of its unit."""
    units, band = _list_units(result), _compute_band(result)
    boxes: dict[str, Box] = {}
    for number, unit in enumerate(units):
        members = [node.name for node in result.nodes if node.unit == unit]
        width = band - 2 * _MARGIN
        text, note = (f"unit {unit}", f"{len(members)} nodes") if width >= _NODE_TEXT_WIDTH else ("", "")
        box = Box(_MARGIN + number * band, NODE_Y, width, _NODE_HEIGHT, text, note, -1)
        boxes |= dict.fromkeys(members, box)
    return boxes


def _iter_cables(result: RunResult, boxes: dict[str, Box], leaves: dict[str, Box]) -> Iterator[Cable]:
    """Yield a cable for each port; where several ports share box and leaf, the one that was broken, or the first."""
    cables: dict[tuple[Box, str], list[RunPort]] = {}
    for port in result.ports:
        cables.setdefault((boxes[port.node], port.leaf), []).append(port)
    for (box, leaf), ports in cables.items():
        broken = next((port for port in ports if _is_broken(result, port)), None)
        cable = _draw_cable(result, broken or ports[0], box, leaves[leaf])
        yield cable if len(ports) == 1 else cable._replace(text=f"{len(ports)} ports on {leaf}")


def _is_broken(result: RunResult, port: RunPort) -> bool:
    fault = result.fault
    return fault is not None and (fault.node, fault.rail) == (port.node, port.rail)


def _draw_cable(result: RunResult, port: RunPort, node: Box, leaf: Box) -> Cable:
    step = node.width / (len(result.rails) + 1)
    broken = _is_broken(result, port)
    text = f"{port.node} rail {port.rail}: {port.address} on {port.leaf}"
    x = node.x + step * (port.rail + 1)
    return Cable(x, node.y, leaf.x + leaf.width / 2, leaf.y + leaf.height, port.rail, text, broken)
