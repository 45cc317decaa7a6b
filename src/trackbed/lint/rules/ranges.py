"""Rules of ranges, addresses and gateways in pools of every kind."""

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.addresses import (
    Cidr,
    Span,
    is_in,
    is_within,
    read_address,
    read_cidr,
    read_span,
    render_address,
    to_usable_span,
)
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.tree import list_mappings, list_texts

SPIDER = ("SpiderIPPool", "SpiderSubnet")
"""Kinds of Spiderpool that hold addresses."""


class Pool(NamedTuple):
    """A pool with a valid range."""

    doc: Document
    range: Cidr
    path: Path


def find_pools(corpus: Corpus) -> list[Pool]:
    """Return the pools of every kind that have a valid range."""
    pools = []
    for doc in corpus.select(*SPIDER, "IPPool", "CIDRPool"):
        path: Path = ("spec", "cidr" if doc.kind == "CIDRPool" else "subnet")
        if _is_known_pool(doc) and (whole := read_cidr(doc.get(*path))):
            pools.append(Pool(doc, whole, path))
    return pools


def _is_known_pool(doc: Document) -> bool:
    return doc.kind in SPIDER or doc.group == "nv-ipam.nvidia.com"  # whereabouts keeps its state in IPPools too


def check_syntax(corpus: Corpus) -> Iterator[Breach]:
    """Find texts that are not ranges or addresses, and ranges with host bits."""
    for doc in corpus.select(*SPIDER, "IPPool", "CIDRPool"):
        if not _is_known_pool(doc):
            continue
        for path in _list_range_paths(doc):
            text = doc.get(*path)
            whole = read_cidr(text)
            if isinstance(text, str) and whole is None:
                yield Breach("not-an-address", doc.tree, path, f"{text!r} is not a range; write address/prefix length")
            elif whole and whole.has_host_bits:
                message = f"{text} has host bits set; the range of that length is {whole.range}"
                yield Breach("host-bits", doc.tree, path, message, edit=Edit(str(text), str(whole.range)))
        for path in _list_address_paths(doc):
            text = doc.get(*path)
            if isinstance(text, str) and (
                read_span(text) is None if path[-2] in {"ips", "excludeIPs"} else read_address(text) is None
            ):
                yield Breach("not-an-address", doc.tree, path, f"{text!r} is not an address" + _explain_address(text))


def _explain_address(text: str) -> str:
    head, dash, tail = text.partition("-")
    ends = read_address(head), read_address(tail)
    if dash and None in ends:
        return f", because of {(tail if ends[0] else head).strip()!r}"
    return " range: it ends before it starts" if dash else ""


def _list_range_paths(doc: Document) -> Iterator[Path]:
    yield ("spec", "cidr" if doc.kind == "CIDRPool" else "subnet")
    for number, _ in list_mappings(doc.get("spec", "routes")):
        yield ("spec", "routes", number, "dst")
    for number, _ in list_mappings(doc.get("spec", "staticAllocations")):
        yield ("spec", "staticAllocations", number, "prefix")


def _list_address_paths(doc: Document) -> Iterator[Path]:
    yield ("spec", "gateway")
    for field in ("ips", "excludeIPs"):
        for number, _ in list_texts(doc.get("spec", field)):
            yield ("spec", field, number)
    for number, _ in list_mappings(doc.get("spec", "routes")):
        yield ("spec", "routes", number, "gw")
    for number, _ in list_mappings(doc.get("spec", "exclusions")):
        yield ("spec", "exclusions", number, "startIP")
        yield ("spec", "exclusions", number, "endIP")
    for number, _ in list_mappings(doc.get("spec", "staticAllocations")):
        yield ("spec", "staticAllocations", number, "gateway")


def check_addresses(corpus: Corpus) -> Iterator[Breach]:
    """Find addresses outside their subnet, and network and broadcast addresses."""
    for pool in find_pools(corpus):
        for number, text in list_texts(pool.doc.get("spec", "ips")) if pool.doc.kind in SPIDER else ():
            addresses = read_span(text)
            path: Path = ("spec", "ips", number)
            usable = to_usable_span(pool.range.range)
            if addresses and not is_within(addresses, pool.range.range):
                last = render_address((usable.version, usable.last))
                message = f"{text} is not inside {pool.range.range}, whose last usable address is {last}"
                yield Breach("range-outside-subnet", pool.doc.tree, path, message)
            elif addresses and not (usable.first <= addresses.first and addresses.last <= usable.last):
                role = "broadcast" if addresses.last > usable.last else "network"
                message = f"{text} contains the {role} address of {pool.range.range}; usable is {usable}"
                yield Breach("broadcast-in-range", pool.doc.tree, path, message)


def check_gateways(corpus: Corpus) -> Iterator[Breach]:
    """Find gateways outside the subnet, or among the addresses of pods."""
    for pool in find_pools(corpus):
        gateway = read_address(pool.doc.get("spec", "gateway"))
        if gateway is None:
            continue
        if not is_in(gateway, pool.range.range):
            message = f"gateway {render_address(gateway)} is not inside {pool.range.range}, so no pod can reach it"
            yield Breach("gateway-outside-subnet", pool.doc.tree, ("spec", "gateway"), message)
        for addresses in list_assignable(pool.doc):
            if addresses.version == gateway[0] and addresses.first <= gateway[1] <= addresses.last:
                message = f"gateway {render_address(gateway)} is among the addresses {addresses} that pods get"
                yield Breach("gateway-handed-out", pool.doc.tree, ("spec", "gateway"), message)


def list_assignable(doc: Document) -> list[Span]:
    """Return the addresses that a SpiderIPPool assigns to pods: ips without excludeIPs."""
    if doc.kind not in SPIDER:
        return []
    spans, exclusions = (
        [read_span(text) for _, text in list_texts(doc.get("spec", field))] for field in ("ips", "excludeIPs")
    )
    assignable = [addresses for addresses in spans if addresses]
    for exclusion in filter(None, exclusions):
        assignable = [part for addresses in assignable for part in _subtract(addresses, exclusion)]
    return assignable


def _subtract(addresses: Span, exclusion: Span) -> list[Span]:
    if not addresses.overlaps(exclusion):
        return [addresses]
    parts = [
        Span(addresses.version, addresses.first, exclusion.first - 1),
        Span(addresses.version, exclusion.last + 1, addresses.last),
    ]
    return [part for part in parts if part.first <= part.last]


CHECKS = (check_syntax, check_addresses, check_gateways)
