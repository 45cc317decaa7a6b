"""Rules of exclusions in nv-ipam's pools that its controller accepts and its node daemon rejects."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS
from trackbed.lint.addresses import Span, is_within, read_address
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.rules.nvipam import get_whole_number
from trackbed.lint.rules.ranges import Pool, find_pools
from trackbed.lint.tree import list_mappings

_Indexes = list[tuple[int, int, int]]
"""(index of the entry, startIndex, endIndex) of perNodeExclusions."""


def check_exclusions(corpus: Corpus) -> Iterator[Breach]:
    """Find exclusions that lie outside the pool or overlap."""
    for pool in find_pools(corpus):
        if pool.doc.kind not in {"IPPool", "CIDRPool"}:
            continue
        spans: list[tuple[Span, int]] = []
        for number, entry in list_mappings(pool.doc.get("spec", "exclusions")):
            first, last = read_address(entry.get("startIP")), read_address(entry.get("endIP"))
            if not first or not last:
                continue
            span = Span(first[0], first[1], last[1])
            path: Path = ("spec", "exclusions", number)
            if first[0] != last[0] or first[1] > last[1] or not is_within(span, pool.range.range):
                message = f"{entry['startIP']} to {entry['endIP']} is not a range inside {pool.range.range}"
                yield Breach("exclusion-outside", pool.doc.tree, path, message)
            else:
                spans.append((span, number))
        yield from _report_overlaps(pool.doc, sorted(spans))


def _report_overlaps(doc: Document, spans: list[tuple[Span, int]]) -> Iterator[Breach]:
    """Report overlaps of sorted exclusions; each is compared with the exclusion before it that ends last."""
    furthest = spans[0] if spans else None
    for span, number in spans[1:]:
        if furthest and span.overlaps(furthest[0]):
            message = f"{span} overlaps entry {furthest[1]}, {furthest[0]}"
            yield Breach("exclusions-overlap", doc.tree, ("spec", "exclusions", number), message)
        furthest = max(furthest or (span, number), (span, number), key=lambda entry: entry[0].last)


def check_node_exclusions(corpus: Corpus) -> Iterator[Breach]:
    """Find exclusions by index that lie outside a node's share, overlap, or leave no address."""
    for pool in find_pools(corpus):
        doc = pool.doc
        count = _count_share(pool)
        if count is None:
            continue
        indexes = _read_indexes(doc)
        for number, first, last in indexes:
            if not first <= last < count:
                message = (
                    f"indexes {first} to {last} must lie between 0 and {count - 1}, the addresses of a node's share"
                )
                yield Breach("node-exclusion-outside", doc.tree, ("spec", "perNodeExclusions", number), message)
        for position, (number, first, last) in enumerate(indexes):
            if any(first <= stop and start <= last for _, start, stop in indexes[:position]):
                message = f"indexes {first} to {last} overlap an earlier entry"
                yield Breach("exclusions-overlap", doc.tree, ("spec", "perNodeExclusions", number), message)
        if indexes and _excludes_all(pool, count, indexes):
            message = "the gateway and these exclusions leave no address for a pod"
            yield Breach("no-usable-address", doc.tree, ("spec", "perNodeExclusions"), message, key=True)


def _read_indexes(doc: Document) -> _Indexes:
    entries = list_mappings(doc.get("spec", "perNodeExclusions"))
    pairs = [(number, entry.get("startIndex"), entry.get("endIndex")) for number, entry in entries]
    return [(n, first, last) for n, first, last in pairs if type(first) is int and type(last) is int]


def _count_share(pool: Pool) -> int | None:
    """Return the number of addresses of a node's share; None if unknown."""
    if pool.doc.kind == "IPPool":
        return get_whole_number(pool.doc, "spec", "perNodeBlockSize")
    prefix = get_whole_number(pool.doc, "spec", "perNodeNetworkPrefix")
    bits = BITS[pool.range.range.version]
    return 1 << (bits - prefix) if prefix is not None and 0 <= prefix <= bits else None


def _excludes_all(pool: Pool, count: int, indexes: _Indexes) -> bool:
    if count > 1 << 16:
        return False
    excluded = {index for _, first, last in indexes for index in range(first, min(last, count - 1) + 1)}
    gateway = get_whole_number(pool.doc, "spec", "gatewayIndex") if pool.doc.kind == "CIDRPool" else None
    ends = {0, count - 1} if pool.doc.kind == "CIDRPool" and count > 2 else set()  # noqa: PLR2004 - /31 has no broadcast
    return len(excluded | ends | ({gateway} if gateway is not None else set())) >= count


CHECKS = (check_exclusions, check_node_exclusions)
