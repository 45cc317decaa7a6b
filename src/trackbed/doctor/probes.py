"""Probes of a node's rails, and functions that read its kernel's routing, firewall and sysctls.

Every probe has a deadline. The rails are probed in parallel, so a node takes about as long as its slowest rail.
"""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from trackbed.doctor.view import EchoResult, ProbeResults
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan
from trackbed.host.machine import Machine
from trackbed.host.state import HostState
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.neighbour_tables import NeighbourTable, list_neighbour_tables
from trackbed.kernel.netlink.routes import get_route
from trackbed.kernel.netlink.sockets import RequestError
from trackbed.kernel.wire import arp, icmp, lldp
from trackbed.kernel.wire.errors import ProbeError

ICMP_HEADERS_BYTES = {4: 28, 6: 48}
"""Size of the IP and ICMP headers without options, by IP version."""

TRIES = 3
"""How often an unanswered request is sent in all."""


@dataclass(frozen=True, slots=True)
class ProbeTimeouts:
    """How long probes wait, in seconds."""

    reply: float = 1.0
    lldp: float = 1.5
    lldp_interval: float = 30.0
    """How often leaves send LLDP (default of IEEE 802.1AB: 30 s); only a longer wait without a frame is a finding."""


@dataclass(frozen=True, slots=True)
class ProbeSource:
    """The interface that a rail is probed from, on the host or inside a pod."""

    port: PortPlan
    netns: Path | int
    ifindex: int
    address: AddressPlan


def list_probe_sources(node: NodePlan, state: HostState, netns: Path | int) -> list[ProbeSource]:
    """Return the probe sources for all ports on the host that have an address, are up and have carrier."""
    links = {link.name: link for link in state.links}
    sources = []
    for port in node.ports:
        link = links.get(port.netdev)
        if link is not None and link.is_up and link.carrier and port.addresses:
            sources.append(ProbeSource(port, netns, link.index, port.addresses[0]))
    return sources


def probe_rails(
    plan: Plan, node: NodePlan, sources: Sequence[ProbeSource], timeouts: ProbeTimeouts
) -> dict[int, ProbeResults]:
    """Probe the rails of a node in parallel and return the results by rail; rails without a source are left out."""
    if not sources:
        return {}
    with ThreadPoolExecutor(max_workers=2 * len(sources) + 1) as pool:
        listening = pool.submit(_receive_lldp, sources, timeouts)
        gateways = pool.map(lambda source: _probe_gateway(source, timeouts), sources)
        echoes = pool.map(lambda source: _ping_peers(plan, node, source, timeouts), sources)
        leaves, deaf = listening.result()
        missed = False if timeouts.lldp > timeouts.lldp_interval else None  # None: the wait was too short to tell
        return {
            rail: replace(
                results,
                gateway=gateway,
                lldp=leaves.get(rail),
                lldp_heard=rail in leaves or (None if rail in deaf else missed),
            )
            for rail, gateway, results in zip((source.port.rail for source in sources), gateways, echoes, strict=True)
        }


class _HeardLeaves(NamedTuple):
    """The advertisement received on each rail, and the rails on which nothing could be received."""

    advertisements: dict[int, lldp.Advertisement]
    deaf: frozenset[int] = frozenset()


def _receive_lldp(sources: Sequence[ProbeSource], timeouts: ProbeTimeouts) -> _HeardLeaves:
    """Listen on each rail; one listener per namespace serves all of its sources."""
    groups: dict[Path | int, list[ProbeSource]] = {}
    for source in sources:
        groups.setdefault(source.netns, []).append(source)
    with ThreadPoolExecutor(max_workers=len(groups)) as pool:
        results = list(pool.map(lambda group: _listen_for_lldp(group[0], group[1], timeouts), groups.items()))
    return _HeardLeaves(
        {rail: advertisement for result in results for rail, advertisement in result.advertisements.items()},
        frozenset(rail for result in results for rail in result.deaf),
    )


def _listen_for_lldp(netns: Path | int, sources: list[ProbeSource], timeouts: ProbeTimeouts) -> _HeardLeaves:
    """Listen on the rails of one namespace; without permission all of them are deaf."""
    try:
        neighbours = lldp.listen(netns, [source.ifindex for source in sources], timeouts.lldp).neighbours
    except (ProbeError, OSError):
        return _HeardLeaves({}, frozenset(source.port.rail for source in sources))
    return _HeardLeaves(
        {source.port.rail: neighbours[source.ifindex] for source in sources if source.ifindex in neighbours}
    )


def _probe_gateway(source: ProbeSource, timeouts: ProbeTimeouts) -> bool | None:
    """Return whether the gateway answers ARP (IPv4) or a ping (IPv6); None without a gateway or without permission."""
    address = source.address
    if not address.gateway:
        return None
    try:
        if address.version == V4:
            return any(_resolve_gateway(source, timeouts) for _ in range(TRIES))
        ping = icmp.Ping(address.address, address.gateway, FAMILY[address.version])
        return ping_patiently(source.netns, [ping], timeouts.reply)[0].outcome == "answered"
    except (ProbeError, OSError):
        return None


