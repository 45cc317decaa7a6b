"""Resources that device plugins will advertise according to the input."""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.tree import Tree, list_mappings

POLICY_PREFIXES = ("openshift.io", "nvidia.com", "spidernet.io")
"""Prefixes of a SriovNetworkNodePolicy's resource: the defaults upstream, of the Network Operator and of Spiderpool."""
PLUGIN_PREFIXES = ("nvidia.com", "intel.com")
"""Default prefixes of the SR-IOV device plugin: the Network Operator's and upstream's."""


class Offer(NamedTuple):
    """A resource that a device plugin advertises."""

    name: str
    """Without the prefix."""
    prefixes: tuple[str, ...]
    """Possible prefixes."""
    plugin: str
    """sriov (exclusive devices), rdma (shared) or rail (Spectrum-X operator)."""
    tree: Tree
    path: Path
    doc: Document

    @property
    def names(self) -> tuple[str, ...]:
        """Every possible full name."""
        return tuple(f"{prefix}/{self.name}" for prefix in self.prefixes)


def find_offers(doc: Document) -> Iterator[Offer]:
    """Yield the resources that device plugins advertise because of an object."""
    if doc.kind == "SriovNetworkNodePolicy" and doc.get_text("spec", "resourceName"):
        path: Path = ("spec", "resourceName")
        yield Offer(doc.get_text(*path), POLICY_PREFIXES, "sriov", doc.tree, path, doc)
    elif doc.kind in {"NicClusterPolicy", "NicNodePolicy"}:
        yield from _read_plugin_config(
            doc, ("spec", "sriovDevicePlugin", "config"), "resourceList", "sriov", PLUGIN_PREFIXES
        )
        yield from _read_plugin_config(
            doc, ("spec", "rdmaSharedDevicePlugin", "config"), "configList", "rdma", ("rdma",)
        )
    elif doc.kind == "SpectrumXRailPoolConfig":
        for number, rail in list_mappings(doc.get("spec", "railTopology")):
            if isinstance(rail.get("name"), str):
                path = ("spec", "railTopology", number, "name")
                yield Offer(rail["name"], POLICY_PREFIXES, "rail", doc.tree, path, doc)


def _read_plugin_config(
    doc: Document, path: Path, field: str, plugin: str, default: tuple[str, ...]
) -> Iterator[Offer]:
    tree = doc.get_json(*path)
    if tree is None:
        return
    for number, entry in list_mappings(tree.get(field)):
        name, prefix = entry.get("resourceName"), entry.get("resourcePrefix")
        if isinstance(name, str) and name:
            prefixes = (prefix,) if isinstance(prefix, str) and prefix else default
            yield Offer(name, prefixes, plugin, tree, (field, number, "resourceName"), doc)
