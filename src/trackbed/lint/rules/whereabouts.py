"""Whereabouts: ranges inside CNI configurations, and where it is no longer installed."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS
from trackbed.lint.addresses import Cidr, address, cidr, is_in, usable
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Hit
from trackbed.lint.tree import Tree, mappings, texts


def removed(corpus: Corpus) -> Iterator[Hit]:
    """The Network Operator's field for it."""
    for doc in corpus.of("NicClusterPolicy"):
        if doc.get("spec", "secondaryNetwork", "ipamPlugin") is not None:
            path: Path = ("spec", "secondaryNetwork", "ipamPlugin")
            message = "secondaryNetwork.ipamPlugin is gone since Network Operator 25.10; a strict API server refuses it"
            yield Hit("whereabouts-removed", doc.tree, path, message, key=True)


def ranges(corpus: Corpus) -> Iterator[Hit]:
    """Ranges of every whereabouts configuration, once each."""
    seen: set[int] = set()
    for network in corpus.networks:
        for ipam in network.ipams:
            if ipam.get("type") == "whereabouts" and id(ipam.value) not in seen:
                seen.add(id(ipam.value))
                yield from _ranges(ipam)


def _ranges(ipam: Tree) -> Iterator[Hit]:
    paths: list[Path] = [(), *(("ipRanges", number) for number, _ in mappings(ipam.get("ipRanges")))]
    for path in paths:
        text = ipam.get(*path, "range")
        if isinstance(text, str):
            found = _range(text)
            if found is None:
                yield Hit(
                    "whereabouts-range", ipam, (*path, "range"), f"{text!r} is no range; write address/prefix length"
                )
            else:
                yield from _range_rules(ipam, path, found)
    yield from _slices(ipam)


def _range(text: str) -> Cidr | None:
    """`address/length` or `first-last/length`; whereabouts masks host bits itself."""
    head, dash, tail = text.partition("-")
    return cidr(f"{head.strip()}/{tail.rpartition('/')[2]}") if dash else cidr(text)


def _range_rules(ipam: Tree, path: Path, found: Cidr) -> Iterator[Hit]:
    whole = found.range
    if whole.prefix >= BITS[whole.version] - 1:
        message = f"{whole} has no usable address for whereabouts, which leaves out the first and the last"
        yield Hit("whereabouts-prefix-31", ipam, (*path, "range"), message)
        return
    for field in ("range_start", "range_end"):
        one = address(ipam.get(*path, field))
        if one and not is_in(one, whole):
            yield Hit(
                "whereabouts-outside", ipam, (*path, field), f"{field} {ipam.get(*path, field)} is not inside {whole}"
            )
    start, end = address(ipam.get(*path, "range_start")), address(ipam.get(*path, "range_end"))
    if start and end and start[1] > end[1]:
        yield Hit("whereabouts-outside", ipam, (*path, "range_end"), "range_end is before range_start")
    for number, text in texts(ipam.get(*path, "exclude")):
        out = cidr(text) or cidr(f"{text}/{BITS[whole.version]}")
        if out is None or not is_in((out.range.version, out.range.base), whole):
            message = f"{text!r} is no part of {whole}, so nothing is excluded"
            yield Hit("whereabouts-outside", ipam, (*path, "exclude", number), message)
    gateway = address(ipam.get(*path, "gateway"))
    if gateway and not is_in(gateway, whole):
        message = f"gateway {ipam.get(*path, 'gateway')} is not inside {whole}"
        yield Hit("whereabouts-gateway", ipam, (*path, "gateway"), message)
    elif gateway and not path:
        yield from _handed_out(ipam, gateway, found)


def _handed_out(ipam: Tree, gateway: tuple[int, int], found: Cidr) -> Iterator[Hit]:
    """Whereabouts knows `gateway` only as a route; it gives the address out like any other."""
    whole = usable(found.range)
    start, end = address(ipam.get("range_start")), address(ipam.get("range_end"))
    first, last = start[1] if start else whole.first, end[1] if end else whole.last
    excluded = [cidr(text) or cidr(f"{text}/{BITS[gateway[0]]}") for _, text in texts(ipam.get("exclude"))]
    if first <= gateway[1] <= last and not any(out and is_in(gateway, out.range) for out in excluded):
        message = f"gateway {ipam.get('gateway')} is among the addresses that pods get"
        yield Hit("whereabouts-gateway", ipam, ("gateway",), message)


def _slices(ipam: Tree) -> Iterator[Hit]:
    if not ipam.get("node_slice_size"):
        return
    for field in ("exclude", "range_start", "range_end", "ipRanges"):
        if ipam.get(field):
            message = f"{field} has no effect together with node_slice_size"
            yield Hit("whereabouts-slice-options", ipam, (field,), message, key=True)


CHECKS = (removed, ranges)
