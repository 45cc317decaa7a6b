"""The faults that doctor knows: texts of `faults/*.yaml`, and findings made from them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec
import yaml

from trackbed.doctor.finding import Finding
from trackbed.fabric.model.ranges import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackbed.fabric.plan.plan import NodePlan, PortPlan


class Fault(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """One fault of the catalogue."""

    id: str
    step: str
    verdict: Literal["warn", "fail"]
    title: str
    cause: str
    fix: str
    needs_reboot: bool = False
    """The fix takes effect with a reboot only."""
    disruptive: bool = False
    """The fix hurts what runs on the node."""


@cache
def load_catalogue() -> Mapping[str, Fault]:
    """All faults by id, in the order of the chain."""
    known = [fault for text in _texts("faults") for fault in msgspec.convert(text or [], list[Fault])]
    return {fault.id: fault for fault in known}


@cache
def load_unchecked() -> Mapping[str, str]:
    """Faults of the host that are known and not looked for: id -> why not."""
    return {fault: why for text in _texts("unchecked") for fault, why in msgspec.convert(text, dict[str, str]).items()}


def _texts(folder: str) -> list[object]:
    """The documents of a folder of this package, in the order of their names."""
    places = (place for place in files("trackbed.doctor").joinpath(folder).iterdir() if place.name.endswith(".yaml"))
    ordered = sorted(places, key=lambda place: place.name)
    return [yaml.load(place.read_bytes(), yaml.CSafeLoader) for place in ordered]


def judge(fault_id: str, node: NodePlan, port: PortPlan | None, *, ok: bool | None, evidence: str = "") -> Finding:
    """A finding: pass, the fault's own verdict, or (ok is None) unknown; cause and fix come from the catalogue."""
    fault, rail = load_catalogue()[fault_id], port.rail if port else None
    if ok:
        return Finding(fault.id, fault.step, "pass", fault.title, evidence, node=node.name, rail=rail)
    if ok is None:
        return Finding(fault.id, fault.step, "unknown", fault.title, evidence, node=node.name, rail=rail)
    fix = fault.fix.format_map(_facts(node, port))
    return Finding(fault.id, fault.step, fault.verdict, fault.title, evidence, fault.cause, fix, node.name, rail)


def _facts(node: NodePlan, port: PortPlan | None) -> Mapping[str, object]:
    facts: dict[str, object] = {"node": node.name, "mtu": node.common.mtu_bytes, "vfs": node.common.vfs}
    if port is None:
        return _Blank(facts)
    own = port.addressed[0] if port.addressed else None
    facts |= {"netdev": port.netdev, "rail": port.rail, "leaf": port.leaf, "mac": port.mac or "its MAC address"}
    facts |= {"pci": port.pci or "its PCI address"}
    facts |= {"table": node.common.rails[port.rail].table, "priority": node.common.rule_priority + port.rail}
    if own:
        facts |= {"address": own, "gateway": text(own.version, own.gateway) if own.gateway else "none"}
    return _Blank(facts)


class _Blank(dict[str, object]):
    """Facts that say what is missing instead of failing."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"
