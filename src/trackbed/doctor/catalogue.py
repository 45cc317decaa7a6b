"""Catalogue of the faults that doctor knows, from `faults/*.yaml`, and findings about them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec
import yaml

from trackbed.doctor.finding import Finding, Verdict
from trackbed.fabric.model.ranges import format_address

if TYPE_CHECKING:  # `trackbed faults` starts without the plan
    from trackbed.fabric.plan.plan import AddressPlan, NodePlan, PortPlan


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
    runs_on: Literal["host", "nodes", "lab"] = "host"
    """What the check needs: the host alone, the views of other nodes too, or what only the lab knows, such as the
    addresses of leaves."""


@cache
def load_catalogue() -> Mapping[str, Fault]:
    """Return all faults by id, in causal order."""
    faults = [fault for document in _load_documents("faults") for fault in msgspec.convert(document or [], list[Fault])]
    return {fault.id: fault for fault in faults}


def fill_placeholders(fault: Fault) -> Fault:
    """Return the fault with its placeholders as <name>: without a node they have no value."""
    return msgspec.structs.replace(fault, fix=fault.fix.format_map(_PlaceholderValues(rename=_RENAME)))


@cache
def load_unchecked_faults() -> Mapping[str, str]:
    """Return the known faults of a host that no check detects: id -> reason."""
    documents = [msgspec.convert(document, dict[str, str]) for document in _load_documents("unchecked")]
    return {fault_id: reason for document in documents for fault_id, reason in document.items()}


def _load_documents(folder: str) -> list[object]:
    """Return the YAML documents in a folder of this package, in order of file name."""
    entries = files("trackbed.doctor").joinpath(folder).iterdir()
    paths = sorted((entry for entry in entries if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    return [yaml.load(path.read_bytes(), yaml.CSafeLoader) for path in paths]


def build_finding(
    fault_id: str, node: NodePlan, port: PortPlan | None, *, ok: bool | None, evidence: str = ""
) -> Finding:
    """Return the finding of the check for a fault.

    If `ok` is true, the verdict is pass; if it is None, unknown. If it is false, the finding has the fault's verdict,
    cause and fix.
    """
    fault, rail = load_catalogue()[fault_id], port.rail if port else None
    if ok or ok is None:
        verdict: Verdict = "pass" if ok else "unknown"
        return Finding(fault.id, fault.step, verdict, fault.title, evidence, node=node.name, rail=rail)
    fix = fault.fix.format_map(_build_placeholder_values(node, port))
    return Finding(fault.id, fault.step, fault.verdict, fault.title, evidence, fault.cause, fix, node.name, rail)


def iter_unknown_findings(
    fault_ids: Iterable[str], node: NodePlan, port: PortPlan | None, evidence: str
) -> Iterator[Finding]:
    """Yield an unknown finding for each fault whose check lacks the input that `evidence` names."""
    return (build_finding(fault_id, node, port, ok=None, evidence=evidence) for fault_id in fault_ids)


def restrict_to_address(port: PortPlan, address: AddressPlan) -> PortPlan:
    """Return a copy of the port with only this address, for findings whose fix names the address."""
    return port._replace(v4=address if address == port.v4 else None, v6=address if address == port.v6 else None)


def _build_placeholder_values(node: NodePlan, port: PortPlan | None) -> Mapping[str, object]:
    """Return the values for the placeholders in a fix."""
    values = _PlaceholderValues(node=node.name, mtu=node.common.mtu_bytes, vfs=node.common.vfs)
    if port is None:
        return values
    values |= {"netdev": port.netdev, "rail": port.rail, "leaf": port.leaf}
    values |= {"rename": _explain_rename(port)}
    values |= {"mac": port.mac or "its MAC address", "pci": port.pci or "its PCI address"}
    values |= {"table": node.common.rails[port.rail].table, "priority": node.common.rule_priority + port.rail}
    if port.addresses:
        address = port.addresses[0]
        gateway = format_address(address.version, address.gateway) if address.gateway else "none"
        source = format_address(address.version, address.address)
        values |= {"address": address, "source": source, "gateway": gateway}
    return values


_RENAME = "Run `trackbed apply`, which renames the port"


def _explain_rename(port: PortPlan) -> str:
    """Return what to do where no interface has the port's name: apply finds the port by another property, if any."""
    if port.pci or port.mac or port.kernel_name:
        return _RENAME
    return (
        f"The Fabric gives no PCI or MAC address of this port, so `trackbed apply` cannot find it: call it "
        f"{port.netdev} on the host, or write its name (names.netdev) or its address (nodes[].ports) into the Fabric"
    )


def format_value(value: object) -> str:
    """Return a value that was read, for evidence; "unreadable" for None."""
    return "unreadable" if value is None else str(value)


class _PlaceholderValues(dict[str, object]):
    """Values by the name of their placeholder; a placeholder without a value is rendered as `<name>`."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"
