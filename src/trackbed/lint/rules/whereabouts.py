"""Rules for whereabouts: ranges in CNI configurations, and its removal from the Network Operator."""

from collections.abc import Iterator

from trackbed.fabric.model.problems import Path
from trackbed.fabric.model.ranges import BITS
from trackbed.lint.addresses import Cidr, IpAddress, is_address_in, parse_cidr, parse_ip_address, to_usable_span
from trackbed.lint.corpus import Corpus
from trackbed.lint.finding import Breach
from trackbed.lint.tree import Tree, enumerate_mappings, enumerate_texts


def check_removed_field(corpus: Corpus) -> Iterator[Breach]:
    """Find `ipamPlugin`, a field that the Network Operator has removed."""
    for doc in corpus.select_kinds("NicClusterPolicy"):
        if doc.get("spec", "secondaryNetwork", "ipamPlugin") is not None:
            path: Path = ("spec", "secondaryNetwork", "ipamPlugin")
            message = "secondaryNetwork.ipamPlugin is gone since Network Operator 25.10; a strict API server refuses it"
            yield Breach("whereabouts-removed", doc.tree, path, message, key=True)


def check_ranges(corpus: Corpus) -> Iterator[Breach]:
    """Find mistakes in the ranges of whereabouts configurations. A configuration is checked only once."""
    values: set[int] = set()
    for network in corpus.networks:
        for ipam in network.ipams:
            if ipam.get("type") == "whereabouts" and id(ipam.value) not in values:
                values.add(id(ipam.value))
                yield from _check_ipam(ipam)


def _check_ipam(ipam: Tree) -> Iterator[Breach]:
    paths: list[Path] = [(), *(("ipRanges", number) for number, _ in enumerate_mappings(ipam.get("ipRanges")))]
    for path in paths:
        text = ipam.get(*path, "range")
        if isinstance(text, str):
            cidr = _parse_range(text)
            if cidr is None:
                message = f"{text!r} is not a range; write address/prefix length"
                yield Breach("whereabouts-range", ipam, (*path, "range"), message)
            else:
                yield from _check_range(ipam, path, cidr)
    yield from _check_slice_options(ipam)


def _parse_range(text: str) -> Cidr | None:
    """Parse `ADDRESS/LENGTH` or `FIRST-LAST/LENGTH`; return None for other texts. whereabouts clears host bits."""
    head, dash, tail = text.partition("-")
    return parse_cidr(f"{head.strip()}/{tail.rpartition('/')[2]}") if dash else parse_cidr(text)


def _check_range(ipam: Tree, path: Path, cidr: Cidr) -> Iterator[Breach]:
    whole = cidr.range
    if whole.prefix >= BITS[whole.version] - 1:
        message = f"{whole} has no usable address for whereabouts, which leaves out the first and the last"
        yield Breach("whereabouts-prefix-31", ipam, (*path, "range"), message)
        return
    for field in ("range_start", "range_end"):
        end = parse_ip_address(ipam.get(*path, field))
        if end and not is_address_in(end, whole):
            message = f"{field} {ipam.get(*path, field)} is not inside {whole}"
            yield Breach("whereabouts-outside", ipam, (*path, field), message)
    start, end = parse_ip_address(ipam.get(*path, "range_start")), parse_ip_address(ipam.get(*path, "range_end"))
    if start and end and start[1] > end[1]:
        yield Breach("whereabouts-outside", ipam, (*path, "range_end"), "range_end is before range_start")
    for number, text in enumerate_texts(ipam.get(*path, "exclude")):
        excluded = parse_cidr(text) or parse_cidr(f"{text}/{BITS[whole.version]}")
        if excluded is None or not is_address_in((excluded.range.version, excluded.range.base), whole):
            message = f"{text!r} is not inside {whole}, so nothing is excluded"
            yield Breach("whereabouts-outside", ipam, (*path, "exclude", number), message)
    gateway = parse_ip_address(ipam.get(*path, "gateway"))
    if gateway and not is_address_in(gateway, whole):
        message = f"gateway {ipam.get(*path, 'gateway')} is not inside {whole}"
        yield Breach("whereabouts-gateway", ipam, (*path, "gateway"), message)
    elif gateway and not path and ipam.get("routes"):
        yield from _check_gateway_assigned(ipam, gateway, cidr)


def _check_gateway_assigned(ipam: Tree, gateway: IpAddress, cidr: Cidr) -> Iterator[Breach]:
    """Yield a breach if pods may get the gateway's address. whereabouts adds a route for it, but no exclusion."""
    whole = to_usable_span(cidr.range)
    start, end = parse_ip_address(ipam.get("range_start")), parse_ip_address(ipam.get("range_end"))
    first, last = start[1] if start else whole.first, end[1] if end else whole.last
    excluded = [
        parse_cidr(text) or parse_cidr(f"{text}/{BITS[gateway[0]]}") for _, text in enumerate_texts(ipam.get("exclude"))
    ]
    if first <= gateway[1] <= last and not any(
        exclusion and is_address_in(gateway, exclusion.range) for exclusion in excluded
    ):
        message = f"gateway {ipam.get('gateway')} is among the addresses that pods get"
        yield Breach("whereabouts-gateway", ipam, ("gateway",), message)


def _check_slice_options(ipam: Tree) -> Iterator[Breach]:
    if not ipam.get("node_slice_size"):
        return
    for field in ("exclude", "range_start", "range_end", "ipRanges"):
        if ipam.get(field):
            message = f"{field} has no effect together with node_slice_size"
            yield Breach("whereabouts-slice-options", ipam, (field,), message, key=True)


CHECKS = (check_removed_field, check_ranges)
