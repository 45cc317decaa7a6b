"""Ranges, gateways and routes of every kind of pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.lint.addresses import Cidr, Span, address, cidr, is_in, span, usable, within, written
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Edit, Hit
from trackbed.lint.tree import mappings, texts

SPIDER = ("SpiderIPPool", "SpiderSubnet")
"""Kinds of Spiderpool that hold addresses."""


class Pool(NamedTuple):
    """A pool with a range that can be read."""

    doc: Document
    range: Cidr
    path: Path


def pools(corpus: Corpus) -> list[Pool]:
    """Pools of every kind, those left out whose range cannot be read."""
    found = []
    for doc in corpus.of(*SPIDER, "IPPool", "CIDRPool"):
        path: Path = ("spec", "cidr" if doc.kind == "CIDRPool" else "subnet")
        read = cidr(doc.get(*path)) if _ours(doc) else None
        if read:
            found.append(Pool(doc, read, path))
    return found


def _ours(doc: Document) -> bool:
    return doc.kind in SPIDER or doc.group == "nv-ipam.nvidia.com"  # whereabouts has an IPPool too, written by itself


def readable(corpus: Corpus) -> Iterator[Hit]:
    """Text that is no range, and ranges with host bits."""
    for doc in corpus.of(*SPIDER, "IPPool", "CIDRPool"):
        if not _ours(doc):
            continue
        for path in _range_paths(doc):
            text = doc.get(*path)
            found = cidr(text)
            if isinstance(text, str) and found is None:
                yield Hit("not-an-address", doc.tree, path, f"{text!r} is no range; write address/prefix length")
            elif found and not found.sound:
                message = f"{text} has host bits set; the range of that length is {found.range}"
                yield Hit("host-bits", doc.tree, path, message, edit=Edit(str(text), str(found.range)))
        for path in _address_paths(doc):
            text = doc.get(*path)
            if isinstance(text, str) and (
                span(text) is None if path[-2] in {"ips", "excludeIPs"} else address(text) is None
            ):
                yield Hit("not-an-address", doc.tree, path, f"{text!r} is no address" + _backwards(text))


def _backwards(text: str) -> str:
    head, dash, tail = text.partition("-")
    ends = address(head), address(tail)
    if dash and None in ends:
        return f", because of {(tail if ends[0] else head).strip()!r}"
    return " range: it ends before it starts" if dash else ""


def _range_paths(doc: Document) -> Iterator[Path]:
    yield ("spec", "cidr" if doc.kind == "CIDRPool" else "subnet")
    for number, _ in mappings(doc.get("spec", "routes")):
        yield ("spec", "routes", number, "dst")
    for number, _ in mappings(doc.get("spec", "staticAllocations")):
        yield ("spec", "staticAllocations", number, "prefix")


def _address_paths(doc: Document) -> Iterator[Path]:
    yield ("spec", "gateway")
    for field in ("ips", "excludeIPs"):
        for number, _ in texts(doc.get("spec", field)):
            yield ("spec", field, number)
    for number, _ in mappings(doc.get("spec", "routes")):
        yield ("spec", "routes", number, "gw")
    for number, _ in mappings(doc.get("spec", "exclusions")):
        yield ("spec", "exclusions", number, "startIP")
        yield ("spec", "exclusions", number, "endIP")
    for number, _ in mappings(doc.get("spec", "staticAllocations")):
        yield ("spec", "staticAllocations", number, "gateway")


def inside(corpus: Corpus) -> Iterator[Hit]:
    """Addresses outside their subnet, or that no host can have."""
    for pool in pools(corpus):
        for number, text in texts(pool.doc.get("spec", "ips")) if pool.doc.kind in SPIDER else ():
            found = span(text)
            path: Path = ("spec", "ips", number)
            whole = usable(pool.range.range)
            if found and not within(found, pool.range.range):
                message = f"{text} is not inside {pool.range.range}, whose last usable address is {_last(whole)}"
                yield Hit("range-outside-subnet", pool.doc.tree, path, message)
            elif found and not (whole.first <= found.first and found.last <= whole.last):
                which = "broadcast" if found.last > whole.last else "network"
                message = f"{text} holds the {which} address of {pool.range.range}; usable is {whole}"
                yield Hit("broadcast-in-range", pool.doc.tree, path, message)


def _last(whole: Span) -> str:
    return written((whole.version, whole.last))


def gateways(corpus: Corpus) -> Iterator[Hit]:
    """Gateways outside the subnet, or among the addresses that pods get."""
    for pool in pools(corpus):
        gateway = address(pool.doc.get("spec", "gateway"))
        if gateway is None:
            continue
        if not is_in(gateway, pool.range.range):
            message = f"gateway {written(gateway)} is not inside {pool.range.range}, so no pod can reach it"
            yield Hit("gateway-outside-subnet", pool.doc.tree, ("spec", "gateway"), message)
        for given in given_out(pool.doc):
            if given.version == gateway[0] and given.first <= gateway[1] <= given.last:
                message = f"gateway {written(gateway)} is among the addresses {given} that pods get"
                yield Hit("gateway-handed-out", pool.doc.tree, ("spec", "gateway"), message)


def given_out(doc: Document) -> list[Span]:
    """The addresses of a SpiderIPPool that pods can get: ips without excludeIPs."""
    left = [found for _, text in texts(doc.get("spec", "ips")) if (found := span(text))] if doc.kind in SPIDER else []
    for _, text in texts(doc.get("spec", "excludeIPs")):
        out = span(text)
        left = [part for one in left for part in (_without(one, out) if out else [one])]
    return left


def _without(one: Span, out: Span) -> list[Span]:
    if not one.overlaps(out):
        return [one]
    parts = [Span(one.version, one.first, out.first - 1), Span(one.version, out.last + 1, one.last)]
    return [part for part in parts if part.first <= part.last]


CHECKS = (readable, inside, gateways)
