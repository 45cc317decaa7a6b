"""Probes of a node's rails and reads of its kernel, made before any check runs.

Every probe has a deadline. The rails are probed in parallel, so a node takes about as long as its slowest rail.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from trackbed.doctor.view import EchoResult, ProbeResults
from trackbed.fabric.model.ranges import V4, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan
from trackbed.host import state as host_state
from trackbed.host.machine import Machine
from trackbed.host.state import HostState
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.routes import get_route
from trackbed.kernel.netlink.sockets import RequestError
from trackbed.kernel.wire import arp, icmp, lldp, nftables
from trackbed.kernel.wire.errors import ProbeError

ICMP_HEADERS_BYTES = {4: 28, 6: 48}
"""Size of the IP and ICMP headers without options, by IP version."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long probes wait, in seconds."""

    reply: float = 1.0
    lldp: float = 1.5
    lldp_interval: float = 30.0
    """How often leaves send LLDP (802.1AB's default is 30 s); only a longer wait without a frame is a finding."""


@dataclass(frozen=True, slots=True)
class ProbeSource:
    """The interface that a rail is probed from, on the host or inside a pod."""

    port: PortPlan
    netns: Path | int
    index: int
    address: AddressPlan


def get_netns(machine: Machine) -> Path | int:
    """Return the network namespace of a machine, also where it is this process's own."""
    return Path("/proc/self/ns/net") if machine.netns is None else machine.netns


def find_sources(node: NodePlan, state: HostState, netns: Path | int) -> list[ProbeSource]:
    """Return the probe sources of all addressed ports on the host that are up and have carrier."""
    links = {link.name: link for link in state.links}
    sources = []
    for port in node.ports:
        link = links.get(port.netdev)
        if link is not None and link.up and link.carrier and port.addresses:
            sources.append(ProbeSource(port, netns, link.index, port.addresses[0]))
    return sources


def probe_rails(
    plan: Plan, node: NodePlan, sources: Sequence[ProbeSource], timeouts: Timeouts
) -> dict[int, ProbeResults]:
    """Probe the rails of a node in parallel and return the results by rail; rails without a source are left out."""
    if not sources:
        return {}
    with ThreadPoolExecutor(max_workers=2 * len(sources) + 1) as pool:
        listening = pool.submit(_receive_lldp, sources, timeouts)
        gateways = pool.map(lambda source: _probe_gateway(source, timeouts), sources)
        echoes = pool.map(lambda source: _ping_peers(plan, node, source, timeouts), sources)
        leaves = listening.result()
        return {
            source.port.rail: ProbeResults(
                gateway, leaves.get(source.port.rail), _has_lldp(leaves, source, timeouts), *replies
            )
            for source, gateway, replies in zip(sources, gateways, echoes, strict=True)
        }


def _has_lldp(leaves: Mapping[int, lldp.Advertisement], source: ProbeSource, timeouts: Timeouts) -> bool | None:
    """Return whether the leaf sent LLDP; None where the wait was too short to tell."""
    if source.port.rail in leaves:
        return True
    return False if timeouts.lldp > timeouts.lldp_interval else None


def _receive_lldp(sources: Sequence[ProbeSource], timeouts: Timeouts) -> dict[int, lldp.Advertisement]:
    """Return each rail's LLDP frame; each namespace has one listener for all its sources."""
    groups: dict[Path | int, list[ProbeSource]] = {}
    for source in sources:
        groups.setdefault(source.netns, []).append(source)
    with ThreadPoolExecutor(max_workers=len(groups)) as pool:
        results = pool.map(lambda group: _listen(group[0], group[1], timeouts), groups.items())
        return {rail: advertisement for result in results for rail, advertisement in result.items()}


def _listen(netns: Path | int, sources: list[ProbeSource], timeouts: Timeouts) -> dict[int, lldp.Advertisement]:
    try:
        neighbours = lldp.listen(netns, [source.index for source in sources], timeouts.lldp).neighbours
    except (ProbeError, OSError):
        return {}
    return {source.port.rail: neighbours[source.index] for source in sources if source.index in neighbours}


def _probe_gateway(source: ProbeSource, timeouts: Timeouts) -> bool | None:
    """Return whether the gateway answers ARP (IPv4) or an echo (IPv6); None without a gateway or without permission."""
    address = source.address
    if not address.gateway:
        return None
    try:
        if address.version == V4:
            macs = arp.resolve(source.netns, source.index, address.address, [address.gateway], timeouts.reply)
            return bool(macs[address.gateway])
        ping = icmp.Ping(address.address, address.gateway, FAMILY[address.version])
        return icmp.ping(source.netns, [ping], timeouts.reply)[0].outcome == "answered"
    except (ProbeError, OSError):
        return None


