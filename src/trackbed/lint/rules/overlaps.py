"""Pools against each other, and the routes of a pool."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS, Range
from trackbed.lint.addresses import Cidr, Span, address, cidr, is_in, written
from trackbed.lint.corpus import Corpus
from trackbed.lint.document import Document
from trackbed.lint.finding import Hit
from trackbed.lint.rules.ranges import SPIDER, Pool, given_out, pools
from trackbed.lint.tree import mappings


def overlaps(corpus: Corpus) -> Iterator[Hit]:
    """Pools that give out the same addresses. Ranges nest or are apart, so a stack of those still open finds all."""
    groups: dict[Range, list[Pool]] = {}
    for pool in pools(corpus):
        if pool.doc.kind != "SpiderSubnet":
            groups.setdefault(pool.range.range, []).append(pool)
    open_: list[Range] = []
    for whole in sorted(groups):
        while open_ and not open_[-1].overlaps(whole):
            open_.pop()
        same = groups[whole]
        for pool in same if open_ else ():
            yield from _clash(groups[open_[-1]][0], pool)
        others = [pool for pool in same if pool.doc.kind not in SPIDER]
        spiders = [pool for pool in same if pool.doc.kind in SPIDER]
        for one, other in pairwise(others + spiders[:1]):
            yield from _clash(one, other)
        yield from _shared(spiders)
        open_.append(whole)


def _clash(one: Pool, other: Pool) -> Iterator[Hit]:
    if not _apart(one.doc, other.doc):
        message = f"{other.range.range} overlaps {one.range.range} of {_where(one)}"
        yield Hit("pools-overlap", other.doc.tree, other.path, message)


def _where(pool: Pool) -> str:
    there = pool.doc.tree.place(pool.path)
    return f"{pool.doc.title} ({there.file}:{there.line})"


def _shared(same: list[Pool]) -> Iterator[Hit]:
    """Pools of Spiderpool with one subnet: their addresses in order, each against the one that reaches furthest."""
    given = sorted((found, number) for number, pool in enumerate(same) for found in given_out(pool.doc))
    furthest: tuple[Span, int] | None = None
    for found, number in given:
        if furthest and furthest[0].overlaps(found) and furthest[1] != number:
            message = f"{found} overlaps {furthest[0]} of {_where(same[furthest[1]])}, a pool of the same subnet"
            yield Hit("addresses-overlap", same[number].doc.tree, ("spec", "ips"), message, key=True)
        if furthest is None or found.last > furthest[0].last:
            furthest = (found, number)


def _apart(one: Document, other: Document) -> bool:
    """Whether exclusions keep two pools of nv-ipam apart; which addresses they leave is not computed here."""
    return all(doc.get("spec", "exclusions") for doc in (one, other))


def routes(corpus: Corpus) -> Iterator[Hit]:
    """Routes that are refused, or say nothing."""
    for pool in pools(corpus):
        known: list[tuple[int, Cidr, object]] = []
        for number, route in mappings(pool.doc.get("spec", "routes")):
            dst, path = cidr(route.get("dst")), ("spec", "routes", number)
            if dst is None:
                continue
            yield from _route(pool, dst, path)
            known.append((number, dst, route.get("gw")))
        yield from _redundant(pool, known)


def _route(pool: Pool, dst: Cidr, path: Path) -> Iterator[Hit]:
    spider = pool.doc.kind in SPIDER
    gateway = address(pool.doc.get(*path, "gw"))
    if dst.range.prefix == 0 and (spider or pool.doc.get("spec", "defaultGateway") is True):
        field = "gateway" if spider else "defaultGateway"
        yield Hit("default-route-in-routes", pool.doc.tree, (*path, "dst"), f"{dst.range} is what {field} is for")
    if dst.range.version != pool.range.range.version:
        message = f"{dst.range} is of another IP version than {pool.range.range}"
        yield Hit("ip-version-differs", pool.doc.tree, (*path, "dst"), message)
    if spider and gateway and not is_in(gateway, pool.range.range):
        message = f"{written(gateway)} is not inside {pool.range.range}, so the route cannot be added"
        yield Hit("route-gateway-outside", pool.doc.tree, (*path, "gw"), message)


def _redundant(pool: Pool, known: list[tuple[int, Cidr, object]]) -> Iterator[Hit]:
    """Each route that a shorter prefix covers, or that stands there already; each asks for its 33 (129) prefixes."""
    ways = {(dst.range, str(gateway)): number for number, dst, gateway in reversed(known)}
    for number, dst, gateway in known:
        for prefix in range(dst.range.prefix, -1, -1):
            outer = _shortened(dst.range, prefix)
            if ways.get((outer, str(gateway)), number) != number:
                message = f"{dst.range} lies inside {outer}, which takes the same way"
                yield Hit("route-redundant", pool.doc.tree, ("spec", "routes", number, "dst"), message)
                break


def _shortened(found: Range, prefix: int) -> Range:
    bits = BITS[found.version] - prefix
    return Range(found.version, found.base >> bits << bits, prefix)


def versions(corpus: Corpus) -> Iterator[Hit]:
    """A written IP version that is not the subnet's."""
    for pool in pools(corpus):
        said = pool.doc.get("spec", "ipVersion")
        if isinstance(said, int) and said in {4, 6} and said != pool.range.range.version:
            message = f"ipVersion is {said}, but {pool.range.range} is IPv{pool.range.range.version}"
            yield Hit("ip-version-differs", pool.doc.tree, ("spec", "ipVersion"), message)


CHECKS = (overlaps, routes, versions)
