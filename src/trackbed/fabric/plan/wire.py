"""A plan as a document for machines, and back: addresses as text, keys in camelCase.

plan document   {"fabric": {common}, "kubernetes": {...}, "nodes": [{"name", "slot", "unit", "ports": [...]}]}
                what `trackbed plan -o json` prints; `read_plan` reads it back
node document   {"fabric": {common}, "node": {...}}        what an agent or a host is given; `read_node` reads it back
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.model.ranges import parse_address, parse_range, text
from trackbed.fabric.plan.plan import Addressed, Common, KubernetesPlan, NodePlan, Plan, PortPlan

if TYPE_CHECKING:
    from collections.abc import Iterable


class AddressedDocument(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One port's addressing in one IP version."""

    address: str
    gateway: str | None = None
    pods_first: str | None = None
    pods_count: int = 0


class PortDocument(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """One port."""

    rail: int
    netdev: str
    leaf: str
    gpus: tuple[int, ...]
    kernel_name: str | None = None
    pci: str | None = None
    mac: str | None = None
    ipv4: AddressedDocument | None = None
    ipv6: AddressedDocument | None = None


class NodeDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One node."""

    name: str
    slot: int
    unit: int
    ports: tuple[PortDocument, ...]
    nic: str | None = None


class PlanDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A whole plan, or all of it that is about some nodes or one rail."""

    fabric: dict[str, Any]
    kubernetes: KubernetesPlan
    nodes: list[NodeDocument]
    only_rail: int | None = None


class _OneNode(msgspec.Struct, frozen=True, rename="camel"):
    fabric: dict[str, Any]
    node: NodeDocument


def plan_document(plan: Plan, nodes: Iterable[NodePlan], rail: int | None = None) -> PlanDocument:
    """The document of some nodes of a plan, of one rail if given."""
    return PlanDocument(_common(plan.common), plan.kubernetes, [node_document(node, rail) for node in nodes], rail)


def node_document(node: NodePlan, rail: int | None = None) -> NodeDocument:
    """The document of one node."""
    ports = tuple(_port(port) for port in node.ports if rail is None or port.rail == rail)
    return NodeDocument(node.name, node.slot, node.unit, ports, node.nic)


def write_node(node: NodePlan) -> bytes:
    """One node's plan as JSON, complete in itself."""
    return msgspec.json.format(msgspec.json.encode(_OneNode(_common(node.common), node_document(node))), indent=1)


def read_node(raw: bytes) -> NodePlan:
    """Read what `write_node` wrote; SpecError (code bad-node-plan) on anything else."""
    try:
        document = msgspec.json.decode(raw, type=_OneNode)
        return _read_node(document.node, _read_common(document.fabric))
    except _UNREADABLE as error:
        raise SpecError([Problem("bad-node-plan", f"this is no node plan of Trackbed: {error}")]) from error


def is_plan(raw: bytes) -> bool:
    """Whether this begins as a plan document does, and as no Fabric can."""
    return b"".join(raw[:_HEAD_BYTES].split()).startswith(b'{"fabric":')


def read_plan(raw: bytes) -> Plan:
    """Read a plan document; SpecError (code bad-plan) on anything else, and on a part of a plan's rails."""
    try:
        document = msgspec.json.decode(raw, type=PlanDocument)
        common = _read_common(document.fabric)
        nodes = tuple(_read_node(node, common) for node in document.nodes)
    except _UNREADABLE as error:
        raise SpecError([Problem("bad-plan", f"this is no plan of Trackbed: {error}")]) from error
    if document.only_rail is not None:
        message = f"this plan has rail {document.only_rail} alone; write it with `trackbed plan -o json` without --rail"
        raise SpecError([Problem("bad-plan", message)])
    return Plan(common, nodes, document.kubernetes)


_HEAD_BYTES = 64
_UNREADABLE = (msgspec.MsgspecError, ValueError, KeyError, TypeError)


def _read_common(document: dict[str, Any]) -> Common:
    return msgspec.convert(_ranges_read(document), Common)


def _read_node(node: NodeDocument, common: Common) -> NodePlan:
    ports = tuple(_read_port(port) for port in node.ports)
    return NodePlan(node.name, node.slot, node.unit, ports, common, node.nic)


def _common(common: Common) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(common)
    for holder, key, value in _range_fields(common, document):
        holder[key] = str(value) if value else None
    return document


def _range_fields(common: Common, document: dict[str, Any]) -> Iterable[tuple[dict[str, Any], str, object]]:
    yield document, "supernet4", common.supernet4
    yield document, "supernet6", common.supernet6
    for rail, entry in zip(common.rails, document["rails"], strict=True):
        yield entry, "v4", rail.v4
        yield entry, "v6", rail.v6


def _ranges_read(document: dict[str, Any]) -> dict[str, Any]:
    def parsed(entry: dict[str, Any], *keys: str) -> dict[str, Any]:
        return entry | {key: parse_range(str(entry[key])) if entry[key] else None for key in keys}

    rails = [parsed(rail, "v4", "v6") for rail in document["rails"]]
    return parsed(document, "supernet4", "supernet6") | {"rails": rails}


def _port(port: PortPlan) -> PortDocument:
    return PortDocument(
        port.rail,
        port.netdev,
        port.leaf,
        port.gpus,
        port.kernel_name,
        port.pci,
        port.mac,
        _addressed(port.v4) if port.v4 else None,
        _addressed(port.v6) if port.v6 else None,
    )


def _addressed(own: Addressed) -> AddressedDocument:
    version = own.version
    gateway = text(version, own.gateway) if own.gateway else None
    pods = text(version, own.pods_first) if own.pods_count else None
    return AddressedDocument(str(own), gateway, pods, own.pods_count)


def _read_port(port: PortDocument) -> PortPlan:
    v4, v6 = (_read_addressed(own) if own else None for own in (port.ipv4, port.ipv6))
    return PortPlan(port.rail, port.netdev, port.kernel_name, port.pci, port.mac, port.gpus, port.leaf, v4, v6)


def _read_addressed(own: AddressedDocument) -> Addressed:
    address, _, prefix = own.address.partition("/")
    version, number = parse_address(address)
    gateway = parse_address(own.gateway)[1] if own.gateway else 0
    pods = parse_address(own.pods_first)[1] if own.pods_first else 0
    return Addressed(version, number, int(prefix), gateway, pods, own.pods_count)
