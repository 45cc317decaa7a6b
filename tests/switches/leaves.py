"""Small fabrics for the tests of switches, with their wiring and leaves."""

from __future__ import annotations

from typing import Any

from tests.fabric.plan.fabrics import fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan
from trackbed.switches.dialect import Dialect
from trackbed.switches.dialects import load_dialect
from trackbed.switches.leaf import Leaf, check_leaves, derive_leaves
from trackbed.switches.wiring import Wiring

ADDRESSING: dict[str, dict[str, Any]] = {
    "point-to-point": {"scheme": "point-to-point", "ipv4": "172.16.0.0/12"},
    "spectrum-x": {"scheme": "point-to-point", "layout": "spectrum-x-2tier"},
    "node-subnet": {"scheme": "node-subnet", "ipv4": "10.0.0.0/13", "ipv4NodePrefix": 27},
    "dual-stack": {"scheme": "node-subnet", "ipv4": "10.0.0.0/13", "ipv4NodePrefix": 27, "ipv6": "fd00:10::/40"},
    "shared-subnet": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/13", "gateway": "last"},
    "flat": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/13"},
    "none": {"scheme": "none"},
}
"""Name of a case -> addressing of its fabric."""


def plan_case(case: str = "point-to-point", **spec: object) -> Plan:
    """Return the plan of a case: 2 nodes with 2 rails, changed by `spec`."""
    pods = {"pods": {"mode": "move"}} if case == "none" else {}
    usual = {"nodes": [{"hosts": "gpu-[0-1]"}], "rails": 2, "addressing": ADDRESSING[case]} | pods
    return compute_plan(fabric(**(usual | spec)), {})


def build_wiring(dialect: Dialect, **fields: Any) -> Wiring:
    """Return the wiring of a dialect's default ports and two uplinks."""
    return Wiring(**({"ports": dialect.list_ports(32), "uplinks": dialect.list_ports(64)[-2:]} | fields))


def derive_sound_leaves(dialect_name: str, plan: Plan, **fields: Any) -> list[Leaf]:
    """Return the leaves of a plan without problems."""
    wiring = build_wiring(load_dialect(dialect_name), **fields)
    assert check_leaves(plan, wiring) == []
    return list(derive_leaves(plan, wiring))
