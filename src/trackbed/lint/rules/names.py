"""Rules of references: pools, networks and resources that one object defines and another names."""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.networks import Network, PoolUse
from trackbed.lint.offers import Offer
from trackbed.lint.pods import NetworkRequest, PodTemplate
from trackbed.lint.schemas.check import suggest

_POOL_KINDS = {"SpiderIPPool": "spider", "IPPool": "nv-ippool", "CIDRPool": "nv-cidrpool"}
_OTHER_FAMILY = {"nv-ippool": "nv-cidrpool", "nv-cidrpool": "nv-ippool"}
_KINDS = {"spider": "SpiderIPPool", "nv-ippool": "IPPool", "nv-cidrpool": "CIDRPool"}
_PLUGIN_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.]*)?[A-Za-z0-9]")
"""Names that the SR-IOV network device plugin accepts."""
_NAME_LIMIT = 63
WITHOUT_DEVICE = {"ovs", "macvlan", "ipvlan", "vlan", "ipoib"}
"""CNI types that do not move a device into the pod."""


def _index_pools(corpus: Corpus) -> dict[str, dict[str, Document]]:
    pools: dict[str, dict[str, Document]] = {family: {} for family in _KINDS}
    for kind, family in _POOL_KINDS.items():
        for doc in corpus.select(kind):
            if doc.group != "whereabouts.cni.cncf.io":
                pools[family][doc.name] = doc
    return pools


def check_pool_names(corpus: Corpus) -> Iterator[Breach]:
    """Find references to pools that the input does not define, and pools without references."""
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
            message = f"no {_KINDS[use.family]} {use.name!r} is in the input{suggest(use.name, known[use.family])}"
            yield Breach("pool-not-defined", use.tree, use.path, message)
    yield from _report_unused(known, uses)


def _matches_any(pattern: str, names: Iterable[str]) -> bool:
    if pattern in names:
        return True
    return any(char in pattern for char in "*?[") and any(fnmatchcase(name, pattern) for name in names)


def _report_unused(known: dict[str, dict[str, Document]], uses: list[PoolUse]) -> Iterator[Breach]:
    for family, docs in known.items():
        patterns = {use.name for use in uses if use.family == family}
        wildcards = [pattern for pattern in patterns if any(char in pattern for char in "*?[")]
        for name, doc in docs.items() if patterns else ():
            used = name in patterns or any(fnmatchcase(name, pattern) for pattern in wildcards)
            if doc.get("spec", "default") is not True and not used:
                message = f"no network of the input takes addresses from {doc.title}"
                yield Breach("pool-not-used", doc.tree, ("metadata", "name"), message)


def check_network_names(corpus: Corpus) -> Iterator[Breach]:
    """Find networks of pods that the input does not define."""
    namespaces = {network.name: network.namespace for network in reversed(corpus.networks)}
    for pod in corpus.pods:
        for request in pod.networks if corpus.networks else ():
            namespace = request.namespace or pod.namespace
            if (namespace, request.name) in corpus.networks_by_name:
                continue
            if request.name in namespaces:
                message = f"network {request.name!r} is in namespace {namespaces[request.name]!r}, not in {namespace!r}"
                yield Breach("network-in-other-namespace", request.tree, request.path, message)
            else:
                hint = suggest(request.name, (name for name, other in namespaces.items() if other == namespace))
                message = f"no network {namespace}/{request.name} is in the input{hint}"
                yield Breach("network-not-found", request.tree, request.path, message)


def check_resource_names(corpus: Corpus) -> Iterator[Breach]:
    """Find resource names that device plugins reject."""
    for offer in corpus.offers:
        if offer.plugin != "rdma":
            yield from _check_name(offer.name, Breach("resource-name-invalid", offer.tree, offer.path, ""))
    for network in corpus.networks:
        if network.doc.kind == "HostDeviceNetwork" and network.resource:
            bare = network.resource.name.rpartition("/")[2]
            yield from _check_name(bare, Breach("resource-name-invalid", network.doc.tree, network.resource.path, ""))


def _check_name(name: str, breach: Breach) -> Iterator[Breach]:
    if not _PLUGIN_NAME.fullmatch(name):
        hint = f"; write {name.replace('-', '_')!r}" if _PLUGIN_NAME.fullmatch(name.replace("-", "_")) else ""
        yield breach._replace(message=f"the SR-IOV device plugin does not accept the name {name!r}{hint}")
    elif len(name) > _NAME_LIMIT:
        yield breach._replace(message=f"the name {name!r} is {len(name)} characters long; the limit is {_NAME_LIMIT}")


def check_resources_advertised(corpus: Corpus) -> Iterator[Breach]:
    """Find requests for resources that no device plugin of the input advertises."""
    device = _index_by_name(offer for offer in corpus.offers if offer.plugin != "rdma")
    shared = _index_by_name(offer for offer in corpus.offers if offer.plugin == "rdma")
    reported: set[str] = set()
    for network in corpus.networks:
        if network.resource and network.type not in WITHOUT_DEVICE and device:
            template = Breach("", network.doc.tree, network.resource.path, "")
            for breach in _check_advertised(network.resource.name, device, template):
                reported.add(network.resource.name)
                yield breach
    extended = {doc.get_text("spec", "extendedResourceName") for doc in corpus.select("DeviceClass")}
    for pod in corpus.pods:
        for request in pod.list_nics():
            known = shared if request.name.startswith("rdma/") else device
            if known and request.name not in reported | extended:
                yield from _check_advertised(request.name, known, Breach("", pod.doc.tree, request.path, "", key=True))


def _index_by_name(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    by_name: dict[str, list[Offer]] = {}
    for offer in offers:
        by_name.setdefault(offer.name, []).append(offer)
    return by_name


def _check_advertised(name: str, known: dict[str, list[Offer]], breach: Breach) -> Iterator[Breach]:
    prefix, _, bare = name.rpartition("/")
    matches = known.get(bare, [])
    if not matches:
        message = f"nothing in the input advertises resource {name!r}{suggest(bare, known)}"
        yield breach._replace(rule="resource-not-offered", message=message)
    elif prefix and all(prefix not in offer.prefixes for offer in matches):
        right = " or ".join(dict.fromkeys(full for offer in matches for full in offer.names))
        yield breach._replace(rule="resource-prefix-differs", message=f"resource {name!r} is advertised as {right}")


def check_resources_requested(corpus: Corpus) -> Iterator[Breach]:
    """Find networks whose device a pod requests not at all or too few times."""
    for pod in corpus.pods:
        amounts = {request.name: request.amount for request in pod.resources}
        for name, uses in _collect_needs(corpus, pod).items():
            network, first = uses[0]
            keys = [key for key in amounts if key == name or ("/" not in name and key.rpartition("/")[2] == name)]
            if not keys:
                message = (
                    f"{network.doc.title} needs resource {name!r}, which no container asks for{suggest(name, amounts)}"
                )
                yield Breach("network-resource-not-requested", first.tree, first.path, message)
            elif isinstance(count := amounts[keys[0]], int) and count < len(uses):
                message = f"{len(uses)} networks take one {keys[0]!r} each, but the pod asks for {count}"
                yield Breach("resource-count", first.tree, first.path, message)


def _collect_needs(corpus: Corpus, pod: PodTemplate) -> dict[str, list[tuple[Network, NetworkRequest]]]:
    """Return, by resource, the networks that need a device and their requests; a repeated request is listed twice."""
    needs: dict[str, list[tuple[Network, NetworkRequest]]] = {}
    for request in pod.networks:
        network = corpus.networks_by_name.get((request.namespace or pod.namespace, request.name))
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
