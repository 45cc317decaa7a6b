"""Objects of the SR-IOV Network Operator and the NVIDIA Network Operator."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.tree import texts

_PF = re.compile(r"(?P<name>[^#\s]+)(?:#(?P<first>\d+)-(?P<last>\d+))?")
_SELECTORS = ("vendor", "deviceID", "rootDevices", "pfNames", "netFilter")
_MOST_VFS = 128
"""MlxMaxVFs of the operator's webhook."""
_MOST_IB_VFS = 16
"""Known limitation of the Network Operator since 25.1."""
_NAME_LIMIT = 30


class _Ports(NamedTuple):
    """VFs first..last (None: all) of one PF, as a policy takes them."""

    doc: Document
    number: int
    name: str
    first: int | None
    last: int | None


def selectors(corpus: Corpus) -> Iterator[Hit]:
    """Selectors that take everything, or nothing."""
    for doc in corpus.of("SriovNetworkNodePolicy"):
        if doc.get("spec", "nodeSelector") == {}:
            message = "nodeSelector is empty, so every node is configured, drained and rebooted"
            yield Hit("node-selector-empty", doc.tree, ("spec", "nodeSelector"), message)
        nics = doc.get("spec", "nicSelector")
        if isinstance(nics, dict) and not any(nics.get(key) for key in _SELECTORS):
            message = f"nicSelector names none of {', '.join(_SELECTORS)}"
            yield Hit("nic-selector-empty", doc.tree, ("spec", "nicSelector"), message)
    for doc in corpus.of("SriovNetworkPoolConfig"):
        if doc.get("spec", "ovsHardwareOffloadConfig") is None and not _selects(doc):
            message = "the selector is empty, so the pool takes every node"
            yield Hit("pool-selects-all-nodes", doc.tree, ("spec",), message, key=True)


def _selects(doc: Document) -> bool:
    labels, expressions = (
        doc.get("spec", "nodeSelector", "matchLabels"),
        doc.get("spec", "nodeSelector", "matchExpressions"),
    )
    return bool(labels or expressions or isinstance(doc.get("spec", "nodeSelector"), list))


def vfs(corpus: Corpus) -> Iterator[Hit]:
    """Numbers of VFs, and what cannot go together with them."""
    for doc in corpus.of("SriovNetworkNodePolicy"):
        count = doc.get("spec", "numVfs")
        infiniband = doc.text("spec", "linkType").lower() == "ib"
        most = _MOST_IB_VFS if infiniband else _MOST_VFS
        if type(count) is int and not 1 <= count <= most:
            message = f"numVfs {count} must be between 1 and {most}" + (" on InfiniBand" if infiniband else "")
            yield Hit("vf-count", doc.tree, ("spec", "numVfs"), message)
        if doc.get("spec", "deviceType") == "vfio-pci" and doc.get("spec", "isRdma") is True:
            message = "a VF bound to vfio-pci has no RDMA device in the host"
            yield Hit("rdma-with-vfio", doc.tree, ("spec", "isRdma"), message)
        for port in _ports(doc):
            outside = type(count) is int and port.last is not None and port.last >= count
            if port.last is not None and port.first is not None and (port.first > port.last or outside):
                message = f"VFs {port.first} to {port.last} of {port.name} are no range inside 0 to {_last(count)}"
                yield Hit("vf-range-outside", doc.tree, ("spec", "nicSelector", "pfNames", port.number), message)


def _last(count: object) -> str:
    return str(count - 1) if isinstance(count, int) else "numVfs - 1"


def _ports(doc: Document) -> Iterator[_Ports]:
    for number, text in texts(doc.get("spec", "nicSelector", "pfNames")):
        found = _PF.fullmatch(text)
        if found:
            ends = (int(found["first"]), int(found["last"])) if found["first"] else (None, None)
            yield _Ports(doc, number, found["name"], *ends)


def shared_ports(corpus: Corpus) -> Iterator[Hit]:
    """Two policies for one PF."""
    by_name: dict[str, list[_Ports]] = {}
    for doc in corpus.of("SriovNetworkNodePolicy"):
        for port in _ports(doc):
            by_name.setdefault(port.name, []).append(port)
    for ports in by_name.values():
        for number, other in enumerate(ports):
            earlier = (
                one for one in ports[:number] if one.doc is not other.doc and not _other_nodes(one.doc, other.doc)
            )
            yield from next(filter(None, (list(_pair(one, other)) for one in earlier)), [])


def _pair(one: _Ports, other: _Ports) -> Iterator[Hit]:
    path = ("spec", "nicSelector", "pfNames", other.number)
    apart = (
        one.last is not None
        and other.last is not None
        and (one.last < (other.first or 0) or other.last < (one.first or 0))
    )
    if not apart:
        message = f"the VFs of {other.name} overlap those that {one.doc.title} takes"
        yield Hit("vf-ranges-overlap", other.doc.tree, path, message)
    mine, theirs = other.doc.get("spec", "numVfs"), one.doc.get("spec", "numVfs")
    if apart and mine != theirs:
        message = f"numVfs is {mine} here and {theirs} in {one.doc.title}, for the same port {other.name}"
        yield Hit("vf-counts-differ", other.doc.tree, ("spec", "numVfs"), message)


def _other_nodes(one: Document, other: Document) -> bool:
    mine, theirs = one.mapping("spec", "nodeSelector"), other.mapping("spec", "nodeSelector")
    return any(key in theirs and theirs[key] != value for key, value in mine.items())


def operator(corpus: Corpus) -> Iterator[Hit]:
    """The operators' own objects."""
    for doc in corpus.of("SriovOperatorConfig"):
        if doc.name != "default":
            message = f"the operator reads only the SriovOperatorConfig 'default', not {doc.name!r}"
            yield Hit("operator-config-name", doc.tree, ("metadata", "name"), message)
        yield from _dra(corpus, doc)
    for doc in corpus.of("NicNodePolicy"):
        if len(doc.name) > _NAME_LIMIT:
            message = f"the name is {len(doc.name)} characters long; {_NAME_LIMIT} is the most"
            yield Hit("node-policy-name", doc.tree, ("metadata", "name"), message)
        for cluster in corpus.of("NicClusterPolicy"):
            for section in ("ofedDriver", "rdmaSharedDevicePlugin", "sriovDevicePlugin"):
                if doc.get("spec", section) is not None and cluster.get("spec", section) is not None:
                    message = f"{section} is in {cluster.title} too"
                    yield Hit("section-in-both-policies", doc.tree, ("spec", section), message, key=True)


def _dra(corpus: Corpus, doc: Document) -> Iterator[Hit]:
    if doc.get("spec", "featureGates", "dynamicResourceAllocation") is not True:
        return
    if doc.get("spec", "enableInjector") is not False:
        message = "with dynamicResourceAllocation the injector must be off (enableInjector: false)"
        written = doc.get("spec", "enableInjector") is not None
        path = ("spec", "enableInjector") if written else ("spec", "featureGates", "dynamicResourceAllocation")
        yield Hit("injector-with-dra", doc.tree, path, message)
    for policy in corpus.of("NicClusterPolicy", "NicNodePolicy"):
        if policy.get("spec", "sriovDevicePlugin") is not None:
            message = "the SR-IOV device plugin and dynamic resource allocation give out the same VFs"
            yield Hit("device-plugin-with-dra", policy.tree, ("spec", "sriovDevicePlugin"), message, key=True)


CHECKS = (selectors, vfs, shared_ports, operator)
