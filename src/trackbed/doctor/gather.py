"""Look at a node: its kernel, its files, its pods, what answers on its rails. Checks look at nothing themselves.

Every probe has a deadline; the rails are probed side by side, so a node takes about as long as its slowest rail.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.doctor.view import EchoResult, ProbeResults
from trackbed.fabric.model.ranges import V4, text
from trackbed.host import state as host_state
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.netlink.routes import get_route
from trackbed.kernel.netlink.sockets import RequestError
from trackbed.kernel.wire import arp, icmp, lldp, nftables
from trackbed.kernel.wire.errors import ProbeError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trackbed.fabric.plan.plan import Addressed, NodePlan, Plan, PortPlan
    from trackbed.host.machine import Machine
    from trackbed.host.state import HostState

ICMP_HEADERS_BYTES = {4: 28, 6: 48}
"""IP and ICMP headers without options."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long probes wait, in seconds."""

    reply: float = 1.0
    lldp: float = 1.5
    lldp_interval: float = 30.0
    """How often leaves speak (802.1AB's default is 30 s); silence counts only when we listened longer than that."""


@dataclass(frozen=True, slots=True)
class ProbeSource:
    """Where a port is now: on the host or inside a pod."""

    port: PortPlan
    netns: Path | int
    index: int
    address: Addressed


def get_netns(machine: Machine) -> Path | int:
    """The network namespace of a machine, also where it is our own."""
    return Path("/proc/self/ns/net") if machine.netns is None else machine.netns


def find_sources(node: NodePlan, state: HostState, netns: Path | int) -> list[ProbeSource]:
    """The seats of all addressed ports on the host that are up."""
    links = {link.name: link for link in state.links}
    found = []
    for port in node.ports:
        link = links.get(port.netdev)
        if link is not None and link.up and link.carrier and port.addressed:
            found.append(ProbeSource(port, netns, link.index, port.addressed[0]))
    return found


def probe_rails(
    plan: Plan, node: NodePlan, taken: Sequence[ProbeSource], patience: Timeouts
) -> dict[int, ProbeResults]:
    """Probe all seats of a node, side by side; a rail without seat is not probed."""
    if not taken:
        return {}
    with ThreadPoolExecutor(max_workers=2 * len(taken) + 1) as pool:
        listening = pool.submit(_leaves, taken, patience)
        gateways = pool.map(lambda seat: _gateway(seat, patience), taken)
        echoes = pool.map(lambda seat: _echoes(plan, node, seat, patience), taken)
        heard = listening.result()
        return {
            seat.port.rail: ProbeResults(gateway, heard.get(seat.port.rail), _silence(heard, seat, patience), *reached)
            for seat, gateway, reached in zip(taken, gateways, echoes, strict=True)
        }


def _silence(heard: Mapping[int, lldp.Advertisement], seat: ProbeSource, patience: Timeouts) -> bool | None:
    if seat.port.rail in heard:
        return True
    return False if patience.lldp > patience.lldp_interval else None


def _leaves(taken: Sequence[ProbeSource], patience: Timeouts) -> dict[int, lldp.Advertisement]:
    """What each rail's leaf says of itself; seats of one namespace listen together."""
    groups: dict[Path | int, list[ProbeSource]] = {}
    for seat in taken:
        groups.setdefault(seat.netns, []).append(seat)
    with ThreadPoolExecutor(max_workers=len(groups)) as pool:
        found = pool.map(lambda pair: _listened(pair[0], pair[1], patience), groups.items())
        return {rail: said for one in found for rail, said in one.items()}


def _listened(netns: Path | int, group: list[ProbeSource], patience: Timeouts) -> dict[int, lldp.Advertisement]:
    try:
        heard = lldp.listen(netns, [seat.index for seat in group], patience.lldp).neighbours
    except (ProbeError, OSError):
        return {}
    return {seat.port.rail: heard[seat.index] for seat in group if seat.index in heard}


def _gateway(seat: ProbeSource, patience: Timeouts) -> bool | None:
    """Whether the gateway answers ARP (IPv4) or an echo (IPv6); None where there is none, or we may not ask."""
    own = seat.address
    if not own.gateway:
        return None
    try:
        if own.version == V4:
            found = arp.resolve(seat.netns, seat.index, own.address, [own.gateway], patience.reply)
            return bool(found[own.gateway])
        asked = icmp.Ping(own.address, own.gateway, FAMILY[own.version])
        return icmp.ping(seat.netns, [asked], patience.reply)[0].outcome == "answered"
    except (ProbeError, OSError):
        return None


