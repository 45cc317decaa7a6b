"""The plan of one node as a document for machines, and back: addresses as text, keys in camelCase.

    {"fabric": {common}, "node": {"name", "slot", "unit", "ports": [...]}}

An agent or a host gets it. The standard library only: hosts run this, too.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from trackbed.fabric.documents import parse_document, to_camel, to_document
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import parse_address, text
from trackbed.fabric.plan.plan import Addressed, Common, NodePlan, PortPlan

Document = dict[str, Any]


class _AddressedDocument(NamedTuple):
    """One port's addressing in one IP version."""

    address: str
    gateway: str | None = None
    pods_first: str | None = None
    pods_count: int = 0


class _PortDocument(NamedTuple):
    """One port."""

    rail: int
    netdev: str
    leaf: str
    gpus: tuple[int, ...]
    kernel_name: str | None = None
    pci: str | None = None
    mac: str | None = None
    ipv4: _AddressedDocument | None = None
    ipv6: _AddressedDocument | None = None


class NodeEntry(NamedTuple):
    """One node."""

    name: str
    slot: int
    unit: int
    ports: tuple[_PortDocument, ...]
    nic: str | None = None


class _NodeDocument(NamedTuple):
    fabric: Common
    node: NodeEntry


def node_document(node: NodePlan) -> Document:
    """Return the document of one node, complete in itself."""
    return {"fabric": to_common_document(node.common), "node": to_node_entry(node)}


def write_node(node: NodePlan) -> bytes:
    """Write the document of one node as JSON for people, too."""
    return json.dumps(node_document(node), ensure_ascii=False, indent=1).encode()


def parse_node(document: object) -> NodePlan:
    """Parse what `node_document` returns; SpecError (code bad-node-plan) on anything else."""
    try:
        fabric, node = parse_document(document, _NodeDocument, to_camel)
        return read_entry(node, fabric)
    except ValueError as error:
        raise SpecError([Problem("bad-node-plan", f"this is no node plan of Trackbed: {error}")]) from error


def read_node(raw: bytes) -> NodePlan:
    """Read what `write_node` wrote; SpecError (code bad-node-plan) on anything else."""
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise SpecError([Problem("bad-node-plan", f"this is no node plan of Trackbed: {error}")]) from error
    return parse_node(document)


def to_common_document(common: Common) -> Document:
    """Return the document of what all nodes share; defaults are left out."""
    defaults = Common._field_defaults
    left_out = {to_camel(name) for name, default in defaults.items() if getattr(common, name) == default}
    return {key: value for key, value in to_document(common, to_camel).items() if key not in left_out}


def to_node_entry(node: NodePlan, rail: int | None = None) -> Document:
    """Return the part of a node; the ports of one rail if given."""
    ports = [_port(port) for port in node.ports if rail is None or port.rail == rail]
    document = {"name": node.name, "slot": node.slot, "unit": node.unit, "ports": ports}
    return document if node.nic is None else document | {"nic": node.nic}


def _port(port: PortPlan) -> Document:
    """Return the document of one port: there may be 100,000, so absent parts are tested one by one."""
    rail, netdev, kernel_name, pci, mac, gpus, leaf, v4, v6 = port
    document: Document = {"rail": rail, "netdev": netdev, "leaf": leaf, "gpus": gpus}
    if kernel_name is not None:
        document["kernelName"] = kernel_name
    if pci is not None:
        document["pci"] = pci
    if mac is not None:
        document["mac"] = mac
    if v4 is not None:
        document["ipv4"] = _addressed(v4)
    if v6 is not None:
        document["ipv6"] = _addressed(v6)
    return document


def _addressed(addressed: Addressed) -> Document:
    version, address, prefix, gateway, pods_first, pods_count = addressed
    document: Document = {"address": f"{text(version, address)}/{prefix}"}
    if gateway:
        document["gateway"] = text(version, gateway)
    if pods_count:
        document["podsFirst"] = text(version, pods_first)
        document["podsCount"] = pods_count
    return document


def read_entry(node: NodeEntry, common: Common) -> NodePlan:
    """Return the plan of a node's part of a document. Raises ValueError on an address that cannot be read."""
    ports = tuple(_read_port(port) for port in node.ports)
    return NodePlan(node.name, node.slot, node.unit, ports, common, node.nic)


def _read_port(port: _PortDocument) -> PortPlan:
    v4, v6 = (_read_addressed(entry) if entry else None for entry in (port.ipv4, port.ipv6))
    return PortPlan(port.rail, port.netdev, port.kernel_name, port.pci, port.mac, port.gpus, port.leaf, v4, v6)


def _read_addressed(entry: _AddressedDocument) -> Addressed:
    address, _, prefix = entry.address.partition("/")
    version, number = parse_address(address)
    gateway = parse_address(entry.gateway)[1] if entry.gateway else 0
    pods = parse_address(entry.pods_first)[1] if entry.pods_first else 0
    return Addressed(version, number, int(prefix), gateway, pods, entry.pods_count)
