"""Patterns of addresses that a Fabric cannot express: blocks of nodes, and cables between hosts.

Both are certain before rails are looked for, and would otherwise look like a rail for each port of each host.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from trackbed.fabric.importers.inference.grouping import is_narrow
from trackbed.fabric.importers.interface import Interface, StaticAddress
from trackbed.fabric.model.problems import Problem
from trackbed.fabric.model.ranges import Range, cover

PAIR = 2
"""The ends of a cable."""
_SPARSENESS = 1024
"""Blocks of one site lie closer together than this many times their size."""
_SHOWN = 3

_Port = tuple[Interface, StaticAddress]


def find_pattern(interfaces: Iterable[Interface], ip_version: int) -> Problem | None:
    """Return a problem that names the pattern of the addresses, if it is none of a Fabric."""
    ports = [
        (interface, address)
        for interface in interfaces
        for address in interface.addresses
        if address.version == ip_version
    ]
    hosts = _map_hosts(ports)
    return _find_cables(ports, hosts) or _find_node_blocks(ports, hosts)


def _map_hosts(ports: Iterable[_Port]) -> dict[Range, set[str]]:
    """Return the hosts that have a port in each subnet."""
    hosts: dict[Range, set[str]] = defaultdict(set)
    for interface, address in ports:
        hosts[address.subnet].add(interface.host)
    return hosts


def _find_node_blocks(ports: Sequence[_Port], hosts: dict[Range, set[str]]) -> Problem | None:
    """Recognise hosts each of whose ports has a subnet of its own, side by side in a block of the host."""
    subnets_by_host: dict[str, dict[Range, StaticAddress]] = defaultdict(dict)
    for interface, address in ports:
        if len(hosts[address.subnet]) == 1:
            subnets_by_host[interface.host][address.subnet] = address
    blocks = {host: run for host, subnets in subnets_by_host.items() if len(run := _find_longest_run(subnets)) > 1}
    if len(blocks) < PAIR or sum(map(len, blocks.values())) * 2 <= len(ports):
        return None
    supernet = cover([subnet for run in blocks.values() for subnet in run])
    if len({run[0].prefix for run in blocks.values()}) > 1 or supernet.size > _SPARSENESS * sum(
        subnet.size for run in blocks.values() for subnet in run
    ):
        return None
    host, run = min(blocks.items(), key=lambda item: item[1][0])
    message = (
        f"the addresses are node-major in {len(blocks)} hosts: {host} has block {cover(run)}, and each of its rails "
        f"a part ({_shorten(list(map(str, run)), ', ')}). In a Fabric each rail has a range, of which each node has a "
        f"part, so that a leaf announces its rail as one prefix. No Fabric gives these addresses: "
        f"{_build_advice(blocks, supernet)}"
    )
    return Problem("node-major", message, place=subnets_by_host[host][run[0]].place)


def _find_longest_run(subnets: Iterable[Range]) -> list[Range]:
    """Return the longest run of subnets of one size side by side."""
    runs: list[list[Range]] = []
    for subnet in sorted(subnets):
        last = runs[-1][-1] if runs else None
        if last and last.prefix == subnet.prefix and last.base + last.size == subnet.base:
            runs[-1].append(subnet)
        else:
            runs.append([subnet])
    return max(runs, key=len, default=[])


def _build_advice(blocks: dict[str, list[Range]], supernet: Range) -> str:
    """Return what to write to number the same hosts by rails."""
    prefix, rails = next(iter(blocks.values()))[0].prefix, max(map(len, blocks.values()))
    if is_narrow(supernet.version, prefix):
        return f"renumber the hosts with `rails: {rails}` and scheme point-to-point"
    field = f"ipv{supernet.version}NodePrefix"
    return f"renumber the hosts with `rails: {rails}`, scheme node-subnet and {field} {prefix}"


def _find_cables(ports: Sequence[_Port], hosts: dict[Range, set[str]]) -> Problem | None:
    """Recognise ports that are cabled to ports of other hosts, without a switch.

    Each subnet then has two hosts. Two hosts alone may also have rails, unless the subnets hold no more than two.
    """
    pairs = {subnet: members for subnet, members in hosts.items() if len(members) == PAIR}
    cabled = [(interface, address) for interface, address in ports if address.subnet in pairs]
    counts = Counter(address.subnet for _, address in cabled)
    if not pairs or len(cabled) * 2 <= len(ports) or any(count != PAIR for count in counts.values()):
        return None
    if not _is_mesh(pairs.values()) and not all(is_narrow(subnet.version, subnet.prefix) for subnet in pairs):
        return None
    names: dict[Range, list[str]] = defaultdict(list)
    for port, address in cabled:
        names[address.subnet].append(f"{port.host} {port.label}")
    links = [f"{' and '.join(names[subnet])} share {subnet}" for subnet in sorted(pairs)]
    count = "this is a cable" if len(links) == 1 else f"these are {len(links)} cables"
    message = (
        f"{count} between hosts, without a switch: {_shorten(links, '; ')}. A Fabric has leaves, "
        "and a port of every host on each rail; it cannot say which hosts a cable joins. Connect the ports to a switch "
        "and number them by rails, or keep these files as they are"
    )
    return Problem("host-to-host", message, place=cabled[0][1].place)


def _is_mesh(pairs: Iterable[set[str]]) -> bool:
    """Return whether cables join more than two hosts to one another."""
    parents: dict[str, str] = {}
    sizes: Counter[str] = Counter()

    def find_root(host: str) -> str:
        while (parent := parents.setdefault(host, host)) != host:
            parents[host] = parents[parent]
            host = parents[host]
        return host

    for first, second in pairs:
        parents[find_root(first)] = find_root(second)
    for host in list(parents):
        sizes[find_root(host)] += 1
    return max(sizes.values(), default=0) > PAIR


def _shorten(texts: Sequence[str], separator: str) -> str:
    """Return the first texts, which suffice to recognise a pattern."""
    remainder = [f"and {len(texts) - _SHOWN} more"] if len(texts) > _SHOWN else []
    return separator.join([*texts[:_SHOWN], *remainder])
