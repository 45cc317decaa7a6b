"""Ranges of the rails from l8k's nvIpam: one subnet for each, of which NV-IPAM gives addresses to pods."""

from typing import Any

from trackbed.fabric.importers.interface import apply_netmask
from trackbed.fabric.importers.l8k.profile import get_number
from trackbed.fabric.importers.tree import Tree, find_place, get_scalar, get_text, get_tree, get_trees
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import BITS, V4, Range, format_address, parse_address

Document = dict[str, Any]


def build_addressing(tree: Tree, rails: int, groups: int, problems: list[Problem]) -> Document:
    """Return `rails` and `addressing`: scheme shared-subnet with a subnet for each rail, else scheme none."""
    ipam = get_tree(tree, "nvIpam")
    subnets = _read_subnets(ipam, problems) or _compute_subnets(ipam, rails, problems)
    if len(subnets) < rails:
        if subnets:
            message = f"nvIpam has {len(subnets)} subnets for {rails} rails; give each rail its own"
            problems.append(Problem("few-subnets", message, place=find_place(ipam)))
        return {"rails": str(rails), "addressing": {"scheme": "none"}}
    if groups > 1:
        message = "l8k gives each group of hosts subnets of its own; the Fabric has those of the first for all hosts"
        problems.append(Problem("several-groups", message, place=find_place(ipam), severity="warning"))
    message = (
        "NV-IPAM gives blocks to nodes in the order in which they come; the plan gives each node its block for ever, "
        "and each port an address, so pods' addresses change"
    )
    problems.append(Problem("new-addresses", message, place=find_place(ipam), severity="warning"))
    block = get_number(ipam, "perNodeBlockSize", 15, problems)
    addressing = {"scheme": "shared-subnet", "podAddresses": str(block)}
    if all(gateway == format_address(V4, subnet.base + 1) for subnet, gateway in subnets[:rails]):
        entries = [{"ipv4": str(subnet)} for subnet, _ in subnets[:rails]]
        return {"rails": entries, "addressing": addressing | {"gateway": "first"}}
    entries = [{"ipv4": str(subnet)} | ({"gateway": gateway} if gateway else {}) for subnet, gateway in subnets[:rails]]
    return {"rails": entries, "addressing": addressing}


def _read_subnets(ipam: Tree, problems: list[Problem]) -> list[tuple[Range, str]]:
    """Return (subnet, gateway) of the subnets that the file lists."""
    subnets = []
    for entry in get_trees(ipam, "subnets"):
        text, gateway = get_text(entry, "subnet"), get_text(entry, "gateway")
        try:
            subnet = _parse_subnet(text)
            subnets.append((subnet, format_address(*parse_address(gateway)) if gateway else ""))
        except ValueError:
            message = f"cannot read subnet {text!r} with gateway {gateway!r}, as 192.168.2.0/24 with 192.168.2.1 is"
            problems.append(Problem("bad-subnet", message, place=find_place(entry)))
    return subnets


def _compute_subnets(ipam: Tree, rails: int, problems: list[Problem]) -> list[tuple[Range, str]]:
    """Return (subnet, gateway) of the subnets that follow from startingSubnet, mask and offset."""
    start = get_scalar(ipam, "startingSubnet")
    if start is None:
        return []
    prefix = get_number(ipam, "mask", 24, problems)
    offset = max(1, get_number(ipam, "offset", 1, problems))
    try:
        first = _parse_subnet(f"{start.text}/{prefix}")
    except ValueError:
        message = f"cannot read startingSubnet {start.text!r} with mask {prefix}, as 192.168.0.0 with mask 22 is"
        problems.append(Problem("bad-subnet", message, place=start.place))
        return []
    bases = [first.base + rail * offset * first.size for rail in range(rails)]
    if bases[-1] + first.size > 1 << BITS[V4]:
        problems.append(Problem("bad-subnet", f"{rails} subnets from {first} exceed IPv4", place=start.place))
        return []
    return [(Range(V4, base, prefix), format_address(V4, base + 1)) for base in bases]


def _parse_subnet(text: str) -> Range:
    """Return an IPv4 range. Raises ValueError if the text is none."""
    address, _, prefix = text.partition("/")
    ip_version, number = parse_address(address)
    if ip_version != V4 or not prefix.isdigit() or not 0 < int(prefix[:3]) <= 30:  # noqa: PLR2004 - the least subnet
        raise ValueError(text)
    return apply_netmask(ip_version, number, int(prefix[:3]))
