"""Rules for CNI configurations and for JSON texts."""

import re
from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import NETWORKS, Document
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.networks import SPIDER_BLOCKS, Network
from trackbed.lint.templates import has_expressions
from trackbed.lint.tree import Tree, dig, enumerate_mappings, enumerate_texts

_VERSIONS = {"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
_DEVICE_TYPES = {"sriov", "ib-sriov"}
_INFINIBAND = re.compile(r"ib\d+|ib[ps]\w+")
_VLAN_MAX = 4094


def check_json(corpus: Corpus) -> Iterator[Breach]:
    """Find texts that must be JSON but are not."""
    fields = [field for doc in corpus.documents for field in doc.json.values()]
    fields += [pod.annotation for pod in corpus.pods if pod.annotation and pod.annotation.commas]
    for field in fields:
        field_name = field.path[-1] if field.path[-1] == NETWORKS else ".".join(map(str, field.path))
        if field.tree is None and has_expressions(str(field.outer.get(*field.path))):
            message = (
                f"{field_name} has expressions that are filled in later, so it was not read; render the file first"
            )
            yield Breach("template", field.outer, field.path, message)
        elif field.tree is None:
            yield Breach(
                "invalid-json", field.outer, field.path, f"{field_name} is not JSON: {field.error}", place=field.place
            )
        for place in field.commas:
            message = f"a comma stands before the closing bracket in {field_name}; JSON has no trailing commas"
            yield Breach("json-trailing-comma", field.outer, field.path, message, edit=Edit(",", ""), place=place)


def check_configuration(corpus: Corpus) -> Iterator[Breach]:
    """Find CNI configurations of NetworkAttachmentDefinitions that lack a type, a name or a known version."""
    for doc in corpus.select_kinds("NetworkAttachmentDefinition"):
        conf = doc.get_json("spec", "config")
        if conf is None or not isinstance(conf.value, dict):
            continue
        if not conf.get("type") and not conf.get("plugins"):
            yield Breach("cni-type-missing", conf, (), "the configuration has neither type nor plugins")
        if "name" not in conf.value:
            message = f"the configuration has no name; Multus fills in {doc.name!r}, other readers refuse it"
            yield Breach("cni-name-missing", conf, (), message)
        version = conf.get("cniVersion")
        if str(version) not in _VERSIONS:
            reason = "is missing, which means 0.1.0" if version is None else f"{version!r} does not exist"
            yield Breach("cni-version", conf, () if version is None else ("cniVersion",), f"cniVersion {reason}")


def check_missing_resources(corpus: Corpus) -> Iterator[Breach]:
    """Find networks that need a device but name no resource."""
    claimed = set(_iter_claimed_network_names(corpus))
    for network in corpus.networks:
        is_spider = network.doc.kind == "SpiderMultusConfig"
        is_definition = network.doc.kind == "NetworkAttachmentDefinition"
        is_spider = is_spider and network.doc.get("spec", SPIDER_BLOCKS.get(network.type, "")) is not None
        if network.type in _DEVICE_TYPES and not network.resource and (is_spider or is_definition):
            conf = network.plugins[0] if network.plugins else None
            if network.name in claimed or (conf and (conf.get("deviceID") or conf.get("pciBusID"))):
                continue
            message = f"{network.doc.title} is of type {network.type} and names no resource"
            path: Path = ("metadata",) if is_definition else ("spec",)
            yield Breach("network-without-resource", network.doc.tree, path, message, key=True)


def check_claimed_networks(corpus: Corpus) -> Iterator[Breach]:
    """Find lists of CNI plugins that the SR-IOV DRA driver should run; those with a resource are for Multus."""
    claimed = set(_iter_claimed_network_names(corpus))
    for network in corpus.networks if claimed else ():
        conf = network.doc.get_json("spec", "config") if network.doc.kind == "NetworkAttachmentDefinition" else None
        if conf and network.name in claimed and not network.resource and isinstance(conf.get("plugins"), list):
            message = f"a claim names {network.doc.title}, and the SR-IOV DRA driver runs no list of plugins"
            yield Breach("claimed-network-list", conf, ("plugins",), message, key=True)


def _iter_claimed_network_names(corpus: Corpus) -> Iterator[str]:
    """Yield the names of networks that the SR-IOV DRA driver attaches; the driver provides their devices."""
    claims = [doc.get_mapping("spec") for doc in corpus.select_kinds("ResourceClaim")]
    claims += [doc.get_mapping("spec", "spec") for doc in corpus.select_kinds("ResourceClaimTemplate")]
    claims += [doc.get_mapping("spec") for doc in corpus.select_kinds("DeviceClass")]
    for claim in claims:
        for _, config in enumerate_mappings(dig(claim, "devices", "config") or claim.get("config")):
            name = dig(config, "opaque", "parameters", "netAttachDefName")
            if isinstance(name, str):
                yield name


def check_rdma_mode(corpus: Corpus) -> Iterator[Breach]:
    """Find objects that need the exclusive RDMA mode while others need the shared mode."""
    exclusive = _list_exclusive_mode_uses(corpus)
    shared = [
        breach
        for doc in corpus.select_kinds("NicClusterPolicy", "SriovNetworkPoolConfig")
        for breach in _iter_shared_mode_uses(doc)
    ]
    if exclusive and shared:
        place = shared[0].tree.find_place(shared[0].path, key=True)
        message = f"this needs the RDMA subsystem exclusive, but {place.file}:{place.line} needs it shared"
        yield from (breach._replace(message=message) for breach in exclusive)


def check_host_devices(corpus: Corpus) -> Iterator[Breach]:
    """Find networks that move a port into the pod without its RDMA device, in the exclusive RDMA mode."""
    uses = _list_exclusive_mode_uses(corpus)
    for network in corpus.networks if uses else ():
        if network.type != "host-device" or any(plugin.get("type") == "rdma" for plugin in network.plugins):
            continue
        place = uses[0].tree.find_place(uses[0].path, key=True)
        message = f"host-device moves no RDMA device, and {place.file}:{place.line} makes the RDMA subsystem exclusive"
        yield Breach("host-device-without-rdma", network.doc.tree, ("kind",), message)


def _list_exclusive_mode_uses(corpus: Corpus) -> list[Breach]:
    uses = [breach for network in corpus.networks for breach in _iter_exclusive_mode_uses(network)]
    pools = [doc for doc in corpus.select_kinds("SriovNetworkPoolConfig") if doc.get("spec", "rdmaMode") == "exclusive"]
    return uses + [Breach("rdma-mode-conflict", doc.tree, ("spec", "rdmaMode"), "") for doc in pools]


def _iter_exclusive_mode_uses(network: Network) -> Iterator[Breach]:
    for plugin in network.plugins:
        if plugin.get("type") == "rdma":
            yield Breach("rdma-mode-conflict", plugin, ("type",), "")
    for block in ("sriov", "ibsriov"):
        if network.doc.kind == "SpiderMultusConfig" and network.doc.get("spec", block, "rdmaIsolation") is True:
            yield Breach("rdma-mode-conflict", network.doc.tree, ("spec", block, "rdmaIsolation"), "")


def _iter_shared_mode_uses(doc: Document) -> Iterator[Breach]:
    if doc.kind == "NicClusterPolicy" and doc.get("spec", "rdmaSharedDevicePlugin") is not None:
        yield Breach("rdma-mode-conflict", doc.tree, ("spec", "rdmaSharedDevicePlugin"), "")
    if doc.get("spec", "rdmaMode") == "shared":
        yield Breach("rdma-mode-conflict", doc.tree, ("spec", "rdmaMode"), "")


def check_link_types(corpus: Corpus) -> Iterator[Breach]:
    """Find Ethernet plugins on InfiniBand ports, and InfiniBand plugins on Ethernet ports."""
    policies = {offer.name: offer.doc for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    for network in corpus.networks:
        types = [plugin.get("type") for plugin in network.plugins]
        isolating = any(plugin.get("rdmaIsolation") is True for plugin in network.plugins)
        if "ib-sriov" in types and "rdma" in types and isolating:
            message = "rdmaIsolation is true, so ib-sriov moves the RDMA device itself"
            yield Breach("rdma-after-ib-sriov", network.plugins[types.index("rdma")], ("type",), message)
        if network.type in {"macvlan", "ipvlan", "vlan"}:
            yield from _check_masters(network)
        policy = policies.get(network.resource.name.rpartition("/")[2]) if network.resource else None
        link = policy.get_text("spec", "linkType").lower() if policy else ""
        expected = {"sriov": "eth", "ib-sriov": "ib"}.get(network.type)
        if policy and network.resource and link and expected and link != expected:
            message = f"{network.type} cannot use {network.resource.name!r}: {policy.title} sets linkType {link}"
            yield Breach("link-type-differs", network.doc.tree, network.resource.path, message)


def _check_masters(network: Network) -> Iterator[Breach]:
    tree = network.doc.tree
    places: list[tuple[Tree, Path]] = [(plugin, ("master",)) for plugin in network.plugins[:1]]
    masters = enumerate_texts(tree.get("spec", network.type, "master"))
    places += [(tree, ("spec", "master")), *((tree, ("spec", network.type, "master", number)) for number, _ in masters)]
    for source, path in places:
        name = source.get(*path)
        if isinstance(name, str) and _INFINIBAND.fullmatch(name):
            message = f"{network.type} cannot be stacked on {name!r} if it is InfiniBand"
            yield Breach("macvlan-on-infiniband", source, path, message)


def check_mtu(corpus: Corpus) -> Iterator[Breach]:
    """Find MTUs above the MTU of the port, and MTUs that have no effect."""
    policies = {offer.name: offer.doc for offer in corpus.offers if offer.doc.kind == "SriovNetworkNodePolicy"}
    for network in corpus.networks:
        policy = policies.get(network.resource.name.rpartition("/")[2]) if network.resource else None
        port = policy.get("spec", "mtu") if policy else None
        places: list[tuple[Tree, Path]] = [(network.doc.tree, ("spec", "sriov", "mtu"))]
        places += [(plugin, ("mtu",)) for plugin in network.plugins if plugin.get("type") == "tuning"]
        for tree, path in places:
            requested = tree.get(*path)
            if policy and isinstance(requested, int) and isinstance(port, int) and requested > port:
                message = f"mtu {requested} is above the {port} that {policy.title} gives the port"
                yield Breach("mtu-above-port", tree, path, message)
        for plugin in network.plugins:
            if str(plugin.get("type")) in _DEVICE_TYPES and "mtu" in plugin.value:
                message = f"{plugin.get('type')} has no option mtu; the VF keeps its MTU"
                yield Breach("mtu-ignored", plugin, ("mtu",), message, key=True)


def check_vlans(corpus: Corpus) -> Iterator[Breach]:
    """Find VLAN IDs that are out of range, and VLAN options without a VLAN."""
    for network in corpus.networks:
        for plugin in network.plugins:
            vlan_id = plugin.get("vlan")
            if isinstance(vlan_id, int) and not 0 <= vlan_id <= _VLAN_MAX:
                yield Breach("vlan-range", plugin, ("vlan",), f"vlan {vlan_id} must be between 0 and {_VLAN_MAX}")
            if plugin.get("type") == "sriov" and plugin.get("vlanQoS") and not vlan_id:
                yield Breach("vlan-qos-without-vlan", plugin, ("vlanQoS",), "vlanQoS has no VLAN to mark")
        doc = network.doc
        if doc.kind == "SriovNetwork" and doc.get("spec", "vlanQoS") and not doc.get("spec", "vlan"):
            yield Breach("vlan-qos-without-vlan", doc.tree, ("spec", "vlanQoS"), "vlanQoS has no VLAN to mark")


CHECKS = (
    check_json,
    check_configuration,
    check_missing_resources,
    check_claimed_networks,
    check_rdma_mode,
    check_host_devices,
    check_link_types,
    check_mtu,
    check_vlans,
)