def _ping_peers(
    plan: Plan, node: NodePlan, source: ProbeSource, timeouts: Timeouts
) -> tuple[tuple[EchoResult, ...], tuple[EchoResult, ...], EchoResult | None]:
    """Ping peers of the same rail, one peer of the next rail, and the first peer with a packet of full size."""
    rail, version = source.port.rail, source.address.version
    same_rail = list(_select_peers(plan, node, rail, version))
    cross_rail = list(_select_peers(plan, node, _get_next_rail(plan, rail), version))[:1]
    cross_rail = [] if len(plan.common.rails) == 1 else cross_rail
    pings = [_build_ping(source, peer) for peer in (*same_rail, *cross_rail)]
    if same_rail:
        payload_bytes = plan.common.mtu_bytes - ICMP_HEADERS_BYTES[version]
        pings.append(_build_ping(source, same_rail[0], payload_bytes))
    try:
        echoes = [_to_result(echo) for echo in icmp.ping(source.netns, pings, timeouts.reply)]
    except (ProbeError, OSError):
        return (), (), None
    return (
        tuple(echoes[: len(same_rail)]),
        tuple(echoes[len(same_rail) : len(same_rail) + len(cross_rail)]),
        echoes[-1] if same_rail else None,
    )


def _get_next_rail(plan: Plan, rail: int) -> int:
    return (rail + 1) % len(plan.common.rails)


def _select_peers(plan: Plan, node: NodePlan, rail: int, version: int) -> Iterable[AddressPlan]:
    """Yield up to two other nodes' addresses on a rail: first one behind another leaf, then one on the same leaf."""
    peers = [peer for peer in plan.nodes if peer.name != node.name and peer.find_port(rail)]
    far = next((peer for peer in peers if peer.unit != node.unit), None)
    near = next((peer for peer in peers if peer.unit == node.unit), None)
    for peer in (far, near):
        port = peer.find_port(rail) if peer else None
        address = (port.v4 if version == V4 else port.v6) if port else None
        if address is not None:
            yield address


def _build_ping(source: ProbeSource, target: AddressPlan, payload_bytes: int = 56) -> icmp.Ping:
    return icmp.Ping(
        source.address.address,
        target.address,
        FAMILY[source.address.version],
        payload_bytes=payload_bytes,
        dont_fragment=True,
        ifindex=source.index,
    )


def _to_result(echo: icmp.PingResult) -> EchoResult:
    version = V4 if echo.ping.family == FAMILY[V4] else 6
    refusal = ""
    if echo.outcome not in {"answered", "silent"}:
        reporter = format_address(version, echo.reported_by) if echo.reported_by else "this host"
        refusal = f"{echo.outcome} ({reporter}: {echo.reason})"
    return EchoResult(echo.outcome == "answered", format_address(version, echo.ping.target), refusal)


def find_management_paths(machine: Machine, targets: Iterable[int]) -> dict[int, str]:
    """Return the interface that the kernel routes each management address (IPv4) through; empty without a route."""
    paths = {}
    with machine.open_socket() as sock:
        names = {link.index: link.name for link in host_state.read(machine).links}
        for target in targets:
            try:
                paths[target] = names.get(get_route(sock, FAMILY[V4], target).oif, "")
            except RequestError:
                paths[target] = ""
    return paths


def read_base_chains(machine: Machine) -> tuple[nftables.BaseChain, ...] | None:
    """Return the firewall's base chains; None where nf_tables cannot be read, () where the kernel has none."""
    try:
        return nftables.list_base_chains(get_netns(machine), 2.0)
    except ProbeError:
        return None


WATCHED = ("rp_filter", "arp_ignore", "arp_announce")
"""IPv4 sysctls of an interface that checks read."""


def read_sysctls(machine: Machine, names: Sequence[str]) -> dict[str, str | None]:
    """Return the watched sysctls of these interfaces and of `all`; unreadable keys are left out."""
    keys = [f"net/ipv4/conf/{name}/{key}" for name in ("all", *names) for key in WATCHED]
    keys += [f"net/ipv6/conf/{name}/accept_ra" for name in names]
    values = {key: machine.read_sysctl(key) for key in keys}
    return {key: value for key, value in values.items() if isinstance(value, str)}
