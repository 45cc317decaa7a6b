"""Rules for the pools of nv-ipam: those of its validation, and those that only its node daemon enforces.

The controller accepts exclusions that the node daemon rejects.
"""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS, V4, Range
from trackbed.lint.addresses import (
    Span,
    is_address_in,
    is_span_within,
    parse_cidr,
    parse_ip_address,
    to_span,
    to_usable_span,
)
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.intervals import find_overlaps, merge_intervals
from trackbed.lint.rules.ranges import Pool, find_pools
from trackbed.lint.tree import enumerate_mappings

_FEW_ADDRESSES_BITS = 2
"""Host bits of a block in which each address but one or two is a pod's."""
_ExcludedIndexes = dict[int, tuple[int, int]]
"""Number of an entry of perNodeExclusions -> its startIndex and endIndex."""


def _find_cidr_pools(corpus: Corpus) -> list[tuple[Pool, int]]:
    """Return the CIDRPools that have a perNodeNetworkPrefix, each with that prefix length."""
    cidrs = [pool for pool in find_pools(corpus) if pool.doc.kind == "CIDRPool"]
    prefixes = [(pool, _get_whole_number(pool.doc, "spec", "perNodeNetworkPrefix")) for pool in cidrs]
    return [(pool, prefix) for pool, prefix in prefixes if prefix is not None]


def _get_whole_number(doc: Document, *path: str | int) -> int | None:
    """Return the integer at `path`, or None; a boolean is not an integer."""
    value = doc.get(*path)
    return value if type(value) is int else None


def check_sizes(corpus: Corpus) -> Iterator[Breach]:
    """Find per-node blocks that are larger than the pool, and pools that are too small for the nodes."""
    for pool, prefix in _find_cidr_pools(corpus):
        bits, whole = BITS[pool.range.range.version], pool.range.range
        path: Path = ("spec", "perNodeNetworkPrefix")
        if not whole.prefix <= prefix <= bits:
            message = f"a node's /{prefix} must lie between the pool's /{whole.prefix} and /{bits}"
            yield Breach("node-prefix-size", pool.doc.tree, path, message)
        elif corpus.node_count and 1 << (prefix - whole.prefix) < corpus.node_count:
            count = 1 << (prefix - whole.prefix)
            message = f"{whole} holds {count} ranges of /{prefix}, not one for each of {corpus.node_count} nodes"
            yield Breach("pool-too-small", pool.doc.tree, path, message)
    for pool in find_pools(corpus):
        size = _get_whole_number(pool.doc, "spec", "perNodeBlockSize")
        if pool.doc.kind == "IPPool" and size is not None:
            yield from _check_block(corpus, pool, size)


def _check_block(corpus: Corpus, pool: Pool, block_size: int) -> Iterator[Breach]:
    whole = to_usable_span(pool.range.range)
    count = whole.last - whole.first + 1
    path: Path = ("spec", "perNodeBlockSize")
    if not 1 <= block_size <= count:
        message = f"a block of {block_size} must be between 1 and {count}, the usable addresses of {pool.range.range}"
        yield Breach("block-size", pool.doc.tree, path, message)
    elif corpus.node_count and count // block_size < corpus.node_count:
        message = (
            f"{pool.range.range} holds {count // block_size} blocks of {block_size}, "
            f"not one for each of {corpus.node_count} nodes"
        )
        yield Breach("pool-too-small", pool.doc.tree, path, message)


def check_gateway_index(corpus: Corpus) -> Iterator[Breach]:
    """Find gateway indices that are outside the block of a node, or differ from static entries."""
    for pool, prefix in _find_cidr_pools(corpus):
        index = _get_whole_number(pool.doc, "spec", "gatewayIndex")
        bits = BITS[pool.range.range.version]
        if index is None or not pool.range.range.prefix <= prefix <= bits:
            continue
        path: Path = ("spec", "gatewayIndex")
        low = 0 if prefix >= bits - 1 else 1
        last = (1 << (bits - prefix)) - (2 if low and bits == BITS[V4] else 1)
        if not low <= index <= last:
            message = f"gatewayIndex {index} must be between {low} and {last} in a node's /{prefix}"
            yield Breach("gateway-index", pool.doc.tree, path, message)
        else:
            if prefix >= bits - _FEW_ADDRESSES_BITS:
                yield from _check_static_gateways(pool, index)
            if prefix == bits - 1:
                yield Breach("one-pod-per-block", pool.doc.tree, path, f"a /{prefix} with a gateway leaves one address")