def _echoes(
    plan: Plan, node: NodePlan, seat: ProbeSource, patience: Timeouts
) -> tuple[tuple[EchoResult, ...], tuple[EchoResult, ...], EchoResult | None]:
    """Peers of the same rail, one of another rail, and the first peer again with a packet of full size."""
    same = list(_peers(plan, node, seat.port.rail, seat.address.version))
    other = list(_peers(plan, node, _next_rail(plan, seat.port.rail), seat.address.version))[:1]
    other = [] if len(plan.common.rails) == 1 else other
    asked = [_ping(seat, own) for own in (*same, *other)]
    if same:
        room = plan.common.mtu_bytes - ICMP_HEADERS_BYTES[seat.address.version]
        asked.append(_ping(seat, same[0], room))
    try:
        answers = [_echo(answer) for answer in icmp.ping(seat.netns, asked, patience.reply)]
    except (ProbeError, OSError):
        return (), (), None
    return (
        tuple(answers[: len(same)]),
        tuple(answers[len(same) : len(same) + len(other)]),
        answers[-1] if same else None,
    )


def _next_rail(plan: Plan, rail: int) -> int:
    return (rail + 1) % len(plan.common.rails)


def _peers(plan: Plan, node: NodePlan, rail: int, version: int) -> Iterable[Addressed]:
    """Up to two other nodes' addresses on a rail: one behind another leaf first, then one on the same leaf."""
    others = [peer for peer in plan.nodes if peer.name != node.name and peer.port(rail)]
    far = next((peer for peer in others if peer.unit != node.unit), None)
    near = next((peer for peer in others if peer.unit == node.unit), None)
    for peer in (far, near):
        port = peer.port(rail) if peer else None
        own = (port.v4 if version == V4 else port.v6) if port else None
        if own is not None:
            yield own


def _ping(seat: ProbeSource, to: Addressed, size: int = 56) -> icmp.Ping:
    return icmp.Ping(
        seat.address.address,
        to.address,
        FAMILY[seat.address.version],
        payload_bytes=size,
        dont_fragment=True,
        ifindex=seat.index,
    )


def _echo(answer: icmp.PingResult) -> EchoResult:
    version = V4 if answer.ping.family == FAMILY[V4] else 6
    refusal = ""
    if answer.outcome not in {"answered", "silent"}:
        who = text(version, answer.reported_by) if answer.reported_by else "this host"
        refusal = f"{answer.outcome} ({who}: {answer.reason})"
    return EchoResult(answer.outcome == "answered", text(version, answer.ping.target), refusal)


def find_management_paths(machine: Machine, targets: Iterable[int]) -> dict[int, str]:
    """Through which interface the kernel would reach each management address (IPv4)."""
    found = {}
    with machine.socket() as sock:
        names = {link.index: link.name for link in host_state.read(machine).links}
        for target in targets:
            try:
                found[target] = names.get(get_route(sock, FAMILY[V4], target).oif, "")
            except RequestError:
                found[target] = ""
    return found


def read_base_chains(machine: Machine) -> tuple[nftables.BaseChain, ...] | None:
    """The firewall's base chains; None where nf_tables cannot be read, () where the kernel has none."""
    try:
        return nftables.list_base_chains(get_netns(machine), 2.0)
    except ProbeError:
        return None


WATCHED = ("rp_filter", "arp_ignore", "arp_announce")
"""IPv4 sysctls of an interface that checks look at."""


def read_sysctls(machine: Machine, names: Sequence[str]) -> dict[str, str | None]:
    """The watched sysctls of these interfaces and of `all`; a key whose file cannot be read is left out."""
    keys = [f"net/ipv4/conf/{name}/{key}" for name in ("all", *names) for key in WATCHED]
    keys += [f"net/ipv6/conf/{name}/accept_ra" for name in names]
    read = {key: machine.read_sysctl(key) for key in keys}
    return {key: value for key, value in read.items() if isinstance(value, str)}
