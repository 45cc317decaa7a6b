"""Networks that a pod can request: NetworkAttachmentDefinitions, and objects from which operators create them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.document import RESOURCE, Document
from trackbed.lint.tree import Tree, enumerate_mappings, enumerate_texts

SPIDER_BLOCKS = {
    "macvlan": "macvlan",
    "ipvlan": "ipvlan",
    "vlan": "vlan",
    "sriov": "sriov",
    "ovs": "ovs",
    "ib-sriov": "ibsriov",
    "ipoib": "ipoib",
}
"""Fields of a SpiderMultusConfig that hold the settings of a CNI type, by cniType."""
_OPERATORS = {"SriovNetwork": "sriov", "SriovIBNetwork": "ib-sriov", "OVSNetwork": "ovs"}
_MELLANOX = {"HostDeviceNetwork": "host-device", "MacvlanNetwork": "macvlan", "IPoIBNetwork": "ipoib"}


class Resource(NamedTuple):
    """The name of a device resource, and the path of the name in its document."""

    name: str
    path: Path


class PoolUse(NamedTuple):
    """A reference from a network to an address pool."""

    family: str
    """Sort of the pool: nv-ippool, nv-cidrpool or spider."""
    name: str
    """Name of the pool; it may contain wildcards if the family is spider."""
    tree: Tree
    path: Path


class Network(NamedTuple):
    """A secondary network that pods can request, as one object of the input defines it."""

    doc: Document
    namespace: str
    name: str
    type: str
    """CNI type of the first plugin; empty if unknown."""
    resource: Resource | None
    """Resource of the devices that pods get; its name has no prefix if an operator adds it. None if none is named."""
    plugins: tuple[Tree, ...]
    """Configurations of the CNI plugins, meta plugins included, in the order of the chain."""
    ipams: tuple[Tree, ...]
    pools: tuple[PoolUse, ...]


def iter_networks(doc: Document) -> Iterator[Network]:
    """Yield the secondary networks that an object defines."""
    if doc.kind == "NetworkAttachmentDefinition":
        chain = list_plugins(doc.get_json("spec", "config"))
        resource = _read_resource(doc, ("metadata", "annotations", RESOURCE))
        yield _build_network(doc, doc.effective_namespace, chain, resource)
    elif doc.kind == "SpiderMultusConfig":
        yield _read_spider_network(doc)
    elif doc.kind in _OPERATORS or doc.kind in _MELLANOX:
        yield _read_operator_network(doc)
    elif doc.kind == "SpectrumXRailPoolConfig":
        yield from _iter_rail_networks(doc)


def list_plugins(conf: Tree | None) -> tuple[Tree, ...]:
    """Return the plugins of a CNI configuration list, or the configuration itself if it is a single plugin."""
    if conf is None or not isinstance(conf.value, dict):
        return ()
    if not isinstance(conf.get("plugins"), list):
        return (conf,)
    return tuple(conf.get_subtree("plugins", n) for n, _ in enumerate_mappings(conf.get("plugins")))


def _read_spider_network(doc: Document) -> Network:
    kind = doc.get_text("spec", "cniType") or "custom"
    block = SPIDER_BLOCKS.get(kind, "")
    chain = list_plugins(doc.get_json("spec", "customCNI")) if kind == "custom" else ()
    chain += tuple(text.tree for path, text in doc.json.items() if "chainCNIJsonData" in path and text.tree)
    network = _build_network(
        doc, doc.effective_namespace, chain, _read_resource(doc, ("spec", block, "resourceName")) if block else None
    )
    name = doc.get_text("metadata", "annotations", "multus.spidernet.io/cr-name") or doc.name
    pools = tuple(_iter_spider_pools(doc, block)) if block else network.pools
    return network._replace(name=name, type=network.type if kind == "custom" else kind, pools=pools)


def _iter_spider_pools(doc: Document, block: str) -> Iterator[PoolUse]:
    # spec.ippools is a common mistake for spec.BLOCK.ippools; its names still refer to pools.
    for base in (("spec", block, "ippools"), ("spec", "ippools")):
        for family in ("ipv4", "ipv6"):
            for number, name in enumerate_texts(doc.get(*base, family)):
                yield PoolUse("spider", name, doc.tree, (*base, family, number))


def _read_operator_network(doc: Document) -> Network:
    cni_type = _OPERATORS.get(doc.kind) or _MELLANOX[doc.kind]
    namespace = doc.get_text("spec", "networkNamespace") or (
        doc.effective_namespace if doc.kind in _OPERATORS else "default"
    )
    meta = doc.get_json("spec", "metaPlugins")
    chain = tuple(meta.get_subtree(n) for n, _ in enumerate_mappings(meta.value)) if meta else ()
    ipam = doc.get_json("spec", "ipam")
    network = _build_network(
        doc, namespace, chain, _read_resource(doc, ("spec", "resourceName")), (ipam,) if ipam else ()
    )
    return network._replace(type=cni_type)


def _iter_rail_networks(doc: Document) -> Iterator[Network]:
    namespace = doc.get_text("spec", "networkNamespace") or doc.effective_namespace
    for number, rail in enumerate_mappings(doc.get("spec", "railTopology")):
        path: Path = ("spec", "railTopology", number)
        ipam = doc.get_json(*path, "ipam")
        network = _build_network(doc, namespace, (), _read_resource(doc, (*path, "name")), (ipam,) if ipam else ())
        pool, name = rail.get("cidrPoolRef"), rail.get("name")
        uses = (PoolUse("nv-cidrpool", pool, doc.tree, (*path, "cidrPoolRef")),) if isinstance(pool, str) else ()
        yield network._replace(name=name if isinstance(name, str) else "", type="ovs", pools=(*network.pools, *uses))


def _build_network(
    doc: Document, namespace: str, chain: tuple[Tree, ...], resource: Resource | None, ipams: tuple[Tree, ...] = ()
) -> Network:
    all_ipams = ipams + tuple(plugin.get_subtree("ipam") for plugin in chain if isinstance(plugin.get("ipam"), dict))
    cni_type = chain[0].get("type") if chain else ""
    uses = tuple(use for ipam in all_ipams for use in _iter_ipam_pools(ipam))
    return Network(
        doc, namespace, doc.name, cni_type if isinstance(cni_type, str) else "", resource, chain, all_ipams, uses
    )


def _read_resource(doc: Document, path: Path) -> Resource | None:
    name = doc.get(*path)
    return Resource(name, path) if isinstance(name, str) and name else None


def _iter_ipam_pools(ipam: Tree) -> Iterator[PoolUse]:
    kind: Any = ipam.get("type")
    if kind == "nv-ipam" and isinstance(ipam.get("poolName"), str):
        family = "nv-cidrpool" if str(ipam.get("poolType") or "ippool").lower() == "cidrpool" else "nv-ippool"
        for name in filter(None, map(str.strip, ipam.get("poolName").split(","))):
            yield PoolUse(family, name, ipam, ("poolName",))
    if kind == "spiderpool":
        for field in ("default_ipv4_ippool", "default_ipv6_ippool"):
            for number, name in enumerate_texts(ipam.get(field)):
                yield PoolUse("spider", name, ipam, (field, number))
