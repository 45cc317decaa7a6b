"""A whole plan as JSON, the output of `trackbed plan -o json`.

{"fabric": {common}, "kubernetes": {...}, "uplinks": {...}, "rateGbps": 400,
 "nodes": [{"name", "slot", "unit", "ports": [...]}]}
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from trackbed.fabric.documents import parse_document, to_camel, to_document
from trackbed.fabric.model.problems import Problem, SpecError
from trackbed.fabric.plan.collector import pause_collector
from trackbed.fabric.plan.node_check import check_common, check_kubernetes, check_rate, check_uplinks
from trackbed.fabric.plan.node_document import NodeEntry, parse_entry, to_common_document, to_node_entry
from trackbed.fabric.plan.plan import CommonPlan, KubernetesPlan, NodePlan, Plan, UplinksPlan


class _PlanDocument(NamedTuple):
    fabric: CommonPlan
    kubernetes: KubernetesPlan
    nodes: tuple[NodeEntry, ...]
    only_rail: int | None = None
    uplinks: UplinksPlan | None = None
    rate_gbps: float | None = None


def encode_plan(plan: Plan, nodes: Iterable[NodePlan], rail: int | None = None) -> bytes:
    """Write the plan of some nodes, restricted to one rail if `rail` is given.

    Nodes are encoded one by one: 12,500 of them as one document would take 60 MB.
    """
    document: dict[str, Any] = {
        "fabric": to_common_document(plan.common),
        "kubernetes": to_document(plan.kubernetes, to_camel),
        "nodes": [msgspec.Raw(msgspec.json.encode(to_node_entry(node, rail))) for node in nodes],
    }
    if plan.uplinks is not None:
        document["uplinks"] = to_document(plan.uplinks, to_camel)
    if plan.rate_gbps is not None:
        document["rateGbps"] = plan.rate_gbps
    return msgspec.json.encode(document if rail is None else document | {"onlyRail": rail})


def is_plan(raw: bytes) -> bool:
    """Return whether the content starts like a plan document, which no Fabric does."""
    return b"".join(raw[:_HEAD_BYTES].split()).startswith(b'{"fabric":')


@pause_collector
def decode_plan(raw: bytes) -> Plan:
    """Parse a plan document; SpecError (code bad-plan) if it is malformed, or restricted to one rail."""
    try:
        document = parse_document(msgspec.json.decode(raw), _PlanDocument, to_camel)
        check_common(document.fabric)
        check_kubernetes(document.kubernetes)
        if document.uplinks is not None:
            check_uplinks(document.uplinks)
        check_rate(document.rate_gbps)
        nodes = tuple(parse_entry(node, document.fabric) for node in document.nodes)
    except (ValueError, RecursionError) as error:  # DocumentError and msgspec.DecodeError are ValueErrors
        raise SpecError([Problem("bad-plan", f"this is no plan of Trackbed: {error}")]) from error
    if document.only_rail is not None:
        message = f"this plan has rail {document.only_rail} alone; write it with `trackbed plan -o json` without --rail"
        raise SpecError([Problem("bad-plan", message)])
    return Plan(document.fabric, nodes, document.kubernetes, uplinks=document.uplinks, rate_gbps=document.rate_gbps)


_HEAD_BYTES = 64
