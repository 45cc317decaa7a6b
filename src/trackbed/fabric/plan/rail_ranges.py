"""The address range of each rail: its own, or its part of the supernet."""

from collections.abc import Iterator
from itertools import pairwise

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Path, Problem
from trackbed.fabric.model.ranges import BITS, V6, Range, cover

_SHORTEST_ADVICE = 8
"""Prefix length of the largest range that a message proposes; private ranges are no larger (RFC 1918, RFC 4193)."""

IPV6_SUBNET_PREFIX = 64
"""Prefix length of an IPv6 subnet with hosts (RFC 4291)."""


def compute_rail_ranges(spec: FabricSpec, ip_version: int, problems: list[Problem]) -> list[Range | None]:
    """Return each rail's range of one IP version; None for a rail without one. Append size and overlap problems."""
    if spec.addressing.scheme == "none":
        return [None] * len(spec.rails)
    supernet: Range | None = getattr(spec.addressing, f"ipv{ip_version}")
    configured: list[Range | None] = [getattr(rail, f"ipv{ip_version}") for rail in spec.rails]
    ranges = configured
    if supernet is not None and not all(configured):
        prefix = _choose_prefix(spec, supernet)
        path: Path = ("spec", "addressing", f"ipv{ip_version}")
        if prefix < supernet.prefix or (1 << (prefix - supernet.prefix)) < len(configured):
            problems.append(_build_too_small_problem(supernet, prefix, len(configured), path))
            return [None] * len(configured)
        ranges = [rail_range or supernet.get_subnet(rail, prefix) for rail, rail_range in enumerate(configured)]
    problems.extend(_iter_overlaps(ranges, ip_version))
    return ranges


def find_supernet(spec: FabricSpec, ip_version: int, ranges: list[Range | None]) -> Range | None:
    """Return the range that covers all rails: the configured supernet, widened for rails outside of it."""
    supernet: Range | None = getattr(spec.addressing, f"ipv{ip_version}", None)
    in_use = [rail_range for rail_range in (supernet, *ranges) if rail_range is not None]
    return cover(in_use) if in_use else None


def _choose_prefix(spec: FabricSpec, supernet: Range) -> int:
    """Return the configured prefix length of a rail's range, else the shortest that divides the supernet."""
    configured: int | None = getattr(spec.addressing, f"ipv{supernet.version}_rail_prefix")
    if configured is not None:
        return configured
    smallest = min(supernet.prefix + (len(spec.rails) - 1).bit_length(), BITS[supernet.version])
    if supernet.version == V6 and spec.addressing.scheme == "shared-subnet":
        return max(IPV6_SUBNET_PREFIX, smallest)
    return smallest


def _build_too_small_problem(supernet: Range, prefix: int, rails: int, path: Path) -> Problem:
    fit = 1 << max(0, prefix - supernet.prefix) if prefix >= supernet.prefix else 0
    needed = prefix - (rails - 1).bit_length()
    size = f", a /{needed}" if needed >= _SHORTEST_ADVICE else ", or smaller ones for the rails"
    message = f"{supernet} holds {fit} ranges of /{prefix}, {rails} rails need {rails}; take a larger range{size}"
    return Problem("supernet-too-small", message, path)


def _iter_overlaps(ranges: list[Range | None], ip_version: int) -> Iterator[Problem]:
    sorted_ranges = sorted((rail_range, rail) for rail, rail_range in enumerate(ranges) if rail_range is not None)
    for (low, first), (high, second) in pairwise(sorted_ranges):
        if low.overlaps(high):
            message = f"rail {second} has {high}, which overlaps rail {first}'s {low}; rails need ranges of their own"
            yield Problem("rails-overlap", message, ("spec", "rails", max(first, second), f"ipv{ip_version}"))
