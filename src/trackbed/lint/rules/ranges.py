"""Rules for ranges, addresses, gateways and routes in address pools of every kind."""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS, Range, format_address
from trackbed.lint.addresses import (
    Cidr,
    Span,
    is_address_in,
    is_span_within,
    parse_cidr,
    parse_ip_address,
    parse_span,
    to_usable_span,
)
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach, Edit
from trackbed.lint.intervals import subtract_intervals
from trackbed.lint.tree import enumerate_mappings, enumerate_texts

SPIDER = ("SpiderIPPool", "SpiderSubnet")
"""Kinds of Spiderpool objects that hold addresses."""


class Pool(NamedTuple):
    """An address pool with a valid range, and the path of the range."""

    doc: Document
    range: Cidr
    path: Path


def find_pools(corpus: Corpus) -> list[Pool]:
    """Return the address pools of every kind that have a valid range."""
    pools = []
    for doc in corpus.select_kinds(*SPIDER, "IPPool", "CIDRPool"):
        path: Path = ("spec", "cidr" if doc.kind == "CIDRPool" else "subnet")
        if _is_known_pool(doc) and (whole := parse_cidr(doc.get(*path))):
            pools.append(Pool(doc, whole, path))
    return pools


def _drop_copies(pools: list[Pool]) -> list[Pool]:
    """Return one pool for each object; a second file with the same object is a duplicate, and no overlap."""
    objects = {(pool.doc.identity or number, pool.doc.folder): pool for number, pool in enumerate(pools)}
    return list(objects.values())


def _is_known_pool(doc: Document) -> bool:
    return doc.kind in SPIDER or doc.group == "nv-ipam.nvidia.com"  # whereabouts has a kind IPPool for its state


def check_syntax(corpus: Corpus) -> Iterator[Breach]:
    """Find texts that are not ranges or addresses, and ranges with host bits set."""
    for doc in corpus.select_kinds(*SPIDER, "IPPool", "CIDRPool"):
        if not _is_known_pool(doc):
            continue
        for path in _iter_range_paths(doc):
            text = doc.get(*path)
            whole = parse_cidr(text)
            if isinstance(text, str) and whole is None:
                yield Breach("not-an-address", doc.tree, path, f"{text!r} is not a range; write address/prefix length")
            elif whole and whole.has_host_bits:
                message = f"{text} has host bits set; the range of that length is {whole.range}"
                yield Breach("host-bits", doc.tree, path, message, edit=Edit(str(text), str(whole.range)))
        for path in _iter_address_paths(doc):
            text = doc.get(*path)
            if isinstance(text, str) and (
                parse_span(text) is None if path[-2] in {"ips", "excludeIPs"} else parse_ip_address(text) is None
            ):
                yield Breach(
                    "not-an-address", doc.tree, path, f"{text!r} is not an address" + _explain_invalid_address(text)
                )


def _explain_invalid_address(text: str) -> str:
    head, dash, tail = text.partition("-")
    ends = parse_ip_address(head), parse_ip_address(tail)
    if dash and None in ends:
        return f", because of {(tail if ends[0] else head).strip()!r}"
    return " range: it ends before it starts" if dash else ""


def _iter_range_paths(doc: Document) -> Iterator[Path]:
    yield ("spec", "cidr" if doc.kind == "CIDRPool" else "subnet")
    for number, _ in enumerate_mappings(doc.get("spec", "routes")):
        yield ("spec", "routes", number, "dst")
    for number, _ in enumerate_mappings(doc.get("spec", "staticAllocations")):
        yield ("spec", "staticAllocations", number, "prefix")


def _iter_address_paths(doc: Document) -> Iterator[Path]:
    yield ("spec", "gateway")
    for field in ("ips", "excludeIPs"):
        for number, _ in enumerate_texts(doc.get("spec", field)):
            yield ("spec", field, number)
    for number, _ in enumerate_mappings(doc.get("spec", "routes")):
        yield ("spec", "routes", number, "gw")
    for number, _ in enumerate_mappings(doc.get("spec", "exclusions")):
        yield ("spec", "exclusions", number, "startIP")
        yield ("spec", "exclusions", number, "endIP")
    for number, _ in enumerate_mappings(doc.get("spec", "staticAllocations")):
        yield ("spec", "staticAllocations", number, "gateway")


