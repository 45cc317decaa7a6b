"""Exclusions of nv-ipam's pools: what its controller accepts and its node daemon does not."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS
from trackbed.lint.addresses import Span, address, within
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.rules.nvipam import whole_number
from trackbed.lint.rules.ranges import Pool, pools
from trackbed.lint.tree import mappings

_Indexes = list[tuple[int, int, int]]
"""(entry, first, last) of perNodeExclusions."""


def exclusions(corpus: Corpus) -> Iterator[Hit]:
    """Exclusions outside the pool, or that overlap."""
    for pool in pools(corpus):
        if pool.doc.kind not in {"IPPool", "CIDRPool"}:
            continue
        seen: list[tuple[Span, int]] = []
        for number, entry in mappings(pool.doc.get("spec", "exclusions")):
            first, last = address(entry.get("startIP")), address(entry.get("endIP"))
            if not first or not last:
                continue
            found = Span(first[0], first[1], last[1])
            path: Path = ("spec", "exclusions", number)
            if first[0] != last[0] or first[1] > last[1] or not within(found, pool.range.range):
                message = f"{entry['startIP']} to {entry['endIP']} is no range inside {pool.range.range}"
                yield Hit("exclusion-outside", pool.doc.tree, path, message)
            else:
                seen.append((found, number))
        yield from _overlapping(pool.doc, sorted(seen))


def _overlapping(doc: Document, found: list[tuple[Span, int]]) -> Iterator[Hit]:
    """Exclusions in order, each against the one that reaches furthest."""
    furthest = found[0] if found else None
    for one, number in found[1:]:
        if furthest and one.overlaps(furthest[0]):
            message = f"{one} overlaps entry {furthest[1]}, {furthest[0]}"
            yield Hit("exclusions-overlap", doc.tree, ("spec", "exclusions", number), message)
        furthest = max(furthest or (one, number), (one, number), key=lambda entry: entry[0].last)


def node_exclusions(corpus: Corpus) -> Iterator[Hit]:
    """Exclusions by index in every node's share."""
    for pool in pools(corpus):
        doc = pool.doc
        count = _share(pool)
        if count is None:
            continue
        indexes = _indexes(doc)
        for number, first, last in indexes:
            if not first <= last < count:
                message = (
                    f"indexes {first} to {last} must lie between 0 and {count - 1}, the addresses of a node's share"
                )
                yield Hit("node-exclusion-outside", doc.tree, ("spec", "perNodeExclusions", number), message)
        for position, (number, first, last) in enumerate(indexes):
            if any(first <= stop and start <= last for _, start, stop in indexes[:position]):
                message = f"indexes {first} to {last} overlap an earlier entry"
                yield Hit("exclusions-overlap", doc.tree, ("spec", "perNodeExclusions", number), message)
        if indexes and _nothing_left(pool, count, indexes):
            message = "the gateway and these exclusions leave no address for a pod"
            yield Hit("no-usable-address", doc.tree, ("spec", "perNodeExclusions"), message, key=True)


def _indexes(doc: Document) -> _Indexes:
    entries = mappings(doc.get("spec", "perNodeExclusions"))
    pairs = [(number, entry.get("startIndex"), entry.get("endIndex")) for number, entry in entries]
    return [(n, first, last) for n, first, last in pairs if type(first) is int and type(last) is int]


def _share(pool: Pool) -> int | None:
    """Addresses of a node's share."""
    if pool.doc.kind == "IPPool":
        return whole_number(pool.doc, "spec", "perNodeBlockSize")
    prefix = whole_number(pool.doc, "spec", "perNodeNetworkPrefix")
    bits = BITS[pool.range.range.version]
    return 1 << (bits - prefix) if prefix is not None and 0 <= prefix <= bits else None


def _nothing_left(pool: Pool, count: int, indexes: _Indexes) -> bool:
    if count > 1 << 16:
        return False
    out = {index for _, first, last in indexes for index in range(first, min(last, count - 1) + 1)}
    gateway = whole_number(pool.doc, "spec", "gatewayIndex") if pool.doc.kind == "CIDRPool" else None
    ends = {0, count - 1} if pool.doc.kind == "CIDRPool" and count > 2 else set()  # noqa: PLR2004 - /31 has no broadcast
    return len(out | ends | ({gateway} if gateway is not None else set())) >= count


CHECKS = (exclusions, node_exclusions)
