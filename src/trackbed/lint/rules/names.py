"""Names that must meet: pools, networks and resources that one object has and another one asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.networks import Network, PoolUse
from trackbed.lint.offers import Offer
from trackbed.lint.pods import Pod, Wanted
from trackbed.lint.schemas.check import meant

_POOL_KINDS = {"SpiderIPPool": "spider", "IPPool": "nv-ippool", "CIDRPool": "nv-cidrpool"}
_OTHER = {"nv-ippool": "nv-cidrpool", "nv-cidrpool": "nv-ippool"}
_WORDS = {"spider": "SpiderIPPool", "nv-ippool": "IPPool", "nv-cidrpool": "CIDRPool"}
_PLUGIN_NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.]*)?[A-Za-z0-9]")
"""What the SR-IOV network device plugin accepts."""
_NAME_LIMIT = 63
WITHOUT_DEVICE = {"ovs", "macvlan", "ipvlan", "vlan", "ipoib"}
"""CNI types whose resource, if any, is no device that the network is made of."""


def _pools(corpus: Corpus) -> dict[str, dict[str, Document]]:
    found: dict[str, dict[str, Document]] = {family: {} for family in _WORDS}
    for kind, family in _POOL_KINDS.items():
        for doc in corpus.of(kind):
            if doc.group != "whereabouts.cni.cncf.io":
                found[family][doc.name] = doc
    return found


def pool_names(corpus: Corpus) -> Iterator[Hit]:
    """Pools that are named and not there, or there and not named."""
    known = _pools(corpus)
    uses = [use for network in corpus.networks for use in network.pools]
    for use in uses:
        if _matches(use.name, known[use.family]):
            continue
        other = _OTHER.get(use.family, "")
        if use.name in known.get(other, {}):
            message = (
                f"pool {use.name!r} is a {_WORDS[other]}, but poolType says {_WORDS[use.family].lower()} (the default)"
            )
            yield Hit("pool-type-differs", use.tree, use.path, message)
        elif known[use.family]:
            message = f"no {_WORDS[use.family]} {use.name!r} is in the input{meant(use.name, known[use.family])}"
            yield Hit("pool-not-defined", use.tree, use.path, message)
    yield from _unused(known, uses)


def _matches(pattern: str, names: Iterable[str]) -> bool:
    if pattern in names:
        return True
    return any(char in pattern for char in "*?[") and any(fnmatchcase(name, pattern) for name in names)


def _unused(known: dict[str, dict[str, Document]], uses: list[PoolUse]) -> Iterator[Hit]:
    for family, docs in known.items():
        patterns = {use.name for use in uses if use.family == family}
        wild = [pattern for pattern in patterns if any(char in pattern for char in "*?[")]
        for name, doc in docs.items() if patterns else ():
            used = name in patterns or any(fnmatchcase(name, one) for one in wild)
            if doc.get("spec", "default") is not True and not used:
                message = f"no network of the input takes addresses from {doc.title}"
                yield Hit("pool-not-used", doc.tree, ("metadata", "name"), message)


def network_names(corpus: Corpus) -> Iterator[Hit]:
    """Networks that a pod names and that are not there."""
    homes = {network.name: network.namespace for network in reversed(corpus.networks)}
    for pod in corpus.pods:
        for wanted in pod.networks if corpus.networks else ():
            home = wanted.namespace or pod.namespace
            if (home, wanted.name) in corpus.places:
                continue
            if wanted.name in homes:
                message = f"network {wanted.name!r} is in namespace {homes[wanted.name]!r}, not in {home!r}"
                yield Hit("network-in-other-namespace", wanted.tree, wanted.path, message)
            else:
                hint = meant(wanted.name, (name for name, place in homes.items() if place == home))
                message = f"no network {home}/{wanted.name} is in the input{hint}"
                yield Hit("network-not-found", wanted.tree, wanted.path, message)


def resource_names(corpus: Corpus) -> Iterator[Hit]:
    """Names that no device plugin accepts."""
    for offer in corpus.offers:
        if offer.plugin != "rdma":
            yield from _valid(offer.name, Hit("resource-name-invalid", offer.tree, offer.path, ""))
    for network in corpus.networks:
        if network.doc.kind == "HostDeviceNetwork" and network.resource:
            bare = network.resource.name.rpartition("/")[2]
            yield from _valid(bare, Hit("resource-name-invalid", network.doc.tree, network.resource.path, ""))


def _valid(name: str, hit: Hit) -> Iterator[Hit]:
    if not _PLUGIN_NAME.fullmatch(name):
        hint = f"; write {name.replace('-', '_')!r}" if _PLUGIN_NAME.fullmatch(name.replace("-", "_")) else ""
        yield hit._replace(message=f"the SR-IOV device plugin does not accept the name {name!r}{hint}")
    elif len(name) > _NAME_LIMIT:
        yield hit._replace(message=f"the name {name!r} is {len(name)} characters long, {_NAME_LIMIT} is the most")


def resources_offered(corpus: Corpus) -> Iterator[Hit]:
    """Resources that are asked for and that no device plugin of the input advertises."""
    device = _by_name(offer for offer in corpus.offers if offer.plugin != "rdma")
    shared = _by_name(offer for offer in corpus.offers if offer.plugin == "rdma")
    told: set[str] = set()
    for network in corpus.networks:
        if network.resource and network.type not in WITHOUT_DEVICE and device:
            template = Hit("", network.doc.tree, network.resource.path, "")
            for hit in _offered(network.resource.name, device, template):
                told.add(network.resource.name)
                yield hit
    extended = {doc.text("spec", "extendedResourceName") for doc in corpus.of("DeviceClass")}
    for pod in corpus.pods:
        for asked in pod.nics():
            known = shared if asked.name.startswith("rdma/") else device
            if known and asked.name not in told | extended:
                yield from _offered(asked.name, known, Hit("", pod.doc.tree, asked.path, "", key=True))


def _by_name(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    found: dict[str, list[Offer]] = {}
    for offer in offers:
        found.setdefault(offer.name, []).append(offer)
    return found


def _offered(name: str, known: dict[str, list[Offer]], hit: Hit) -> Iterator[Hit]:
    prefix, _, bare = name.rpartition("/")
    same = known.get(bare, [])
    if not same:
        message = f"nothing in the input advertises resource {name!r}{meant(bare, known)}"
        yield hit._replace(rule="resource-not-offered", message=message)
    elif prefix and all(prefix not in offer.prefixes for offer in same):
        right = " or ".join(dict.fromkeys(full for offer in same for full in offer.names))
        yield hit._replace(rule="resource-prefix-differs", message=f"resource {name!r} is advertised as {right}")


def requested(corpus: Corpus) -> Iterator[Hit]:
    """Networks whose device a pod does not ask for, or not often enough."""
    for pod in corpus.pods:
        have = {asked.name: asked.amount for asked in pod.resources}
        for name, uses in _needs(corpus, pod).items():
            network, first = uses[0]
            found = [key for key in have if key == name or ("/" not in name and key.rpartition("/")[2] == name)]
            if not found:
                message = f"{network.doc.title} needs resource {name!r}, which no container asks for{meant(name, have)}"
                yield Hit("network-resource-not-requested", first.tree, first.path, message)
            elif isinstance(count := have[found[0]], int) and count < len(uses):
                message = f"{len(uses)} networks take one {found[0]!r} each, but the pod asks for {count}"
                yield Hit("resource-count", first.tree, first.path, message)


def _needs(corpus: Corpus, pod: Pod) -> dict[str, list[tuple[Network, Wanted]]]:
    """Resource -> the networks that take one, and where they are named; twice where one is named twice."""
    found: dict[str, list[tuple[Network, Wanted]]] = {}
    for wanted in pod.networks:
        network = corpus.places.get((wanted.namespace or pod.namespace, wanted.name))
        if network and network.resource and network.type not in WITHOUT_DEVICE:
            found.setdefault(network.resource.name, []).append((network, wanted))
    return found


CHECKS = (pool_names, network_names, resource_names, resources_offered, requested)