def check_addresses(corpus: Corpus) -> Iterator[Breach]:
    """Find addresses outside their subnet, and spans that include a network or broadcast address."""
    for pool in find_pools(corpus):
        for number, text in enumerate_texts(pool.doc.get("spec", "ips")) if pool.doc.kind in SPIDER else ():
            addresses = parse_span(text)
            path: Path = ("spec", "ips", number)
            usable = to_usable_span(pool.range.range)
            if addresses and not is_span_within(addresses, pool.range.range):
                last = format_address(usable.version, usable.last)
                message = f"{text} is not inside {pool.range.range}, whose last usable address is {last}"
                yield Breach("range-outside-subnet", pool.doc.tree, path, message)
            elif addresses and not (usable.first <= addresses.first and addresses.last <= usable.last):
                role = "broadcast" if addresses.last > usable.last else "network"
                message = f"{text} contains the {role} address of {pool.range.range}; usable is {usable}"
                yield Breach("broadcast-in-range", pool.doc.tree, path, message)


def check_gateways(corpus: Corpus) -> Iterator[Breach]:
    """Find gateways that are outside the subnet, or among the addresses that pods get."""
    for pool in find_pools(corpus):
        gateway = parse_ip_address(pool.doc.get("spec", "gateway"))
        if gateway is None:
            continue
        if not is_address_in(gateway, pool.range.range):
            message = f"gateway {format_address(*gateway)} is not inside {pool.range.range}, so no pod can reach it"
            yield Breach("gateway-outside-subnet", pool.doc.tree, ("spec", "gateway"), message)
        for addresses in _list_assignable_spans(pool.doc):
            if addresses.version == gateway[0] and addresses.first <= gateway[1] <= addresses.last:
                message = f"gateway {format_address(*gateway)} is among the addresses {addresses} that pods get"
                yield Breach("gateway-handed-out", pool.doc.tree, ("spec", "gateway"), message)


def _list_assignable_spans(doc: Document) -> list[Span]:
    """Return the addresses that a SpiderIPPool assigns to pods: `ips` without `excludeIPs`."""
    if doc.kind not in SPIDER:
        return []
    spans, exclusions = (
        [span for _, text in enumerate_texts(doc.get("spec", field)) if (span := parse_span(text))]
        for field in ("ips", "excludeIPs")
    )
    assignable = []
    for version in BITS:
        ranges, excluded = (
            [(span.first, span.last) for span in group if span.version == version] for group in (spans, exclusions)
        )
        assignable += [Span(version, first, last) for first, last in subtract_intervals(ranges, excluded)]
    return assignable


def check_overlaps(corpus: Corpus) -> Iterator[Breach]:
    """Find pools of one folder that assign the same addresses. Other folders may hold another cluster."""
    folders: dict[str, list[Pool]] = {}
    for pool in _drop_copies(find_pools(corpus)):
        folders.setdefault(pool.doc.folder, []).append(pool)
    for pools in folders.values():
        yield from _check_overlaps_in(pools)


def _check_overlaps_in(pools: list[Pool]) -> Iterator[Breach]:
    """Yield overlaps. CIDR ranges are nested or disjoint, so a stack of the enclosing ranges finds each."""
    groups: dict[Range, list[Pool]] = {}
    for pool in pools:
        if pool.doc.kind != "SpiderSubnet":
            groups.setdefault(pool.range.range, []).append(pool)
    enclosing: list[Range] = []
    for whole in sorted(groups):
        while enclosing and not enclosing[-1].overlaps(whole):
            enclosing.pop()
        group = groups[whole]
        for pool in group if enclosing else ():
            yield from _iter_overlaps(groups[enclosing[-1]][0], pool)
        others = [pool for pool in group if pool.doc.kind not in SPIDER]
        spiders = [pool for pool in group if pool.doc.kind in SPIDER]
        for earlier, later in pairwise(others + spiders[:1]):
            yield from _iter_overlaps(earlier, later)
        yield from _check_shared_subnet(spiders)
        enclosing.append(whole)


