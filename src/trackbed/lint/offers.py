"""Resources that device plugins will advertise because of objects in the input."""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import Document
from trackbed.lint.tree import Tree, enumerate_mappings

POLICY_PREFIXES = ("openshift.io", "nvidia.com", "spidernet.io")
"""Default prefixes of a SriovNetworkNodePolicy's resource: upstream, Network Operator, Spiderpool."""
PLUGIN_PREFIXES = ("nvidia.com", "intel.com")
"""Default prefixes of the SR-IOV device plugin: Network Operator, upstream."""


class Offer(NamedTuple):
    """A resource that a device plugin advertises."""

    name: str
    """Name of the resource without its prefix."""
    prefixes: tuple[str, ...]
    plugin: str
    """Plugin that advertises it: sriov (exclusive devices), rdma (shared devices) or rail (Spectrum-X operator)."""
    tree: Tree
    path: Path
    doc: Document

    @property
    def full_names(self) -> tuple[str, ...]:
        """Every name, with its prefix, that the resource may have."""
        return tuple(f"{prefix}/{self.name}" for prefix in self.prefixes)


def iter_offers(doc: Document) -> Iterator[Offer]:
    """Yield the resources that device plugins advertise because of an object."""
    if doc.kind == "SriovNetworkNodePolicy" and doc.get_text("spec", "resourceName"):
        path: Path = ("spec", "resourceName")
        yield Offer(doc.get_text(*path), POLICY_PREFIXES, "sriov", doc.tree, path, doc)
    elif doc.kind in {"NicClusterPolicy", "NicNodePolicy"}:
        yield from _iter_configured_resources(
            doc, ("spec", "sriovDevicePlugin", "config"), "resourceList", "sriov", PLUGIN_PREFIXES
        )
        yield from _iter_configured_resources(
            doc, ("spec", "rdmaSharedDevicePlugin", "config"), "configList", "rdma", ("rdma",)
        )
    elif doc.kind == "SpectrumXRailPoolConfig":
        for number, rail in enumerate_mappings(doc.get("spec", "railTopology")):
            if isinstance(rail.get("name"), str):
                path = ("spec", "railTopology", number, "name")
                yield Offer(rail["name"], POLICY_PREFIXES, "rail", doc.tree, path, doc)


def _iter_configured_resources(
    doc: Document, path: Path, list_field: str, plugin: str, default_prefixes: tuple[str, ...]
) -> Iterator[Offer]:
    tree = doc.get_json(*path)
    if tree is None:
        return
    for number, entry in enumerate_mappings(tree.get(list_field)):
        name, prefix = entry.get("resourceName"), entry.get("resourcePrefix")
        if isinstance(name, str) and name:
            prefixes = (prefix,) if isinstance(prefix, str) and prefix else default_prefixes
            yield Offer(name, prefixes, plugin, tree, (list_field, number, "resourceName"), doc)
