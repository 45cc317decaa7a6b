"""Rules of nv-ipam's pools: those of its validation, and those that only its node daemon enforces."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS, V4, Range
from trackbed.lint.addresses import is_in, is_within, read_address, read_cidr, to_span, to_usable_span
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.rules.ranges import Pool, find_pools
from trackbed.lint.tree import list_mappings


def find_cidr_pools(corpus: Corpus) -> list[tuple[Pool, int]]:
    """Return the CIDRPools that have a perNodeNetworkPrefix, with that length."""
    cidrs = [pool for pool in find_pools(corpus) if pool.doc.kind == "CIDRPool"]
    prefixes = [(pool, get_whole_number(pool.doc, "spec", "perNodeNetworkPrefix")) for pool in cidrs]
    return [(pool, prefix) for pool, prefix in prefixes if prefix is not None]


def get_whole_number(doc: Document, *path: str | int) -> int | None:
    """Return the integer at `path`, or None; a boolean is not an integer."""
    value = doc.get(*path)
    return value if type(value) is int else None


def check_sizes(corpus: Corpus) -> Iterator[Breach]:
    """Find shares of a node that exceed the pool, and pools too small for the nodes."""
    for pool, prefix in find_cidr_pools(corpus):
        bits, whole = BITS[pool.range.range.version], pool.range.range
        path: Path = ("spec", "perNodeNetworkPrefix")
        if not whole.prefix <= prefix <= bits:
            message = f"a node's /{prefix} must lie between the pool's /{whole.prefix} and /{bits}"
            yield Breach("node-prefix-size", pool.doc.tree, path, message)
        elif corpus.nodes and 1 << (prefix - whole.prefix) < corpus.nodes:
            count = 1 << (prefix - whole.prefix)
            message = f"{whole} holds {count} ranges of /{prefix}, not one for each of {corpus.nodes} nodes"
            yield Breach("pool-too-small", pool.doc.tree, path, message)
    for pool in find_pools(corpus):
        size = get_whole_number(pool.doc, "spec", "perNodeBlockSize")
        if pool.doc.kind == "IPPool" and size is not None:
            yield from _check_block(corpus, pool, size)


def _check_block(corpus: Corpus, pool: Pool, size: int) -> Iterator[Breach]:
    whole = to_usable_span(pool.range.range)
    count = whole.last - whole.first + 1
    path: Path = ("spec", "perNodeBlockSize")
    if not 1 <= size <= count:
        message = f"a block of {size} must be between 1 and {count}, the usable addresses of {pool.range.range}"
        yield Breach("block-size", pool.doc.tree, path, message)
    elif corpus.nodes and count // size < corpus.nodes:
        message = f"{pool.range.range} holds {count // size} blocks of {size}, not one for each of {corpus.nodes} nodes"
        yield Breach("pool-too-small", pool.doc.tree, path, message)


def check_gateway_index(corpus: Corpus) -> Iterator[Breach]:
    """Find gateway indices outside a node's share, or that differ from static entries."""
    for pool, prefix in find_cidr_pools(corpus):
        index = get_whole_number(pool.doc, "spec", "gatewayIndex")
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
            yield from _check_static_gateways(pool, index)
            if prefix == bits - 1:
                yield Breach("one-pod-per-block", pool.doc.tree, path, f"a /{prefix} with a gateway leaves one address")


def _check_static_gateways(pool: Pool, index: int) -> Iterator[Breach]:
    for number, entry in list_mappings(pool.doc.get("spec", "staticAllocations")):
        gateway, prefix = read_address(entry.get("gateway")), read_cidr(entry.get("prefix"))
        if gateway and prefix and is_in(gateway, prefix.range) and gateway[1] - prefix.range.base != index:
            other = gateway[1] - prefix.range.base
            message = (
                f"gatewayIndex is {index}, but entry {number} has its gateway at index {other}; "
                f"a node without an entry gets index {index} as gateway, which is then the pod's address"
            )
            yield Breach("gateway-index-differs", pool.doc.tree, ("spec", "gatewayIndex"), message)
            return


def check_routes_without_gateway(corpus: Corpus) -> Iterator[Breach]:
    """Find routes of pools without a gateway."""
    for pool in find_pools(corpus):
        doc = pool.doc
        gateway = doc.get("spec", "gateway" if doc.kind == "IPPool" else "gatewayIndex")
        if doc.kind not in {"IPPool", "CIDRPool"} or gateway is not None:
            continue
        entries = list_mappings(doc.get("spec", "staticAllocations"))
        if entries and all(entry.get("gateway") for _, entry in entries):
            continue
        for field in ("routes", "defaultGateway"):
            if doc.get("spec", field):
                message = f"{field} needs a gateway, and the pool has none"
                yield Breach("route-without-gateway", doc.tree, ("spec", field), message, key=True)


def check_static_allocations(corpus: Corpus) -> Iterator[Breach]:
    """Find static allocations that repeat a node or prefix, or lie outside the pool."""
    for pool, length in find_cidr_pools(corpus):
        nodes: dict[str, int] = {}
        prefixes: dict[Range, int] = {}
        for number, entry in list_mappings(pool.doc.get("spec", "staticAllocations")):
            path: Path = ("spec", "staticAllocations", number)
            name, prefix = entry.get("nodeName"), read_cidr(entry.get("prefix"))
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


def _check_static_allocation(pool: Pool, length: int, path: Path, prefix: Range) -> Iterator[Breach]:
    if prefix.prefix != length:
        message = f"{prefix} is not a /{length}, the length in perNodeNetworkPrefix"
        yield Breach("static-prefix-size", pool.doc.tree, (*path, "prefix"), message)
    if not is_within(to_span(prefix), pool.range.range):
        yield Breach(
            "static-prefix-outside", pool.doc.tree, (*path, "prefix"), f"{prefix} is not inside {pool.range.range}"
        )
    gateway = read_address(pool.doc.get(*path, "gateway"))
    if gateway and not is_in(gateway, prefix):
        message = f"gateway {pool.doc.get(*path, 'gateway')} is not inside {prefix}"
        yield Breach("static-gateway-outside", pool.doc.tree, (*path, "gateway"), message)


CHECKS = (check_sizes, check_gateway_index, check_routes_without_gateway, check_static_allocations)