def _iter_overlaps(earlier: Pool, later: Pool) -> Iterator[Breach]:
    # Two nv-ipam pools with exclusions are assumed to have disjoint addresses left, which are not computed.
    if not (earlier.doc.get("spec", "exclusions") and later.doc.get("spec", "exclusions")):
        message = f"{later.range.range} overlaps {earlier.range.range} of {_describe_pool(earlier)}"
        yield Breach("pools-overlap", later.doc.tree, later.path, message)


def _describe_pool(pool: Pool) -> str:
    place = pool.doc.tree.find_place(pool.path)
    return f"{pool.doc.title} ({place.file}:{place.line})"


def _check_shared_subnet(pools: list[Pool]) -> Iterator[Breach]:
    """Yield Spiderpool pools of one subnet that share addresses."""
    furthest: tuple[Span, int] | None = None
    for span, number in sorted(
        (span, number) for number, pool in enumerate(pools) for span in _list_assignable_spans(pool.doc)
    ):
        if furthest and furthest[0].overlaps(span) and furthest[1] != number:
            message = (
                f"{span} overlaps {furthest[0]} of {_describe_pool(pools[furthest[1]])}, a pool of the same subnet"
            )
            yield Breach("addresses-overlap", pools[number].doc.tree, ("spec", "ips"), message, key=True)
        if furthest is None or span.last > furthest[0].last:
            furthest = (span, number)


def check_routes(corpus: Corpus) -> Iterator[Breach]:
    """Find routes in pools that are rejected or redundant."""
    for pool in find_pools(corpus):
        known: list[tuple[int, Cidr, object]] = []
        for number, route in enumerate_mappings(pool.doc.get("spec", "routes")):
            dst, path = parse_cidr(route.get("dst")), ("spec", "routes", number)
            if dst is None:
                continue
            yield from _check_route(pool, dst, path)
            known.append((number, dst, route.get("gw")))
        yield from _iter_redundant_routes(pool, known)


def _check_route(pool: Pool, dst: Cidr, path: Path) -> Iterator[Breach]:
    spider = pool.doc.kind in SPIDER
    gateway = parse_ip_address(pool.doc.get(*path, "gw"))
    if dst.range.prefix == 0 and (spider or pool.doc.get("spec", "defaultGateway") is True):
        field = "gateway" if spider else "defaultGateway"
        yield Breach("default-route-in-routes", pool.doc.tree, (*path, "dst"), f"{dst.range} belongs in {field}")
    if dst.range.version != pool.range.range.version:
        message = f"{dst.range} is of another IP version than {pool.range.range}"
        yield Breach("ip-version-differs", pool.doc.tree, (*path, "dst"), message)
    if spider and gateway and not is_address_in(gateway, pool.range.range):
        message = f"{format_address(*gateway)} is not inside {pool.range.range}, so the route cannot be added"
        yield Breach("route-gateway-outside", pool.doc.tree, (*path, "gw"), message)


def _iter_redundant_routes(pool: Pool, routes: list[tuple[int, Cidr, object]]) -> Iterator[Breach]:
    """Yield routes that repeat another or lie inside a shorter prefix with the same gateway."""
    numbers = {(dst.range, str(gateway)): number for number, dst, gateway in reversed(routes)}
    for number, dst, gateway in routes:
        version, base, length = dst.range
        for prefix in range(length, -1, -1):
            bits = BITS[version] - prefix
            outer = Range(version, base >> bits << bits, prefix)
            if numbers.get((outer, str(gateway)), number) != number:
                message = f"{dst.range} lies inside {outer}, which has the same gateway"
                yield Breach("route-redundant", pool.doc.tree, ("spec", "routes", number, "dst"), message)
                break


def check_versions(corpus: Corpus) -> Iterator[Breach]:
    """Find pools whose ipVersion differs from the IP version of their subnet."""
    for pool in find_pools(corpus):
        version = pool.doc.get("spec", "ipVersion")
        if isinstance(version, int) and version in {4, 6} and version != pool.range.range.version:
            message = f"ipVersion is {version}, but {pool.range.range} is IPv{pool.range.range.version}"
            yield Breach("ip-version-differs", pool.doc.tree, ("spec", "ipVersion"), message)


CHECKS = (check_syntax, check_addresses, check_gateways, check_overlaps, check_routes, check_versions)
