"""Everything a pod can name as a network: written NetworkAttachmentDefinitions, and the objects they are made from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import RESOURCE, Document
from trackbed.lint.tree import Tree, mappings, texts

SPIDER_BLOCKS = {
    "macvlan": "macvlan",
    "ipvlan": "ipvlan",
    "vlan": "vlan",
    "sriov": "sriov",
    "ovs": "ovs",
    "ib-sriov": "ibsriov",
    "ipoib": "ipoib",
}
"""cniType of a SpiderMultusConfig -> the field that holds its settings."""
_OPERATORS = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
_MELLANOX = {"HostDeviceNetwork": "host-device", "MacvlanNetwork": "macvlan", "IPoIBNetwork": "ipoib"}


class Resource(NamedTuple):
    """A resource name and where it is written."""

    name: str
    path: Path


class PoolUse(NamedTuple):
    """A pool that a network takes addresses from."""

    family: str
    """nv-ippool, nv-cidrpool or spider."""
    name: str
    """May hold wildcards where the family is spider."""
    tree: Tree
    path: Path


class Network(NamedTuple):
    """One network."""

    doc: Document
    namespace: str
    name: str
    type: str
    """CNI type of the first plugin; empty where it is unknown."""
    resource: Resource | None
    """In `doc`. Without a prefix where the object leaves it to the operator."""
    plugins: tuple[Tree, ...]
    """CNI configurations, in the order of the chain; ib and meta plugins included."""
    ipams: tuple[Tree, ...]
    pools: tuple[PoolUse, ...]


def networks(doc: Document) -> Iterator[Network]:
    """The networks that an object defines."""
    if doc.kind == "NetworkAttachmentDefinition":
        yield _attachment(doc)
    elif doc.kind == "SpiderMultusConfig":
        yield _spider(doc)
    elif doc.kind in _OPERATORS or doc.kind in _MELLANOX:
        yield _operator(doc)
    elif doc.kind == "SpectrumXRailPoolConfig":
        yield from _rails(doc)


def plugins(conf: Tree | None) -> tuple[Tree, ...]:
    """The plugins of a CNI configuration: its list, or itself."""
    if conf is None or not isinstance(conf.value, dict):
        return ()
    listed = conf.get("plugins")
    return tuple(conf.under("plugins", n) for n, _ in mappings(listed)) if isinstance(listed, list) else (conf,)


def _attachment(doc: Document) -> Network:
    chain = plugins(doc.parsed("spec", "config"))
    return _network(doc, doc.home, chain, _named(doc, ("metadata", "annotations", RESOURCE)))


def _spider(doc: Document) -> Network:
    kind = doc.text("spec", "cniType") or "custom"
    block = SPIDER_BLOCKS.get(kind, "")
    chain = plugins(doc.parsed("spec", "customCNI")) if kind == "custom" else ()
    chain += tuple(doc_json.tree for path, doc_json in doc.json.items() if "chainCNIJsonData" in path and doc_json.tree)
    made = _network(doc, doc.home, chain, _named(doc, ("spec", block, "resourceName")) if block else None)
    name = doc.text("metadata", "annotations", "multus.spidernet.io/cr-name") or doc.name
    pools = tuple(_spider_pools(doc, block)) if block else made.pools
    return made._replace(name=name, type=made.type if kind == "custom" else kind, pools=pools)


def _spider_pools(doc: Document, block: str) -> Iterator[PoolUse]:
    for base in (
        ("spec", block, "ippools"),
        ("spec", "ippools"),
    ):  # the second is a common mistake; its names still count
        for family in ("ipv4", "ipv6"):
            for number, name in texts(doc.get(*base, family)):
                yield PoolUse("spider", name, doc.tree, (*base, family, number))


def _operator(doc: Document) -> Network:
    own = _OPERATORS.get(doc.kind) or _MELLANOX[doc.kind]
    namespace = doc.text("spec", "networkNamespace") or (doc.home if doc.kind in _OPERATORS else "default")
    meta = doc.parsed("spec", "metaPlugins")
    chain = tuple(meta.under(n) for n, _ in mappings(meta.value)) if meta else ()
    ipam = doc.parsed("spec", "ipam")
    made = _network(doc, namespace, chain, _named(doc, ("spec", "resourceName")), (ipam,) if ipam else ())
    return made._replace(type=own)


def _rails(doc: Document) -> Iterator[Network]:
    namespace = doc.text("spec", "networkNamespace") or doc.home
    for number, rail in mappings(doc.get("spec", "railTopology")):
        path: Path = ("spec", "railTopology", number)
        ipam = doc.parsed(*path, "ipam")
        made = _network(doc, namespace, (), _named(doc, (*path, "name")), (ipam,) if ipam else ())
        pool, name = rail.get("cidrPoolRef"), rail.get("name")
        uses = (PoolUse("nv-cidrpool", pool, doc.tree, (*path, "cidrPoolRef")),) if isinstance(pool, str) else ()
        yield made._replace(name=name if isinstance(name, str) else "", type="ovs", pools=(*made.pools, *uses))


def _network(
    doc: Document, namespace: str, chain: tuple[Tree, ...], resource: Resource | None, ipams: tuple[Tree, ...] = ()
) -> Network:
    found = ipams + tuple(plugin.under("ipam") for plugin in chain if isinstance(plugin.get("ipam"), dict))
    kind = chain[0].get("type") if chain else ""
    pools = tuple(use for ipam in found for use in _ipam_pools(ipam))
    return Network(doc, namespace, doc.name, kind if isinstance(kind, str) else "", resource, chain, found, pools)


def _named(doc: Document, path: Path) -> Resource | None:
    name = doc.get(*path)
    return Resource(name, path) if isinstance(name, str) and name else None


def _ipam_pools(ipam: Tree) -> Iterator[PoolUse]:
    kind: Any = ipam.get("type")
    if kind == "nv-ipam" and isinstance(ipam.get("poolName"), str):
        family = "nv-cidrpool" if str(ipam.get("poolType") or "ippool").lower() == "cidrpool" else "nv-ippool"
        for name in filter(None, map(str.strip, ipam.get("poolName").split(","))):
            yield PoolUse(family, name, ipam, ("poolName",))
    if kind == "spiderpool":
        for field in ("default_ipv4_ippool", "default_ipv6_ippool"):
            for number, name in texts(ipam.get(field)):
                yield PoolUse("spider", name, ipam, (field, number))
