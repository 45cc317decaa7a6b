"""CNI configurations and the JSON texts around them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import NETWORKS, Document
from trackbed.lint.finding import Edit, Hit
from trackbed.lint.networks import SPIDER_BLOCKS, Network
from trackbed.lint.tree import Tree, dig, mappings, texts

_VERSIONS = {"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
_DEVICE_TYPES = {"sriov", "ib-sriov"}
_INFINIBAND = re.compile(r"ib\d+|ib[ps]\w+")
_VLAN_MAX = 4094


def json_texts(corpus: Corpus) -> Iterator[Hit]:
    """Text that must be JSON and is not."""
    texts = [text for doc in corpus.documents for text in doc.json.values()]
    texts += [pod.annotation for pod in corpus.pods if pod.annotation and pod.annotation.commas]
    for text in texts:
        field = text.path[-1] if text.path[-1] == NETWORKS else ".".join(map(str, text.path))
        if text.tree is None:
            yield Hit("invalid-json", text.outer, text.path, f"{field} is not JSON: {text.error}", place=text.place)
        for place in text.commas:
            message = f"a comma stands before the closing bracket in {field}; JSON has no trailing commas"
            yield Hit("json-trailing-comma", text.outer, text.path, message, edit=Edit(",", ""), place=place)


def shape(corpus: Corpus) -> Iterator[Hit]:
    """What every NetworkAttachmentDefinition's config needs."""
    for doc in corpus.of("NetworkAttachmentDefinition"):
        conf = doc.parsed("spec", "config")
        if conf is None or not isinstance(conf.value, dict):
            continue
        if not conf.get("type") and not conf.get("plugins"):
            yield Hit("cni-type-missing", conf, (), "the configuration has neither type nor plugins")
        if "name" not in conf.value:
            message = f"the configuration has no name; Multus fills in {doc.name!r}, other readers refuse it"
            yield Hit("cni-name-missing", conf, (), message)
        version = conf.get("cniVersion")
        if str(version) not in _VERSIONS:
            said = "is missing, which means 0.1.0" if version is None else f"{version!r} does not exist"
            yield Hit("cni-version", conf, () if version is None else ("cniVersion",), f"cniVersion {said}")


def resources(corpus: Corpus) -> Iterator[Hit]:
    """Networks made of a device that does not say which."""
    by_claim = set(_claimed(corpus))
    for network in corpus.networks:
        spider = network.doc.kind == "SpiderMultusConfig"
        written = network.doc.kind == "NetworkAttachmentDefinition"
        spider = spider and network.doc.get("spec", SPIDER_BLOCKS.get(network.type, "")) is not None
        if network.type in _DEVICE_TYPES and not network.resource and (spider or written):
            conf = network.plugins[0] if network.plugins else None
            if network.name in by_claim or (conf and (conf.get("deviceID") or conf.get("pciBusID"))):
                continue
            message = f"{network.doc.title} is of type {network.type} and names no resource"
            path: Path = ("metadata",) if written else ("spec",)
            yield Hit("network-without-resource", network.doc.tree, path, message, key=True)


def _claimed(corpus: Corpus) -> Iterator[str]:
    """Networks that the SR-IOV DRA driver attaches: it hands over the device itself."""
    claims = [doc.mapping("spec") for doc in corpus.of("ResourceClaim")]
    claims += [doc.mapping("spec", "spec") for doc in corpus.of("ResourceClaimTemplate")]
    claims += [doc.mapping("spec") for doc in corpus.of("DeviceClass")]
    for claim in claims:
        for _, config in mappings(dig(claim, "devices", "config") or claim.get("config")):
            name = dig(config, "opaque", "parameters", "netAttachDefName")
            if isinstance(name, str):
                yield name


def rdma_mode(corpus: Corpus) -> Iterator[Hit]:
    """Shared and exclusive RDMA namespaces asked for at once."""
    exclusive = [spot for network in corpus.networks for spot in _exclusive(network)]
    pools = [doc for doc in corpus.of("SriovNetworkPoolConfig") if doc.get("spec", "rdmaMode") == "exclusive"]
    exclusive += [Hit("rdma-mode-conflict", doc.tree, ("spec", "rdmaMode"), "") for doc in pools]
    shared = [hit for doc in corpus.of("NicClusterPolicy", "SriovNetworkPoolConfig") for hit in _shared(doc)]
    if exclusive and shared:
        there = shared[0].tree.place(shared[0].path, key=True)
        message = f"this needs the RDMA subsystem exclusive, but {there.file}:{there.line} needs it shared"
        yield from (hit._replace(message=message) for hit in exclusive)


