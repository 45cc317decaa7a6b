"""Rules for references: pools, networks and resources that one object defines and another names."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fnmatch import filter as match_names
from fnmatch import translate

from trackbed.lint.corpus import Corpus, choose_nearest
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.networks import Network, PoolUse
from trackbed.lint.offers import Offer
from trackbed.lint.pods import NetworkRequest, PodTemplate
from trackbed.lint.schemas.check import suggest_name

_POOL_KINDS = {"SpiderIPPool": "spider", "IPPool": "nv-ippool", "CIDRPool": "nv-cidrpool"}
_OTHER_FAMILY = {"nv-ippool": "nv-cidrpool", "nv-cidrpool": "nv-ippool"}
_KINDS = {"spider": "SpiderIPPool", "nv-ippool": "IPPool", "nv-cidrpool": "CIDRPool"}
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9_-]+")
"""Names that the SR-IOV network device plugin accepts (validResourceName of its pkg/resources, since v3.6.0)."""
_NAME_LIMIT = 63
_INJECTED_KINDS = {"SriovNetwork", "SriovIBNetwork"}
"""Networks of the SR-IOV operator."""
_OPERATOR_PREFIX = "openshift.io/"
"""Prefix of its resources, unless it is told another one (RESOURCE_PREFIX)."""
WITHOUT_DEVICE = {"bridge", "cnv-bridge", "dummy", "ipoib", "ipvlan", "macvlan", "ovs", "ptp", "tap", "vlan"}
"""CNI types that move no device into the pod. What a marker of bridges counts is for the scheduler alone."""


def _index_pools(corpus: Corpus) -> dict[str, dict[str, Document]]:
    pools: dict[str, dict[str, Document]] = {family: {} for family in _KINDS}
    for kind, family in _POOL_KINDS.items():
        for doc in corpus.select_kinds(kind):
            if doc.group != "whereabouts.cni.cncf.io":
                pools[family][doc.name] = doc
    return pools


def check_pool_names(corpus: Corpus) -> Iterator[Breach]:
    """Find references to address pools that the input does not define, and address pools without references."""
    known = _index_pools(corpus)
    uses = [use for network in corpus.networks for use in network.pools]
    for use in uses:
        if _matches_any(use.name, known[use.family]):
            continue
        other = _OTHER_FAMILY.get(use.family, "")
        if use.name in known.get(other, {}):
            message = (
                f"pool {use.name!r} is a {_KINDS[other]}, but poolType says {_KINDS[use.family].lower()} (the default)"
            )
            yield Breach("pool-type-differs", use.tree, use.path, message)
        elif known[use.family]:
            message = f"no {_KINDS[use.family]} {use.name!r} is in the input{suggest_name(use.name, known[use.family])}"
            yield Breach("pool-not-defined", use.tree, use.path, message)
    yield from _report_unused_pools(known, uses)


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    if pattern in names:
        return True
    return _is_wildcard(pattern) and bool(match_names(names, pattern))


def _is_wildcard(pattern: str) -> bool:
    return any(char in pattern for char in "*?[")


def _report_unused_pools(pools_by_family: dict[str, dict[str, Document]], uses: list[PoolUse]) -> Iterator[Breach]:
    for family, docs in pools_by_family.items():
        patterns = {use.name for use in uses if use.family == family}
        wildcards = re.compile("|".join(map(translate, filter(_is_wildcard, patterns))) or r"(?!)")
        for name, doc in docs.items() if patterns else ():
            used = name in patterns or wildcards.match(name)
            if doc.get("spec", "default") is not True and not used:
                message = f"no network of the input takes addresses from {doc.title}"
                yield Breach("pool-not-used", doc.tree, ("metadata", "name"), message)


def check_network_names(corpus: Corpus) -> Iterator[Breach]:
    """Find networks that pods request but the input does not define.

    Only in folders that define networks, or that use some which are defined elsewhere; others are incomplete. A network
    attachment without a namespace gets that in which it is applied, which may be the pods'.
    """
    by_name: dict[str, dict[str, Network]] = {}
    for network in corpus.networks:
        by_name.setdefault(network.name, {}).setdefault(network.doc.folder, network)
    unplaced = {
        network.name
        for network in corpus.networks
        if network.doc.kind == "NetworkAttachmentDefinition" and not network.doc.namespace
    }
    folders = {network.doc.folder for network in corpus.networks}
    folders |= {pod.doc.folder for pod in corpus.pods if corpus.find_networks(pod)}
    for pod in corpus.pods:
        for request in pod.networks if pod.doc.folder in folders else ():
            namespace = request.namespace or pod.namespace
            if (namespace, request.name) in corpus.networks_by_name or request.name in unplaced:
                continue
            other = choose_nearest(by_name.get(request.name, {}), pod.doc)
            if other and not request.namespace and not pod.doc.namespace:
                continue  # the pod gets the namespace in which it is applied
            if other:
                message = f"network {request.name!r} is in namespace {other.namespace!r}, not in {namespace!r}"
                breach = Breach("network-in-other-namespace", request.tree, request.path, message)
                yield corpus.weigh(breach, pod.doc, other.doc)
            else:
                hint = suggest_name(request.name, (name for home, name in corpus.networks_by_name if home == namespace))
                message = f"no network {namespace}/{request.name} is in the input{hint}"
                yield Breach("network-not-found", request.tree, request.path, message)


def check_resource_names(corpus: Corpus) -> Iterator[Breach]:
    """Find resource names that the SR-IOV device plugin rejects."""
    for offer in corpus.offers:
        if offer.plugin != "rdma":
            yield from _check_resource_name(offer.name, Breach("resource-name-invalid", offer.tree, offer.path, ""))
    for network in corpus.networks:
        if network.doc.kind == "HostDeviceNetwork" and network.resource:
            bare = network.resource.name.rpartition("/")[2]
            yield from _check_resource_name(
                bare, Breach("resource-name-invalid", network.doc.tree, network.resource.path, "")
            )


def _check_resource_name(resource_name: str, template: Breach) -> Iterator[Breach]:
    if not _PLUGIN_NAME.fullmatch(resource_name):
        mended = resource_name.replace(".", "-")
        hint = f"; write {mended!r}" if _PLUGIN_NAME.fullmatch(mended) else ""
        yield template._replace(message=f"the SR-IOV device plugin does not accept the name {resource_name!r}{hint}")
    elif len(resource_name) > _NAME_LIMIT:
        yield template._replace(
            message=f"the name {resource_name!r} is {len(resource_name)} characters long; the limit is {_NAME_LIMIT}"
        )


def check_resources_advertised(corpus: Corpus) -> Iterator[Breach]:
    """Find requests for resources that no device plugin of the input advertises.

    Only in folders that define resources, or that use some which are defined elsewhere; others are incomplete.
    """
    folders = _find_folders_with_resources(corpus)
    device = _index_offers(offer for offer in corpus.offers if offer.plugin != "rdma")
    shared = _index_offers(offer for offer in corpus.offers if offer.plugin == "rdma")
    reported: set[str] = set()
    for network in corpus.networks:
        is_related = network.doc.folder in folders
        if network.resource and network.type not in WITHOUT_DEVICE and device and is_related:
            template = Breach("", network.doc.tree, network.resource.path, "")
            for breach in _check_advertised(network.resource.name, device, template):
                reported.add(network.resource.name)
                yield breach
    offered = {doc.get_text("spec", "extendedResourceName") for doc in corpus.select_kinds("DeviceClass")}
    offered |= {name for offer in corpus.offers for name in offer.full_names}
    for pod in corpus.pods:
        for request in pod.list_nic_requests():
            known = shared if request.name.startswith("rdma/") else device
            if known and pod.doc.folder in folders and request.name not in reported | offered:
                yield from _check_advertised(request.name, known, Breach("", pod.doc.tree, request.path, "", key=True))


def _find_folders_with_resources(corpus: Corpus) -> set[str]:
    """Return the folders with an object that offers, or asks for, a resource that the input offers."""
    names = {name for offer in corpus.offers for name in (offer.name, *offer.full_names)}
    folders = {offer.doc.folder for offer in corpus.offers}
    folders |= {
        network.doc.folder for network in corpus.networks if network.resource and network.resource.name in names
    }
    return folders | {pod.doc.folder for pod in corpus.pods if any(request.name in names for request in pod.resources)}


def _index_offers(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    by_name: dict[str, list[Offer]] = {}
    for offer in offers:
        by_name.setdefault(offer.name, []).append(offer)
    return by_name


def _check_advertised(resource_name: str, offers_by_name: dict[str, list[Offer]], template: Breach) -> Iterator[Breach]:
    prefix, _, bare = resource_name.rpartition("/")
    matches = offers_by_name.get(bare, [])
    if not matches:
        message = f"nothing in the input advertises resource {resource_name!r}{suggest_name(bare, offers_by_name)}"
        yield template._replace(rule="resource-not-offered", message=message)
    elif prefix and all(prefix not in offer.prefixes for offer in matches):
        right = " or ".join(dict.fromkeys(full for offer in matches for full in offer.full_names))
        yield template._replace(
            rule="resource-prefix-differs", message=f"resource {resource_name!r} is advertised as {right}"
        )


def check_resources_requested(corpus: Corpus) -> Iterator[Breach]:
    """Find pods that request the devices of their networks not at all or too few times."""
    alternatives: dict[tuple[str, str], list[str]] = defaultdict(list)
    for network in corpus.networks:
        if network.resource:
            alternatives[network.namespace, network.name].append(network.resource.name)
    for pod in corpus.pods:
        if pod.get("spec", "resourceClaims"):
            continue  # a claim may give the devices
        counts = {request.name: request.number for request in pod.resources}
        for name, uses in _map_needed_devices(corpus, pod).items():
            network, first = uses[0]
            names = [name, *alternatives[network.namespace, network.name]]
            keys = [key for key in counts if any(_is_of(key, resource) for resource in names)]
            if not keys and not _is_injected(corpus, network, name):
                hint = suggest_name(name, counts)
                message = f"{network.doc.title} needs resource {name!r}, which no container asks for{hint}"
                breach = Breach("network-resource-not-requested", first.tree, first.path, message)
                yield corpus.weigh(breach, pod.doc, network.doc)
            elif keys and (count := counts[keys[0]]) is not None and count < len(uses):
                message = f"{len(uses)} networks take one {keys[0]!r} each, but the pod asks for {count}"
                breach = Breach("resource-count", first.tree, first.path, message)
                yield corpus.weigh(breach, pod.doc, network.doc)


def _is_of(request: str, resource: str) -> bool:
    """Return whether a pod's request is for a resource; an operator adds a prefix to one that has none."""
    return request == resource or ("/" not in resource and request.rpartition("/")[2] == resource)


def _is_injected(corpus: Corpus, network: Network, resource: str) -> bool:
    """Return whether a webhook adds the request: the SR-IOV operator's injector, which is on by default."""
    configs = corpus.select_kinds("SriovOperatorConfig")
    is_off = any(config.get("spec", "enableInjector") is False for config in configs)
    is_of_operator = network.doc.kind in _INJECTED_KINDS or resource.startswith(_OPERATOR_PREFIX)
    return (is_of_operator or bool(configs)) and not is_off


def _map_needed_devices(corpus: Corpus, pod: PodTemplate) -> dict[str, list[tuple[Network, NetworkRequest]]]:
    """Return the networks of a pod that need a device, each with its request, by resource.

    A network that is requested twice occurs twice.
    """
    needs: dict[str, list[tuple[Network, NetworkRequest]]] = {}
    for request in pod.networks:
        network = corpus.find_network(pod, request)
        if network and network.resource and network.type not in WITHOUT_DEVICE:
            needs.setdefault(network.resource.name, []).append((network, request))
    return needs


CHECKS = (
    check_pool_names,
    check_network_names,
    check_resource_names,
    check_resources_advertised,
    check_resources_requested,
)
