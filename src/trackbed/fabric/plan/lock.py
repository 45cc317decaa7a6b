"""Assignment of slots to nodes. A slot is permanent: adding or removing a node never renumbers another.

Slots count from 0; slot // nodesPerUnit is the scalable unit. A node that left the Fabric keeps its slot in the lock
until its line is deleted, so a repaired server gets its old addresses again.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import count

from trackbed.fabric.host_ranges import fold_hosts
from trackbed.fabric.model.fabric import API_VERSION, FabricSpec
from trackbed.fabric.model.nodes import NodeGroup
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.yaml_text import FABRIC_LAYOUT, render_mapping

_LAYOUT = FABRIC_LAYOUT._replace(width=0)
_PLAIN_LINES = r"(?:  (?![YyNnOoTtFf][A-Za-z]{0,4}:)[A-Za-z0-9][-A-Za-z0-9_.]*+: [0-9]++\n)++"
"""Lines of nodes whose names need no quotes; short names such as `no` could be booleans or null in YAML.

One match for all lines is fast: the check of 100,000 names one by one would take 20 times as long as writing them.
"""


def assign_slots(spec: FabricSpec, lock: Mapping[str, int]) -> tuple[dict[str, int], list[Problem]]:
    """Return the slots of all nodes: those in the lock, then the lowest free ones in the order of the groups.

    Nodes of a group with `unit` get slots of that unit; no other nodes do.
    """
    slots: dict[str, int] = {}
    problems: list[Problem] = []
    taken = set(lock.values())
    claimed = {group.unit for group in spec.nodes if group.unit is not None}
    unclaimed = (number for number in count() if number not in taken and number // spec.nodes_per_unit not in claimed)
    for index, group in enumerate(spec.nodes):
        free_slots = unclaimed if group.unit is None else _iter_free_slots(group.unit, spec.nodes_per_unit, taken)
        for name in group.list_names():
            slot = lock[name] if name in lock else next(free_slots, None)
            if slot is None:
                kept = [gone for gone in _iter_kept(spec, lock) if lock[gone] // spec.nodes_per_unit == group.unit]
                problems.append(_build_unit_full_problem(group, spec.nodes_per_unit, index, kept))
                break
            slots[name] = slot
            if name not in lock:
                taken.add(slot)
            elif group.unit not in {None, slot // spec.nodes_per_unit}:
                problems.append(_build_unit_moved_problem(name, group, slot // spec.nodes_per_unit, index))
    return slots, problems


def merge_slots(lock: Mapping[str, int], slots: Mapping[str, int]) -> dict[str, int]:
    """Return the lock with the slots of new nodes added, in order of slot."""
    return dict(sorted({**lock, **slots}.items(), key=lambda item: item[1]))


def render_lock(fabric: str, lock: Mapping[str, int]) -> str:
    """Render the text of trackbed.lock.yaml."""
    document = {"apiVersion": API_VERSION, "kind": "FabricLock", "fabric": fabric}
    lines = "".join([f"  {name}: {slot}\n" for name, slot in lock.items()])
    if re.fullmatch(_PLAIN_LINES, lines):
        return f"{render_mapping(document, _LAYOUT)}nodes:\n{lines}"
    return render_mapping({**document, "nodes": dict(lock)}, _LAYOUT)


def _iter_free_slots(unit: int, nodes_per_unit: int, taken: set[int]) -> Iterator[int]:
    return (slot for slot in range(unit * nodes_per_unit, (unit + 1) * nodes_per_unit) if slot not in taken)


def _iter_kept(spec: FabricSpec, lock: Mapping[str, int]) -> Iterator[str]:
    """Yield the nodes of the lock that the Fabric does not have any more."""
    present = {name for group in spec.nodes for name in group.list_names()}
    return (name for name in lock if name not in present)


def _build_unit_full_problem(group: NodeGroup, nodes_per_unit: int, group_index: int, kept: list[str]) -> Problem:
    message = f"unit {group.unit} has room for {nodes_per_unit} nodes (nodesPerUnit); hosts {group.hosts!r} do not fit"
    if kept:
        message += f": the lock keeps the slots of {fold_hosts(kept)} there; delete the lines of those that are gone"
    return Problem("unit-full", message, ("spec", "nodes", group_index, "hosts"))


def _build_unit_moved_problem(host: str, group: NodeGroup, unit: int, group_index: int) -> Problem:
    message = (
        f"the lock has {host!r} in unit {unit}, its group says unit {group.unit}; "
        "if it was re-cabled, delete its line from the lock: it gets new addresses"
    )
    return Problem("unit-moved", message, ("spec", "nodes", group_index, "unit"))
