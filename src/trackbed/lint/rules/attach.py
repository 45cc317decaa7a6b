"""Rules for the networks annotation of pods: syntax, interface names, and networks that exclude each other."""

import json
import re
from collections.abc import Iterator

from trackbed.lint.corpus import Corpus
from trackbed.lint.document import INJECT, NETWORKS
from trackbed.lint.finding import Breach
from trackbed.lint.offers import Offer
from trackbed.lint.pods import PodTemplate
from trackbed.lint.tree import enumerate_mappings

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_INTERFACE_BYTES = 15
"""Maximum length of an interface name: IFNAMSIZ of linux/if.h without the terminating NUL."""
_RESERVED = {"lo", "eth0"}
_DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
"""Annotation of Multus for a network in place of the cluster's own; it may take a device too."""
_MOST_DIGITS = 20
_DIGITS = re.compile(r"(\d+)")


def check_annotation(corpus: Corpus) -> Iterator[Breach]:
    """Find networks annotations that Multus rejects or reads in another way than intended."""
    for pod in corpus.pods:
        path = pod.locate("metadata", "annotations", NETWORKS)
        if pod.annotation and pod.annotation.tree is None:
            yield Breach(
                "networks-annotation", pod.doc.tree, path, _explain_invalid_json(pod), place=pod.annotation.place
            )
            continue
        if pod.annotation and pod.annotation.tree:
            for number, item in enumerate_mappings(pod.annotation.tree.value):
                if not isinstance(item.get("name"), str) or not item["name"]:
                    message = f"network {number} has no name"
                    yield Breach("networks-annotation", pod.annotation.tree, (number,), message)
        for request in pod.networks:
            parts = (request.namespace, request.name) if request.namespace else (request.name,)
            if request.name and not all(_LABEL.fullmatch(part) for part in parts):
                message = (
                    f"{'/'.join(parts)!r} is not a network name: lower-case letters, digits and '-', as namespace/name"
                )
                yield Breach("networks-annotation", request.tree, request.path, message)


def _explain_invalid_json(pod: PodTemplate) -> str:
    text = pod.get("metadata", "annotations", NETWORKS)
    first = text.strip()[:1]
    if first not in {"[", "{"}:
        return "the comma form and JSON are mixed; Multus reads the whole text as JSON because it holds [, { or a quote"
    return f"this is not JSON: {pod.annotation.error if pod.annotation else ''}"


def check_interface_names(corpus: Corpus) -> Iterator[Breach]:
    """Find interface names that the kernel rejects, or that the pod uses already."""
    for pod in corpus.pods:
        names = set(_RESERVED)
        for request in pod.networks:
            name = request.interface
            path = (*request.path[:-1], "interface") if request.path[-1:] == ("name",) else request.path
            if not name:
                continue
            if len(name.encode()) > _INTERFACE_BYTES or "/" in name or " " in name:
                message = f"{name!r} is not an interface name: {_INTERFACE_BYTES} bytes at most, no slash and no space"
                yield Breach("interface-name", request.tree, path, message)
            elif name in names:
                yield Breach("interface-name-taken", request.tree, path, f"interface {name!r} exists already")
            names.add(name)


def check_network_order(corpus: Corpus) -> Iterator[Breach]:
    """Find networks that are sorted as text, with rail10 before rail2."""
    for pod in corpus.pods:
        names = [request.name for request in pod.networks]
        if len(names) > 1 and names == sorted(names) and names != sorted(names, key=_build_natural_sort_key):
            position = next(
                n
                for n, (a, b) in enumerate(zip(names, sorted(names, key=_build_natural_sort_key), strict=True))
                if a != b
            )
            request = pod.networks[position]
            message = (
                f"{request.name!r} is interface net{position + 1}: the networks are in the order of text, not of rails"
            )
            yield Breach("network-order", request.tree, request.path, message)


def _build_natural_sort_key(name: str) -> list[tuple[int, str]]:
    parts = _DIGITS.split(name)
    return [(int(part), "") if part.isdecimal() and len(part) < _MOST_DIGITS else (-1, part) for part in parts]


def check_shared_pools(corpus: Corpus) -> Iterator[Breach]:
    """Find pods that request two networks with the same Spiderpool pool."""
    for pod in corpus.pods:
        networks: dict[str, str] = {}
        for request in pod.networks:
            network = corpus.find_network(pod, request)
            for use in network.pools if network else ():
                if use.family != "spider":
                    continue
                if use.name in networks:
                    message = f"{request.name!r} and {networks[use.name]!r} both take addresses from pool {use.name!r}"
                    yield Breach("one-pool-for-two-networks", request.tree, request.path, message)
                networks.setdefault(use.name, request.name)


def check_resources_without_network(corpus: Corpus) -> Iterator[Breach]:
    """Find pods that request NICs but have no networks annotation.

    A VF of vfio-pci needs none: a program opens it as it is, where no network says otherwise. Nor does a NIC of
    InfiniBand that a device plugin gives as it is: verbs need no address.
    """
    known = {network.resource.name.rpartition("/")[2] for network in corpus.networks if network.resource}
    offers = [offer for offer in corpus.offers if offer.plugin == "sriov"]
    known |= {offer.name for offer in offers if not _is_used_without_network(offer)}
    for pod in corpus.pods:
        if any(name in pod.get_annotations() for name in (NETWORKS, _DEFAULT_NETWORK, *INJECT)):
            continue
        for request in pod.list_nic_requests():
            if request.name.rpartition("/")[2] in known:
                message = f"the pod asks for {request.name} but has no annotation {NETWORKS}"
                yield Breach("resource-without-network", pod.doc.tree, request.path, message, key=True)


def _is_used_without_network(offer: Offer) -> bool:
    links = offer.tree.get(*offer.path[:-1], "selectors", "linkTypes")
    return bool(offer.doc.get("spec", "deviceType") == "vfio-pci" or links == ["infiniband"])


def check_injection(corpus: Corpus) -> Iterator[Breach]:
    """Find pods that have both Spiderpool's injection and a networks annotation, or name an unknown injection group."""
    groups = {
        (name, group)
        for doc in corpus.select_kinds("SpiderMultusConfig")
        for name, group in doc.get_mapping("metadata", "annotations").items()
        if name in INJECT and isinstance(group, str)
    }
    for pod in corpus.pods:
        for name in INJECT:
            group = pod.get_annotations().get(name)
            path = pod.locate("metadata", "annotations")
            if not isinstance(group, str):
                continue
            if NETWORKS in pod.get_annotations():
                message = f"{name} makes the webhook overwrite this annotation"
                yield Breach("inject-overwrites", pod.doc.tree, (*path, NETWORKS), message, key=True)
            if groups and (name, group) not in groups:
                message = f"no SpiderMultusConfig of the input has {name}: {json.dumps(group)}"
                yield Breach("inject-group-unknown", pod.doc.tree, (*path, name), message)


CHECKS = (
    check_annotation,
    check_interface_names,
    check_network_order,
    check_shared_pools,
    check_resources_without_network,
    check_injection,
)
