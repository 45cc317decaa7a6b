"""Rules of overlapping pools, routes and IP versions."""

from collections.abc import Iterator
from itertools import pairwise

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS, Range
from trackbed.lint.addresses import Cidr, Span, is_in, read_address, read_cidr, render_address
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Breach
from trackbed.lint.rules.ranges import SPIDER, Pool, find_pools, list_assignable
from trackbed.lint.tree import list_mappings


def check_overlaps(corpus: Corpus) -> Iterator[Breach]:
    """Find pools that assign the same addresses.

    CIDR ranges are nested or disjoint, so a stack of the enclosing ranges finds every overlap.
    """
    groups: dict[Range, list[Pool]] = {}
    for pool in find_pools(corpus):
        if pool.doc.kind != "SpiderSubnet":
            groups.setdefault(pool.range.range, []).append(pool)
    enclosing: list[Range] = []
    for whole in sorted(groups):
        while enclosing and not enclosing[-1].overlaps(whole):
            enclosing.pop()
        group = groups[whole]
        for pool in group if enclosing else ():
            yield from _report_overlap(groups[enclosing[-1]][0], pool)
        others = [pool for pool in group if pool.doc.kind not in SPIDER]
        spiders = [pool for pool in group if pool.doc.kind in SPIDER]
        for earlier, later in pairwise(others + spiders[:1]):
            yield from _report_overlap(earlier, later)
        yield from _check_shared_subnet(spiders)
        enclosing.append(whole)


def _report_overlap(earlier: Pool, later: Pool) -> Iterator[Breach]:
    if not _have_exclusions(earlier.doc, later.doc):
        message = f"{later.range.range} overlaps {earlier.range.range} of {_locate_pool(earlier)}"
        yield Breach("pools-overlap", later.doc.tree, later.path, message)


def _locate_pool(pool: Pool) -> str:
    place = pool.doc.tree.find_place(pool.path)
    return f"{pool.doc.title} ({place.file}:{place.line})"


def _check_shared_subnet(pools: list[Pool]) -> Iterator[Breach]:
    """Report overlaps of Spiderpool's pools of one subnet; each span is compared with the one before that ends last."""
    furthest: tuple[Span, int] | None = None
    for span, number in sorted(
        (span, number) for number, pool in enumerate(pools) for span in list_assignable(pool.doc)
    ):
        if furthest and furthest[0].overlaps(span) and furthest[1] != number:
            message = f"{span} overlaps {furthest[0]} of {_locate_pool(pools[furthest[1]])}, a pool of the same subnet"
            yield Breach("addresses-overlap", pools[number].doc.tree, ("spec", "ips"), message, key=True)
        if furthest is None or span.last > furthest[0].last:
            furthest = (span, number)


def _have_exclusions(first: Document, second: Document) -> bool:
    """Return whether both pools of nv-ipam have exclusions; which addresses these leave is not computed."""
    return bool(first.get("spec", "exclusions") and second.get("spec", "exclusions"))


def check_routes(corpus: Corpus) -> Iterator[Breach]:
    """Find routes that are rejected or redundant."""
    for pool in find_pools(corpus):
        known: list[tuple[int, Cidr, object]] = []
        for number, route in list_mappings(pool.doc.get("spec", "routes")):
            dst, path = read_cidr(route.get("dst")), ("spec", "routes", number)
            if dst is None:
                continue
            yield from _check_route(pool, dst, path)
            known.append((number, dst, route.get("gw")))
        yield from _report_redundant(pool, known)


def _check_route(pool: Pool, dst: Cidr, path: Path) -> Iterator[Breach]:
    spider = pool.doc.kind in SPIDER
    gateway = read_address(pool.doc.get(*path, "gw"))
    if dst.range.prefix == 0 and (spider or pool.doc.get("spec", "defaultGateway") is True):
        field = "gateway" if spider else "defaultGateway"
        yield Breach("default-route-in-routes", pool.doc.tree, (*path, "dst"), f"{dst.range} belongs in {field}")
    if dst.range.version != pool.range.range.version:
        message = f"{dst.range} is of another IP version than {pool.range.range}"
        yield Breach("ip-version-differs", pool.doc.tree, (*path, "dst"), message)
    if spider and gateway and not is_in(gateway, pool.range.range):
        message = f"{render_address(gateway)} is not inside {pool.range.range}, so the route cannot be added"
        yield Breach("route-gateway-outside", pool.doc.tree, (*path, "gw"), message)


def _report_redundant(pool: Pool, known: list[tuple[int, Cidr, object]]) -> Iterator[Breach]:
    """Report routes that repeat another or lie inside a shorter prefix with the same gateway."""
    numbers = {(dst.range, str(gateway)): number for number, dst, gateway in reversed(known)}
    for number, dst, gateway in known:
        for prefix in range(dst.range.prefix, -1, -1):
            outer = _shorten_prefix(dst.range, prefix)
            if numbers.get((outer, str(gateway)), number) != number:
                message = f"{dst.range} lies inside {outer}, which has the same gateway"
                yield Breach("route-redundant", pool.doc.tree, ("spec", "routes", number, "dst"), message)
                break


def _shorten_prefix(address_range: Range, prefix: int) -> Range:
    bits = BITS[address_range.version] - prefix
    return Range(address_range.version, address_range.base >> bits << bits, prefix)


def check_versions(corpus: Corpus) -> Iterator[Breach]:
    """Find pools whose ipVersion is not the subnet's."""
    for pool in find_pools(corpus):
        version = pool.doc.get("spec", "ipVersion")
        if isinstance(version, int) and version in {4, 6} and version != pool.range.range.version:
            message = f"ipVersion is {version}, but {pool.range.range} is IPv{pool.range.range.version}"
            yield Breach("ip-version-differs", pool.doc.tree, ("spec", "ipVersion"), message)


CHECKS = (check_overlaps, check_routes, check_versions)