def _check_static_gateways(pool: Pool, gateway_index: int) -> Iterator[Breach]:
    for number, entry in enumerate_mappings(pool.doc.get("spec", "staticAllocations")):
        gateway, prefix = parse_ip_address(entry.get("gateway")), parse_cidr(entry.get("prefix"))
        if (
            gateway
            and prefix
            and is_address_in(gateway, prefix.range)
            and gateway[1] - prefix.range.base != gateway_index
        ):
            other = gateway[1] - prefix.range.base
            message = (
                f"gatewayIndex is {gateway_index}, but entry {number} has its gateway at index {other}; "
                f"a node without an entry gets index {gateway_index} as gateway, which is then the pod's address"
            )
            yield Breach("gateway-index-differs", pool.doc.tree, ("spec", "gatewayIndex"), message)
            return


def check_routes_without_gateway(corpus: Corpus) -> Iterator[Breach]:
    """Find routes in pools that have no gateway."""
    for pool in find_pools(corpus):
        doc = pool.doc
        gateway = doc.get("spec", "gateway" if doc.kind == "IPPool" else "gatewayIndex")
        if doc.kind not in {"IPPool", "CIDRPool"} or gateway is not None:
            continue
        entries = enumerate_mappings(doc.get("spec", "staticAllocations"))
        if entries and all(entry.get("gateway") for _, entry in entries):
            continue
        for field in ("routes", "defaultGateway"):
            if doc.get("spec", field):
                message = f"{field} needs a gateway, and the pool has none"
                yield Breach("route-without-gateway", doc.tree, ("spec", field), message, key=True)


def check_static_allocations(corpus: Corpus) -> Iterator[Breach]:
    """Find static allocations that repeat a node or prefix, or lie outside the pool."""
    for pool, length in _find_cidr_pools(corpus):
        nodes: dict[str, int] = {}
        prefixes: dict[Range, int] = {}
        for number, entry in enumerate_mappings(pool.doc.get("spec", "staticAllocations")):
            path: Path = ("spec", "staticAllocations", number)
            name, prefix = entry.get("nodeName"), parse_cidr(entry.get("prefix"))
            if isinstance(name, str) and name in nodes:
                message = f"node {name} has entry {nodes[name]} already"
                yield Breach("static-node-twice", pool.doc.tree, (*path, "nodeName"), message)
            if isinstance(name, str) and name:
                nodes.setdefault(name, number)
            if prefix:
                if prefix.range in prefixes:
                    message = f"{prefix.range} is the prefix of entry {prefixes[prefix.range]} already"
                    yield Breach("static-prefix-twice", pool.doc.tree, (*path, "prefix"), message)
                prefixes.setdefault(prefix.range, number)
                yield from _check_static_allocation(pool, length, path, prefix.range)


def _check_static_allocation(pool: Pool, prefix_length: int, path: Path, prefix: Range) -> Iterator[Breach]:
    if prefix.prefix != prefix_length:
        message = f"{prefix} is not a /{prefix_length}, the length in perNodeNetworkPrefix"
        yield Breach("static-prefix-size", pool.doc.tree, (*path, "prefix"), message)
    if not is_span_within(to_span(prefix), pool.range.range):
        yield Breach(
            "static-prefix-outside", pool.doc.tree, (*path, "prefix"), f"{prefix} is not inside {pool.range.range}"
        )
    gateway = parse_ip_address(pool.doc.get(*path, "gateway"))
    if gateway and not is_address_in(gateway, prefix):
        message = f"gateway {pool.doc.get(*path, 'gateway')} is not inside {prefix}"
        yield Breach("static-gateway-outside", pool.doc.tree, (*path, "gateway"), message)