def _exclusive(network: Network) -> Iterator[Hit]:
    for plugin in network.plugins:
        if plugin.get("type") == "rdma":
            yield Hit("rdma-mode-conflict", plugin, ("type",), "")
    for block in ("sriov", "ibsriov"):
        if network.doc.kind == "SpiderMultusConfig" and network.doc.get("spec", block, "rdmaIsolation") is True:
            yield Hit("rdma-mode-conflict", network.doc.tree, ("spec", block, "rdmaIsolation"), "")


def _shared(doc: Document) -> Iterator[Hit]:
    if doc.kind == "NicClusterPolicy" and doc.get("spec", "rdmaSharedDevicePlugin") is not None:
        yield Hit("rdma-mode-conflict", doc.tree, ("spec", "rdmaSharedDevicePlugin"), "")
    if doc.get("spec", "rdmaMode") == "shared":
        yield Hit("rdma-mode-conflict", doc.tree, ("spec", "rdmaMode"), "")


def infiniband(corpus: Corpus) -> Iterator[Hit]:
    """Ethernet plugins on InfiniBand and the other way round."""
    links = {offer.name: offer.doc for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    for network in corpus.networks:
        types = [plugin.get("type") for plugin in network.plugins]
        if "ib-sriov" in types and "rdma" in types:
            message = "ib-sriov moves the RDMA device itself (rdmaIsolation)"
            yield Hit("rdma-after-ib-sriov", network.plugins[types.index("rdma")], ("type",), message)
        if network.type in {"macvlan", "ipvlan", "vlan"}:
            yield from _masters(network)
        policy = links.get(network.resource.name.rpartition("/")[2]) if network.resource else None
        link = policy.text("spec", "linkType").lower() if policy else ""
        wanted = {"sriov": "eth", "ib-sriov": "ib"}.get(network.type)
        if policy and network.resource and link and wanted and link != wanted:
            message = f"{network.type} cannot use {network.resource.name!r}: {policy.title} sets linkType {link}"
            yield Hit("link-type-differs", network.doc.tree, network.resource.path, message)


def _masters(network: Network) -> Iterator[Hit]:
    tree = network.doc.tree
    spots: list[tuple[Tree, Path]] = [(plugin, ("master",)) for plugin in network.plugins[:1]]
    listed = texts(tree.get("spec", network.type, "master"))
    spots += [(tree, ("spec", "master")), *((tree, ("spec", network.type, "master", number)) for number, _ in listed)]
    for where, path in spots:
        name = where.get(*path)
        if isinstance(name, str) and _INFINIBAND.fullmatch(name):
            message = f"{network.type} cannot be stacked on {name!r} if it is InfiniBand"
            yield Hit("macvlan-on-infiniband", where, path, message)


def mtu(corpus: Corpus) -> Iterator[Hit]:
    """MTUs above the port's, and where an MTU has no effect."""
    ports = {offer.name: offer.doc for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    for network in corpus.networks:
        policy = ports.get(network.resource.name.rpartition("/")[2]) if network.resource else None
        port = policy.get("spec", "mtu") if policy else None
        spots: list[tuple[Tree, Path]] = [(network.doc.tree, ("spec", "sriov", "mtu"))]
        spots += [(plugin, ("mtu",)) for plugin in network.plugins if plugin.get("type") == "tuning"]
        for tree, path in spots:
            asked = tree.get(*path)
            if policy and isinstance(asked, int) and isinstance(port, int) and asked > port:
                message = f"mtu {asked} is above the {port} that {policy.title} gives the port"
                yield Hit("mtu-above-port", tree, path, message)
        for plugin in network.plugins:
            if str(plugin.get("type")) in _DEVICE_TYPES and "mtu" in plugin.value:
                message = f"{plugin.get('type')} has no option mtu; the VF keeps the MTU it has"
                yield Hit("mtu-ignored", plugin, ("mtu",), message, key=True)


def vlan(corpus: Corpus) -> Iterator[Hit]:
    """VLAN numbers, and options that need one."""
    for network in corpus.networks:
        for plugin in network.plugins:
            number = plugin.get("vlan")
            if isinstance(number, int) and not 0 <= number <= _VLAN_MAX:
                yield Hit("vlan-range", plugin, ("vlan",), f"vlan {number} must be between 0 and {_VLAN_MAX}")
            if plugin.get("type") == "sriov" and plugin.get("vlanQoS") and not number:
                yield Hit("vlan-qos-without-vlan", plugin, ("vlanQoS",), "vlanQoS has no VLAN to mark")
        doc = network.doc
        if doc.kind == "SriovNetwork" and doc.get("spec", "vlanQoS") and not doc.get("spec", "vlan"):
            yield Hit("vlan-qos-without-vlan", doc.tree, ("spec", "vlanQoS"), "vlanQoS has no VLAN to mark")


CHECKS = (json_texts, shape, resources, rdma_mode, infiniband, mtu, vlan)
