"""Pools of nv-ipam: what its validation says, and what only its node daemon notices."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS, V4, Range
from trackbed.lint.addresses import address, cidr, is_in, span_of, usable, within
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.rules.ranges import Pool, pools
from trackbed.lint.tree import mappings


def cidr_pools(corpus: Corpus) -> list[tuple[Pool, int]]:
    """CIDRPools with the length of a node's prefix, those left out that have none."""
    found = []
    for pool in pools(corpus):
        prefix = pool.doc.get("spec", "perNodeNetworkPrefix")
        if pool.doc.kind == "CIDRPool" and type(prefix) is int:
            found.append((pool, prefix))
    return found


def whole_number(doc: Document, *path: str | int) -> int | None:
    """The number at `path`, None where there is none; true is no number."""
    value = doc.get(*path)
    return value if type(value) is int else None


def sizes(corpus: Corpus) -> Iterator[Hit]:
    """A node's share that does not fit the pool, and pools that do not fit the nodes."""
    for pool, prefix in cidr_pools(corpus):
        bits, whole = BITS[pool.range.range.version], pool.range.range
        path: Path = ("spec", "perNodeNetworkPrefix")
        if not whole.prefix <= prefix <= bits:
            message = f"a node's /{prefix} must lie between the pool's /{whole.prefix} and /{bits}"
            yield Hit("node-prefix-size", pool.doc.tree, path, message)
        elif corpus.nodes and 1 << (prefix - whole.prefix) < corpus.nodes:
            count = 1 << (prefix - whole.prefix)
            message = f"{whole} holds {count} ranges of /{prefix}, not one for each of {corpus.nodes} nodes"
            yield Hit("pool-too-small", pool.doc.tree, path, message)
    for pool in pools(corpus):
        size = whole_number(pool.doc, "spec", "perNodeBlockSize")
        if pool.doc.kind == "IPPool" and size is not None:
            yield from _block(corpus, pool, size)


def _block(corpus: Corpus, pool: Pool, size: int) -> Iterator[Hit]:
    whole = usable(pool.range.range)
    count = whole.last - whole.first + 1
    path: Path = ("spec", "perNodeBlockSize")
    if not 1 <= size <= count:
        message = f"a block of {size} must be between 1 and {count}, the usable addresses of {pool.range.range}"
        yield Hit("block-size", pool.doc.tree, path, message)
    elif corpus.nodes and count // size < corpus.nodes:
        message = f"{pool.range.range} holds {count // size} blocks of {size}, not one for each of {corpus.nodes} nodes"
        yield Hit("pool-too-small", pool.doc.tree, path, message)


def gateway_index(corpus: Corpus) -> Iterator[Hit]:
    """Gateways by index."""
    for pool, prefix in cidr_pools(corpus):
        index = whole_number(pool.doc, "spec", "gatewayIndex")
        bits = BITS[pool.range.range.version]
        if index is None or not pool.range.range.prefix <= prefix <= bits:
            continue
        path: Path = ("spec", "gatewayIndex")
        low = 0 if prefix >= bits - 1 else 1
        last = (1 << (bits - prefix)) - (2 if low and bits == BITS[V4] else 1)
        if not low <= index <= last:
            message = f"gatewayIndex {index} must be between {low} and {last} in a node's /{prefix}"
            yield Hit("gateway-index", pool.doc.tree, path, message)
        else:
            yield from _differs(pool, index)
            if prefix == bits - 1:
                yield Hit("one-pod-per-block", pool.doc.tree, path, f"a /{prefix} with a gateway leaves one address")


def _differs(pool: Pool, index: int) -> Iterator[Hit]:
    for number, entry in mappings(pool.doc.get("spec", "staticAllocations")):
        gateway, prefix = address(entry.get("gateway")), cidr(entry.get("prefix"))
        if gateway and prefix and is_in(gateway, prefix.range) and gateway[1] - prefix.range.base != index:
            there = gateway[1] - prefix.range.base
            message = (
                f"gatewayIndex is {index}, but entry {number} has its gateway at index {there}; "
                f"a node without an entry gets index {index} as gateway, which is the pod's own place"
            )
            yield Hit("gateway-index-differs", pool.doc.tree, ("spec", "gatewayIndex"), message)
            return


def no_gateway(corpus: Corpus) -> Iterator[Hit]:
    """Routes that have no gateway to go through."""
    for pool in pools(corpus):
        doc = pool.doc
        if (
            doc.kind not in {"IPPool", "CIDRPool"}
            or doc.get("spec", "gateway" if doc.kind == "IPPool" else "gatewayIndex") is not None
        ):
            continue
        static = mappings(doc.get("spec", "staticAllocations"))
        if static and all(entry.get("gateway") for _, entry in static):
            continue
        for field in ("routes", "defaultGateway"):
            if doc.get("spec", field):
                yield Hit(
                    "route-without-gateway",
                    doc.tree,
                    ("spec", field),
                    f"{field} needs a gateway, and the pool has none",
                    key=True,
                )


def static(corpus: Corpus) -> Iterator[Hit]:
    """Static allocations."""
    for pool, length in cidr_pools(corpus):
        nodes: dict[str, int] = {}
        prefixes: dict[Range, int] = {}
        for number, entry in mappings(pool.doc.get("spec", "staticAllocations")):
            path: Path = ("spec", "staticAllocations", number)
            name, prefix = entry.get("nodeName"), cidr(entry.get("prefix"))
            if isinstance(name, str) and name in nodes:
                message = f"node {name} has entry {nodes[name]} already"
                yield Hit("static-node-twice", pool.doc.tree, (*path, "nodeName"), message)
            if isinstance(name, str) and name:
                nodes.setdefault(name, number)
            if prefix:
                if prefix.range in prefixes:
                    message = f"{prefix.range} is the prefix of entry {prefixes[prefix.range]} already"
                    yield Hit("static-prefix-twice", pool.doc.tree, (*path, "prefix"), message)
                prefixes.setdefault(prefix.range, number)
                yield from _static(pool, length, path, prefix.range)


def _static(pool: Pool, length: int, path: Path, prefix: Range) -> Iterator[Hit]:
    if prefix.prefix != length:
        message = f"{prefix} is not a /{length}, which perNodeNetworkPrefix says"
        yield Hit("static-prefix-size", pool.doc.tree, (*path, "prefix"), message)
    if not within(span_of(prefix), pool.range.range):
        yield Hit(
            "static-prefix-outside", pool.doc.tree, (*path, "prefix"), f"{prefix} is not inside {pool.range.range}"
        )
    gateway = address(pool.doc.get(*path, "gateway"))
    if gateway and not is_in(gateway, prefix):
        message = f"gateway {pool.doc.get(*path, 'gateway')} is not inside {prefix}"
        yield Hit("static-gateway-outside", pool.doc.tree, (*path, "gateway"), message)


CHECKS = (sizes, gateway_index, no_gateway, static)
