"""The faults that doctor knows: texts from `faults/*.yaml`, and the findings made from them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec
import yaml

from trackbed.doctor.finding import Finding
from trackbed.fabric.model.ranges import format_address

if TYPE_CHECKING:  # `trackbed faults` starts without the plan
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
    """Whether the fix takes effect only after a reboot."""
    disruptive: bool = False
    """Whether the fix disrupts workloads on the node."""


@cache
def load_catalogue() -> Mapping[str, Fault]:
    """Return all faults by id, in the order of the chain."""
    faults = [fault for document in _load_documents("faults") for fault in msgspec.convert(document or [], list[Fault])]
    return {fault.id: fault for fault in faults}


@cache
def load_unchecked() -> Mapping[str, str]:
    """Return the known faults of the host that no check looks for: id -> reason."""
    documents = [msgspec.convert(document, dict[str, str]) for document in _load_documents("unchecked")]
    return {fault_id: reason for document in documents for fault_id, reason in document.items()}


def _load_documents(folder: str) -> list[object]:
    """Return the YAML documents of a folder of this package, sorted by file name."""
    entries = files("trackbed.doctor").joinpath(folder).iterdir()
    paths = sorted((entry for entry in entries if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    return [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in paths]


def judge(fault_id: str, node: NodePlan, port: PortPlan | None, *, ok: bool | None, evidence: str = "") -> Finding:
    """Return a finding about a fault of the catalogue.

    The verdict is pass where `ok` is true, unknown where it is None, and else the fault's own, with its cause and fix.
    """
    fault, rail = load_catalogue()[fault_id], port.rail if port else None
    if ok:
        return Finding(fault.id, fault.step, "pass", fault.title, evidence, node=node.name, rail=rail)
    if ok is None:
        return Finding(fault.id, fault.step, "unknown", fault.title, evidence, node=node.name, rail=rail)
    fix = fault.fix.format_map(_build_values(node, port))
    return Finding(fault.id, fault.step, fault.verdict, fault.title, evidence, fault.cause, fix, node.name, rail)


def _build_values(node: NodePlan, port: PortPlan | None) -> Mapping[str, object]:
    """Return the values for the placeholders of a fix."""
    values: dict[str, object] = {"node": node.name, "mtu": node.common.mtu_bytes, "vfs": node.common.vfs}
    if port is None:
        return _PlaceholderValues(values)
    address = port.addresses[0] if port.addresses else None
    values |= {"netdev": port.netdev, "rail": port.rail, "leaf": port.leaf, "mac": port.mac or "its MAC address"}
    values |= {"pci": port.pci or "its PCI address"}
    values |= {"table": node.common.rails[port.rail].table, "priority": node.common.rule_priority + port.rail}
    if address:
        gateway = format_address(address.version, address.gateway) if address.gateway else "none"
        values |= {"address": address, "gateway": gateway}
    return _PlaceholderValues(values)


class _PlaceholderValues(dict[str, object]):
    """Values by placeholder; a missing one is rendered as `<name>`."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"