def check_exclusions(corpus: Corpus) -> Iterator[Breach]:
    """Find exclusions by address that lie outside the pool or overlap."""
    for pool in find_pools(corpus):
        if pool.doc.kind not in {"IPPool", "CIDRPool"}:
            continue
        spans: dict[int, Span] = {}
        for number, entry in enumerate_mappings(pool.doc.get("spec", "exclusions")):
            first, last = parse_ip_address(entry.get("startIP")), parse_ip_address(entry.get("endIP"))
            if not first or not last:
                continue
            span = Span(first[0], first[1], last[1])
            path: Path = ("spec", "exclusions", number)
            if first[0] != last[0] or first[1] > last[1] or not is_span_within(span, pool.range.range):
                message = f"{entry['startIP']} to {entry['endIP']} is not a range inside {pool.range.range}"
                yield Breach("exclusion-outside", pool.doc.tree, path, message)
            else:
                spans[number] = span
        for number, other in find_overlaps({number: (span.first, span.last) for number, span in spans.items()}):
            message = f"{spans[number]} overlaps entry {other}, {spans[other]}"
            yield Breach("exclusions-overlap", pool.doc.tree, ("spec", "exclusions", number), message)


def check_node_exclusions(corpus: Corpus) -> Iterator[Breach]:
    """Find exclusions by index that lie outside the block of a node, overlap, or leave no address."""
    for pool in find_pools(corpus):
        doc = pool.doc
        count = _count_node_addresses(pool)
        if count is None:
            continue
        indexes = _read_indexes(doc)
        for number, (first, last) in indexes.items():
            if not first <= last < count:
                message = (
                    f"indexes {first} to {last} must lie between 0 and {count - 1}, the addresses of a node's block"
                )
                yield Breach("node-exclusion-outside", doc.tree, ("spec", "perNodeExclusions", number), message)
        for number, other in find_overlaps(indexes):
            first, last = indexes[number]
            message = f"indexes {first} to {last} overlap entry {other}"
            yield Breach("exclusions-overlap", doc.tree, ("spec", "perNodeExclusions", number), message)
        if indexes and _excludes_all_addresses(pool, count, indexes):
            message = "the gateway and these exclusions leave no address for a pod"
            yield Breach("no-usable-address", doc.tree, ("spec", "perNodeExclusions"), message, key=True)


def _read_indexes(doc: Document) -> _ExcludedIndexes:
    entries = enumerate_mappings(doc.get("spec", "perNodeExclusions"))
    pairs = [(number, entry.get("startIndex"), entry.get("endIndex")) for number, entry in entries]
    return {n: (first, last) for n, first, last in pairs if type(first) is int and type(last) is int}


def _count_node_addresses(pool: Pool) -> int | None:
    """Return the number of addresses in the block of a node; None if unknown."""
    if pool.doc.kind == "IPPool":
        return _get_whole_number(pool.doc, "spec", "perNodeBlockSize")
    prefix = _get_whole_number(pool.doc, "spec", "perNodeNetworkPrefix")
    bits = BITS[pool.range.range.version]
    return 1 << (bits - prefix) if prefix is not None and 0 <= prefix <= bits else None


def _excludes_all_addresses(pool: Pool, address_count: int, indexes: _ExcludedIndexes) -> bool:
    if address_count > 1 << 16:
        return False
    excluded = {
        index
        for first, last in merge_intervals(indexes.values())
        for index in range(max(first, 0), min(last, address_count - 1) + 1)
    }
    gateway = _get_whole_number(pool.doc, "spec", "gatewayIndex") if pool.doc.kind == "CIDRPool" else None
    ends = {0, address_count - 1} if pool.doc.kind == "CIDRPool" and address_count > 2 else set()  # noqa: PLR2004 - /31 has no broadcast
    return len(excluded | ends | ({gateway} if gateway is not None else set())) >= address_count


CHECKS = (
    check_sizes,
    check_gateway_index,
    check_routes_without_gateway,
    check_static_allocations,
    check_exclusions,
    check_node_exclusions,
)
