"""Groups of ports for drawings: each port for itself while they fit, then by leaf, by unit, and by rail.

A drawing has GROUPS_MAX groups at most, so that its labels can be read and the page of 128 nodes is not larger than
that of 8.
"""

from collections.abc import Callable
from typing import NamedTuple

from trackbed_lab.run_result import RunPort, RunResult

GROUPS_MAX = 48
"""Rows of the matrix at most; the ports of 6 nodes with 8 rails."""


class PortGroup(NamedTuple):
    """Ports that a drawing shows as one; `band` names the groups beside it that belong together."""

    name: str
    band: str
    rail: int
    label: str


class Grouping(NamedTuple):
    """The group of each port, by node and rail; groups are in the order of the drawing."""

    noun: str
    """What a group is: port, leaf, unit or rail."""
    groups: tuple[PortGroup, ...]
    number_by_port: dict[tuple[str, int], int]


_Name = Callable[[RunPort, int], PortGroup]
_LEVELS: dict[str, _Name] = {
    "port": lambda port, _: PortGroup(f"{port.node} rail {port.rail}", port.node, port.rail, f"r{port.rail}"),
    "leaf": lambda port, unit: PortGroup(port.leaf, f"unit {unit}", port.rail, f"r{port.rail}"),
    "unit": lambda _, unit: PortGroup(f"unit {unit}", f"unit {unit}", -1, ""),
    "rail": lambda port, _: PortGroup(f"rail {port.rail}", f"rail {port.rail}", port.rail, ""),
}


def group_ports(result: RunResult) -> Grouping:
    """Return the finest grouping of the run's ports that fits; by rail if none does."""
    groupings = [_group_by(result, noun, name) for noun, name in _LEVELS.items()]
    return next((grouping for grouping in groupings if len(grouping.groups) <= GROUPS_MAX), groupings[-1])


def _group_by(result: RunResult, noun: str, name: _Name) -> Grouping:
    unit_by_node = {node.name: node.unit for node in result.nodes}
    group_by_port = {(port.node, port.rail): name(port, unit_by_node[port.node]) for port in result.ports}
    groups = tuple(dict.fromkeys(group_by_port.values()))
    if noun != "port":
        order = {(port.node, port.rail): (unit_by_node[port.node], port.rail) for port in result.ports}
        first = {group: min(order[port] for port, other in group_by_port.items() if other == group) for group in groups}
        groups = tuple(sorted(groups, key=lambda group: first[group]))
    numbers = {group: number for number, group in enumerate(groups)}
    return Grouping(noun, groups, {port: numbers[group] for port, group in group_by_port.items()})
