"""Resources that device plugins will advertise, as far as the input says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.tree import Tree, mappings

POLICY_PREFIXES = ("openshift.io", "nvidia.com", "spidernet.io")
"""Prefix of a SriovNetworkNodePolicy's resource: upstream's, the Network Operator's and Spiderpool's setting."""
PLUGIN_PREFIXES = ("nvidia.com", "intel.com")
"""Prefix of the SR-IOV device plugin where none is written: the Network Operator's and upstream's."""


class Offer(NamedTuple):
    """One resource."""

    name: str
    """Without the prefix."""
    prefixes: tuple[str, ...]
    """Those it may have."""
    plugin: str
    """sriov (exclusive devices), rdma (shared) or rail (Spectrum-X operator)."""
    tree: Tree
    path: Path
    doc: Document

    @property
    def names(self) -> tuple[str, ...]:
        """Every full name it may have."""
        return tuple(f"{prefix}/{self.name}" for prefix in self.prefixes)


def offers(doc: Document) -> Iterator[Offer]:
    """The resources that an object makes device plugins advertise."""
    if doc.kind == "SriovNetworkNodePolicy" and doc.text("spec", "resourceName"):
        yield Offer(doc.text("spec", "resourceName"), POLICY_PREFIXES, "sriov", doc.tree, ("spec", "resourceName"), doc)
    elif doc.kind in {"NicClusterPolicy", "NicNodePolicy"}:
        yield from _listed(doc, ("spec", "sriovDevicePlugin", "config"), "resourceList", "sriov", PLUGIN_PREFIXES)
        yield from _listed(doc, ("spec", "rdmaSharedDevicePlugin", "config"), "configList", "rdma", ("rdma",))
    elif doc.kind == "SpectrumXRailPoolConfig":
        for number, rail in mappings(doc.get("spec", "railTopology")):
            if isinstance(rail.get("name"), str):
                path: Path = ("spec", "railTopology", number, "name")
                yield Offer(rail["name"], POLICY_PREFIXES, "rail", doc.tree, path, doc)


def _listed(doc: Document, path: Path, field: str, plugin: str, default: tuple[str, ...]) -> Iterator[Offer]:
    tree = doc.parsed(*path)
    if tree is None:
        return
    for number, entry in mappings(tree.get(field)):
        name, prefix = entry.get("resourceName"), entry.get("resourcePrefix")
        if isinstance(name, str) and name:
            prefixes = (prefix,) if isinstance(prefix, str) and prefix else default
            yield Offer(name, prefixes, plugin, tree, (field, number, "resourceName"), doc)
