"""The address range of each rail: its own, or its part of the supernet."""

from collections.abc import Iterator
from itertools import pairwise

from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Path, Problem
from trackbed.fabric.model.ranges import BITS, V4, V6, Range, cover, parse_range

_SHORTEST_ADVICE = 8
"""Prefix length of the largest range that a message proposes; private ranges are no larger (RFC 1918, RFC 4193)."""

_PRIVATE_RANGES = tuple(map(parse_range, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
"""Ranges that belong to one site as a whole (RFC 1918, RFC 6598)."""
_SITE_PREFIX = 32
"""Prefix length of the largest IPv6 range that one site commonly has: what a registry allocates (RIPE-738, 5.2)."""
_MAX_SPREAD = 8
"""How many times as large as the rails' ranges a supernet of other addresses may be: ranges that are one after the
other, but begin at no even multiple, take up to that much for up to 8 rails.
"""

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
    """Return the range that covers all rails: the configured supernet, widened for rails outside of it.

    A configured supernet in which no rail lies does not count: layouts have one by default.
    """
    supernet: Range | None = getattr(spec.addressing, f"ipv{ip_version}", None)
    in_use = [rail_range for rail_range in ranges if rail_range is not None]
    if supernet is not None and any(supernet.overlaps(rail_range) for rail_range in in_use):
        in_use.append(supernet)
    return cover(in_use) if in_use else None


def check_supernet(spec: FabricSpec, ip_version: int, ranges: list[Range | None]) -> Iterator[Problem]:
    """Yield a problem if the range that covers all rails takes in addresses of others.

    Hosts and pods have one route and one rule for all rails, so ranges far apart would make it the route of the whole
    Internet.
    """
    supernet = find_supernet(spec, ip_version, ranges)
    configured: Range | None = getattr(spec.addressing, f"ipv{ip_version}", None)
    if supernet is None or supernet == configured or _is_of_one_site(supernet):
        return
    in_use = sum(rail_range.size for rail_range in ranges if rail_range is not None)
    if supernet.size > _MAX_SPREAD * max(in_use, configured.size if configured else 0):
        (low, first), (high, last) = _find_ends(ranges)
        message = (
            f"rail {first} has {low} and rail {last} has {high}: the smallest range that holds all rails is "
            f"{supernet}, so hosts would send traffic for others to a rail; take ranges next to each other"
        )
        yield Problem("supernet-too-wide", message, ("spec", "rails", max(first, last), f"ipv{ip_version}"))


def _is_of_one_site(supernet: Range) -> bool:
    if supernet.version == V4:
        return any(private.prefix <= supernet.prefix and private.overlaps(supernet) for private in _PRIVATE_RANGES)
    return supernet.prefix >= _SITE_PREFIX


def _find_ends(ranges: list[Range | None]) -> tuple[tuple[Range, int], tuple[Range, int]]:
    """Return the lowest and the highest range, each with its rail."""
    sorted_ranges = sorted((rail_range, rail) for rail, rail_range in enumerate(ranges) if rail_range is not None)
    return sorted_ranges[0], sorted_ranges[-1]


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
