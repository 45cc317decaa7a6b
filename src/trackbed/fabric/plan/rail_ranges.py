"""The address range of each rail: its own, or its share of the supernet."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from trackbed.fabric.model.problems import Path, Problem
from trackbed.fabric.model.ranges import BITS, V6, Range, cover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.fabric.model.fabric import FabricSpec

IPV6_SUBNET_PREFIX = 64
"""RFC 4291: a subnet with hosts in it has 64 bits of prefix."""


def compute_rail_ranges(spec: FabricSpec, version: int, problems: list[Problem]) -> list[Range | None]:
    """The range of every rail in one IP version; all None where none is planned. Adds to `problems`."""
    if spec.addressing.scheme == "none":
        return [None] * len(spec.rails)
    supernet: Range | None = getattr(spec.addressing, f"ipv{version}")
    own: list[Range | None] = [getattr(rail, f"ipv{version}") for rail in spec.rails]
    found = own
    if supernet is not None and not all(own):
        prefix = _rail_prefix(spec, supernet)
        path: Path = ("spec", "addressing", f"ipv{version}")
        if prefix < supernet.prefix or (1 << (prefix - supernet.prefix)) < len(own):
            problems.append(_too_small(supernet, prefix, len(own), path))
            return [None] * len(own)
        found = [mine or supernet.subnet(rail, prefix) for rail, mine in enumerate(own)]
    problems.extend(_overlaps(found, version))
    return found


def find_supernet(spec: FabricSpec, version: int, ranges: list[Range | None]) -> Range | None:
    """The range that holds all rails: as written, widened where a rail's own range lies outside."""
    known = [r for r in (getattr(spec.addressing, f"ipv{version}", None), *ranges) if r is not None]
    return cover(known) if known else None


def _rail_prefix(spec: FabricSpec, supernet: Range) -> int:
    given: int | None = getattr(spec.addressing, f"ipv{supernet.version}_rail_prefix")
    if given is not None:
        return given
    smallest = min(supernet.prefix + (len(spec.rails) - 1).bit_length(), BITS[supernet.version])
    if supernet.version == V6 and spec.addressing.scheme == "shared-subnet":
        return max(IPV6_SUBNET_PREFIX, smallest)
    return smallest


def _too_small(supernet: Range, prefix: int, rails: int, path: Path) -> Problem:
    fit = 1 << max(0, prefix - supernet.prefix) if prefix >= supernet.prefix else 0
    message = f"{supernet} holds {fit} ranges of /{prefix}, {rails} rails need {rails}; take a larger range"
    return Problem("supernet-too-small", message, path)


def _overlaps(ranges: list[Range | None], version: int) -> Iterator[Problem]:
    known = sorted((r, rail) for rail, r in enumerate(ranges) if r is not None)
    for (low, first), (high, second) in pairwise(known):
        if low.overlaps(high):
            message = f"rail {second} has {high}, which overlaps rail {first}'s {low}; rails need ranges of their own"
            yield Problem("rails-overlap", message, ("spec", "rails", max(first, second), f"ipv{version}"))