def _resolve_gateway(source: ProbeSource, timeouts: ProbeTimeouts) -> bool:
    address = source.address
    macs = arp.resolve(source.netns, source.ifindex, address.address, [address.gateway], timeouts.reply)
    return bool(macs[address.gateway])


def ping_patiently(netns: Path | int, pings: Sequence[icmp.Ping], timeout_seconds: float) -> list[icmp.PingResult]:
    """Ping, and repeat each ping that stays silent up to `TRIES` times in all, each for `timeout_seconds`.

    One lost packet is no finding: a busy host or a full queue loses some.

    Raises:
        NotPermitted: the process may open neither raw nor ping sockets.
    """
    results = list(icmp.ping(netns, pings, timeout_seconds))
    for _ in range(TRIES - 1):
        silent = [index for index, result in enumerate(results) if result.outcome == "silent"]
        if not silent:
            break
        repeats = icmp.ping(netns, [pings[index] for index in silent], timeout_seconds)
        for index, repeat in zip(silent, repeats, strict=True):
            results[index] = repeat
    return results


def _ping_peers(plan: Plan, node: NodePlan, source: ProbeSource, timeouts: ProbeTimeouts) -> ProbeResults:
    """Ping peers on the same rail, one peer on the next rail, and the first peer again with a full-size packet."""
    rail, version = source.port.rail, source.address.version
    same_rail = list(_iter_peer_addresses(plan, node, rail, version))
    next_rail = (rail + 1) % len(plan.common.rails)
    cross_rail = list(_iter_peer_addresses(plan, node, next_rail, version))[:1] if next_rail != rail else []
    pings = [_build_ping(source, peer) for peer in (*same_rail, *cross_rail)]
    if same_rail:
        payload_bytes = plan.common.mtu_bytes - ICMP_HEADERS_BYTES[version]
        pings.append(_build_ping(source, same_rail[0], payload_bytes))
    try:
        echoes = [_to_echo_result(echo) for echo in ping_patiently(source.netns, pings, timeouts.reply)]
    except (ProbeError, OSError):
        return ProbeResults()
    return ProbeResults(
        same_rail=tuple(echoes[: len(same_rail)]),
        cross_rail=tuple(echoes[len(same_rail) : len(same_rail) + len(cross_rail)]),
        full_size=echoes[-1] if same_rail else None,
    )


def _iter_peer_addresses(plan: Plan, node: NodePlan, rail: int, ip_version: int) -> Iterable[AddressPlan]:
    """Yield up to two addresses of other nodes on a rail: one behind another leaf, then one behind the same leaf."""
    peers = [peer for peer in plan.nodes if peer.name != node.name and peer.find_port(rail)]
    far = next((peer for peer in peers if peer.unit != node.unit), None)
    near = next((peer for peer in peers if peer.unit == node.unit), None)
    for peer in (far, near):
        port = peer.find_port(rail) if peer else None
        address = (port.v4 if ip_version == V4 else port.v6) if port else None
        if address is not None:
            yield address


def _build_ping(source: ProbeSource, target: AddressPlan, payload_bytes: int = 56) -> icmp.Ping:
    return icmp.Ping(
        source.address.address,
        target.address,
        FAMILY[source.address.version],
        payload_bytes=payload_bytes,
        dont_fragment=True,
        ifindex=source.ifindex,
    )


def _to_echo_result(echo: icmp.PingResult) -> EchoResult:
    version = V4 if echo.ping.family == FAMILY[V4] else 6
    refusal = ""
    if echo.outcome not in {"answered", "silent"}:
        reporter = format_address(version, echo.reported_by) if echo.reported_by else "this host"
        refusal = f"{echo.outcome} ({reporter}: {echo.reason})"
    return EchoResult(echo.outcome == "answered", format_address(version, echo.ping.target), refusal)


def map_management_paths(state: HostState, targets: Iterable[int]) -> dict[int, str]:
    """Return the interface through which the kernel routes each IPv4 address; empty string if there is no route.

    Addresses about which the kernel does not answer are left out.
    """
    paths = {}
    with state.machine.open_socket() as sock:
        names = {link.index: link.name for link in state.links}
        for target in targets:
            try:
                paths[target] = names.get(get_route(sock, FAMILY[V4], target).oif, "")
            except RequestError:
                paths[target] = ""
            except NetlinkError:
                break
    return paths


def read_neighbour_tables(machine: Machine) -> tuple[NeighbourTable, ...]:
    """Return the kernel's neighbour tables, which all namespaces share; empty if they cannot be read."""
    try:
        with machine.open_socket() as sock:
            return list_neighbour_tables(sock)
    except NetlinkError:
        return ()


def subtract_overflows(
    tables: Sequence[NeighbourTable], earlier: Sequence[NeighbourTable]
) -> tuple[NeighbourTable, ...]:
    """Return the tables with their overflows since an earlier reading; empty if one of the two is missing."""
    return tuple(
        table._replace(overflows=table.overflows - before.overflows)
        for table, before in zip(tables, earlier, strict=False)
    )
