"""How a pod names its networks: the annotation, the interfaces, and what one pod may not have twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import NETWORKS
from trackbed.lint.finding import Hit
from trackbed.lint.pods import Pod
from trackbed.lint.tree import mappings

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_INTERFACE_BYTES = 15
"""IFNAMSIZ of linux/if.h less the terminating zero."""
_TAKEN = {"lo", "eth0"}
_INJECT = ("cni.spidernet.io/rdma-resource-inject", "cni.spidernet.io/network-resource-inject")
_DIGITS = re.compile(r"(\d+)")


def annotation(corpus: Corpus) -> Iterator[Hit]:
    """Text that Multus does not read as meant."""
    for pod in corpus.pods:
        path: Path = (*pod.path, "metadata", "annotations", NETWORKS)
        if pod.annotation and pod.annotation.tree is None:
            yield Hit("networks-annotation", pod.doc.tree, path, _why_not(pod), place=pod.annotation.place)
            continue
        if pod.annotation and pod.annotation.tree:
            for number, item in mappings(pod.annotation.tree.value):
                if not isinstance(item.get("name"), str) or not item["name"]:
                    message = f"network {number} has no name"
                    yield Hit("networks-annotation", pod.annotation.tree, (number,), message)
        for wanted in pod.networks:
            parts = (wanted.namespace, wanted.name) if wanted.namespace else (wanted.name,)
            if wanted.name and not all(_LABEL.fullmatch(part) for part in parts):
                said = "/".join(parts)
                message = f"{said!r} is no network name: lower-case letters, digits and '-', as namespace/name"
                yield Hit("networks-annotation", wanted.tree, wanted.path, message)


def _why_not(pod: Pod) -> str:
    text = pod.get("metadata", "annotations", NETWORKS)
    before = text.strip()[:1]
    if before not in {"[", "{"}:
        return "the comma form and JSON are mixed; Multus reads the whole text as JSON because it holds [, { or a quote"
    return f"this is not JSON: {pod.annotation.error if pod.annotation else ''}"


def interfaces(corpus: Corpus) -> Iterator[Hit]:
    """Names that the kernel does not take, or that are taken."""
    for pod in corpus.pods:
        seen = set(_TAKEN)
        for wanted in pod.networks:
            name = wanted.interface
            path = (*wanted.path[:-1], "interface") if wanted.path[-1:] == ("name",) else wanted.path
            if not name:
                continue
            if len(name.encode()) > _INTERFACE_BYTES or "/" in name or " " in name:
                message = f"{name!r} is no interface name: {_INTERFACE_BYTES} bytes at most, no slash and no space"
                yield Hit("interface-name", wanted.tree, path, message)
            elif name in seen:
                yield Hit("interface-name-taken", wanted.tree, path, f"interface {name!r} is there already")
            seen.add(name)


def order(corpus: Corpus) -> Iterator[Hit]:
    """Rails in the order of text: rail10 before rail2."""
    for pod in corpus.pods:
        names = [wanted.name for wanted in pod.networks]
        if len(names) > 1 and names == sorted(names) and names != sorted(names, key=_natural):
            wrong = next(n for n, (a, b) in enumerate(zip(names, sorted(names, key=_natural), strict=True)) if a != b)
            wanted = pod.networks[wrong]
            message = (
                f"{wanted.name!r} is interface net{wrong + 1}: the networks are in the order of text, not of rails"
            )
            yield Hit("network-order", wanted.tree, wanted.path, message)


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


def one_pool(corpus: Corpus) -> Iterator[Hit]:
    """Two networks of one pod on one pool of Spiderpool."""
    for pod in corpus.pods:
        seen: dict[str, str] = {}
        for wanted in pod.networks:
            network = corpus.places.get((wanted.namespace or pod.namespace, wanted.name))
            for use in network.pools if network else ():
                if use.family != "spider":
                    continue
                if use.name in seen:
                    message = f"{wanted.name!r} and {seen[use.name]!r} both take addresses from pool {use.name!r}"
                    yield Hit("one-pool-for-two-networks", wanted.tree, wanted.path, message)
                seen.setdefault(use.name, wanted.name)


def without_network(corpus: Corpus) -> Iterator[Hit]:
    """NICs that a pod asks for and that nothing attaches."""
    known = {network.resource.name.rpartition("/")[2] for network in corpus.networks if network.resource}
    known |= {offer.name for offer in corpus.offers if offer.plugin == "sriov"}
    for pod in corpus.pods:
        if NETWORKS in pod.annotations() or any(name in pod.annotations() for name in _INJECT):
            continue
        for asked in pod.nics():
            if asked.name.rpartition("/")[2] in known:
                message = f"the pod asks for {asked.name} but has no annotation {NETWORKS}"
                yield Hit("resource-without-network", pod.doc.tree, asked.path, message, key=True)


def injected(corpus: Corpus) -> Iterator[Hit]:
    """Spiderpool's injection beside an annotation of one's own, or without anything to inject."""
    groups = {value for doc in corpus.of("SpiderMultusConfig") for value in _groups(doc.get("metadata", "annotations"))}
    for pod in corpus.pods:
        for name in _INJECT:
            value = pod.annotations().get(name)
            path: Path = (*pod.path, "metadata", "annotations")
            if not isinstance(value, str):
                continue
            if NETWORKS in pod.annotations():
                message = f"{name} makes the webhook overwrite this annotation"
                yield Hit("inject-overwrites", pod.doc.tree, (*path, NETWORKS), message, key=True)
            if groups and (name, value) not in groups:
                message = f"no SpiderMultusConfig of the input has {name}: {json.dumps(value)}"
                yield Hit("inject-group-unknown", pod.doc.tree, (*path, name), message)


def _groups(annotations: object) -> Iterator[tuple[str, object]]:
    if isinstance(annotations, dict):
        yield from ((name, annotations[name]) for name in _INJECT if isinstance(annotations.get(name), str))


CHECKS = (annotation, interfaces, order, one_pool, without_network, injected)
