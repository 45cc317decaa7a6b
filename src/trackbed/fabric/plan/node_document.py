"""The plan of one node as a document for machines: addresses as text, keys in camelCase.

    {"fabric": {common}, "node": {"name", "slot", "unit", "ports": [...]}}

Agents and hosts receive it. Hosts run this module too, so it uses the standard library only.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from trackbed.fabric.documents import parse_document, to_camel, to_document
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import BITS, format_address, parse_address
from trackbed.fabric.plan.node_check import check_common, check_node
from trackbed.fabric.plan.plan import AddressPlan, CommonPlan, NodePlan, PortPlan

Document = dict[str, Any]


class _AddressDocument(NamedTuple):
    """The JSON form of a port's addressing in one IP version."""

    address: str
    gateway: str | None = None
    pods_first: str | None = None
    pods_count: int = 0


class _PortDocument(NamedTuple):
    """The JSON form of a port plan."""

    rail: int
    netdev: str
    leaf: str
    gpus: tuple[int, ...]
    kernel_name: str | None = None
    pci: str | None = None
    mac: str | None = None
    ipv4: _AddressDocument | None = None
    ipv6: _AddressDocument | None = None


class NodeEntry(NamedTuple):
    """The JSON form of a node plan."""

    name: str
    slot: int
    unit: int
    ports: tuple[_PortDocument, ...]
    nic: str | None = None


class _NodeDocument(NamedTuple):
    fabric: CommonPlan
    node: NodeEntry
    format: int = 1


def to_node_document(node: NodePlan) -> Document:
    """Return the complete document of one node."""
    return {"fabric": to_common_document(node.common), "node": to_node_entry(node)}


def encode_node(node: NodePlan) -> bytes:
    """Encode the document of a node as indented JSON."""
    return json.dumps(to_node_document(node), ensure_ascii=False, indent=1).encode()


def parse_node(document: object) -> NodePlan:
    """Parse the document of a node; SpecError (code bad-node-plan) if it is malformed."""
    try:
        fabric, node, number = parse_document(document, _NodeDocument, to_camel)
        if number != 1:
            raise ValueError(f"it has format {number}, this version of Trackbed reads format 1")  # noqa: TRY301 - as all
        check_common(fabric)
        return parse_entry(node, fabric)
    except ValueError as error:
        raise SpecError([Problem("bad-node-plan", f"this is no node plan of Trackbed: {error}")]) from error


def decode_node(raw: bytes) -> NodePlan:
    """Decode the output of `encode_node`; SpecError (code bad-node-plan) if it is malformed."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise SpecError([Problem("bad-node-plan", f"this is no node plan of Trackbed: {error}")]) from error
    return parse_node(document)


def to_common_document(common: CommonPlan) -> Document:
    """Return the document of the common settings, without defaults."""
    defaults = CommonPlan._field_defaults
    default_keys = {to_camel(name) for name, default in defaults.items() if getattr(common, name) == default}
    return {key: value for key, value in to_document(common, to_camel).items() if key not in default_keys}


def to_node_entry(node: NodePlan, rail: int | None = None) -> Document:
    """Return the entry of a node in a plan document, restricted to one rail if `rail` is given."""
    ports = [_to_port_document(port) for port in node.ports if rail is None or port.rail == rail]
    document = {"name": node.name, "slot": node.slot, "unit": node.unit, "ports": ports}
    return document if node.nic is None else document | {"nic": node.nic}


def _to_port_document(port: PortPlan) -> Document:
    """Return the document of a port. Optional fields are tested one by one, for speed with 100,000 ports."""
    rail, netdev, kernel_name, pci, mac, gpus, leaf, v4, v6 = port
    document: Document = {"rail": rail, "netdev": netdev, "leaf": leaf, "gpus": gpus}
    if kernel_name is not None:
        document["kernelName"] = kernel_name
    if pci is not None:
        document["pci"] = pci
    if mac is not None:
        document["mac"] = mac
    if v4 is not None:
        document["ipv4"] = _to_address_document(v4)
    if v6 is not None:
        document["ipv6"] = _to_address_document(v6)
    return document


def _to_address_document(address_plan: AddressPlan) -> Document:
    version, address, prefix, gateway, pods_first, pods_count = address_plan
    document: Document = {"address": f"{format_address(version, address)}/{prefix}"}
    if gateway:
        document["gateway"] = format_address(version, gateway)
    if pods_count:
        document["podsFirst"] = format_address(version, pods_first)
        document["podsCount"] = pods_count
    return document


def parse_entry(node: NodeEntry, common: CommonPlan) -> NodePlan:
    """Return the plan of the node in an entry. Raises ValueError if a value is none that a Fabric gives."""
    ports = tuple(_parse_port(port) for port in node.ports)
    node_plan = NodePlan(node.name, node.slot, node.unit, ports, common, node.nic)
    check_node(node_plan)
    return node_plan


def _parse_port(port: _PortDocument) -> PortPlan:
    v4, v6 = (_parse_address(entry) if entry else None for entry in (port.ipv4, port.ipv6))
    return PortPlan(port.rail, port.netdev, port.kernel_name, port.pci, port.mac, port.gpus, port.leaf, v4, v6)


def _parse_address(entry: _AddressDocument) -> AddressPlan:
    address, _, prefix_text = entry.address.partition("/")
    version, number = parse_address(address)
    prefix = int(prefix_text)
    if not 0 < prefix <= BITS[version]:
        raise ValueError(f"{entry.address!r} is no address with prefix length")
    gateway = 0 if entry.gateway is None else parse_address(entry.gateway)[1]
    pods_first = 0 if entry.pods_first is None else parse_address(entry.pods_first)[1]
    return AddressPlan(version, number, prefix, gateway, pods_first, entry.pods_count)
