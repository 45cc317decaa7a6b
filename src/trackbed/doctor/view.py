"""The data about a node that the checks use, read before any check runs.

    node, state       the node's plan, and its kernel's state (`trackbed.host.state`)
    sysctls           sysctls of the ports
    baseline          carrier counts at the last apply
    rails_in_pods     rails whose port was moved into a pod
    pods              attachments of this node's agent, each with the state of its namespace
    probes            results of probes: gateway, LLDP, peers, full-size packets
    switches          the addresses of the leaves, if they can be queried
    host              files, links and program outputs that host checks read
    neighbour_tables  the kernel's neighbour tables, which all network namespaces share
    vfs, dcb          netlink data of each port's VFs and data center bridging
    unread            netlink dumps that failed, and why the agent's status is missing

Data that could not be read is None or absent; a check then reports unknown, or nothing. `trackbed.doctor.unread`
withdraws what checks conclude from it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trackbed.fabric.model.ranges import V4, Range, format_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, PortPlan
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.state import HostState
from trackbed.kernel.netlink.addresses import Address
from trackbed.kernel.netlink.dcb import Dcb
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.neighbour_tables import NeighbourTable
from trackbed.kernel.netlink.routes import Route
from trackbed.kernel.netlink.rules import PolicyRule
from trackbed.kernel.netlink.vfs import VfListing
from trackbed.kernel.wire.lldp import Advertisement
from trackbed.kernel.wire.nftables import BaseChain

AGENT: Final = "the agent"
"""The key of `NodeView.unread` for attachments and refusals."""
BOOT_FILES: Final = "boot-time files"
"""The key of `NodeView.unread` for `NodeView.unpersisted_files`."""
STATE_DUMPS: Final = ("links", "addresses", "routes", "rules", "neighbours")
"""The keys of `NodeView.unread` for the parts of `NodeView.state`."""


@dataclass(frozen=True, slots=True)
class EchoResult:
    """Outcome of one ping of a peer; `refusal` describes the ICMP error that came back, and is empty without one."""

    answered: bool
    target: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """Results of the probes of one rail; None means not probed."""

    gateway: bool | None = None
    """Whether the gateway answered."""
    lldp: Advertisement | None = None
    lldp_heard: bool | None = None
    """Whether an LLDP frame arrived; None if the wait was too short to tell."""
    same_rail: tuple[EchoResult, ...] = ()
    cross_rail: tuple[EchoResult, ...] = ()
    full_size: EchoResult | None = None


class PodInterface(NamedTuple):
    """A pod's interface on one rail, with the addresses in the agent's status."""

    name: str
    addresses: tuple[AddressPlan, ...]
    vf: int = -1
    """Number of the VF that it is; -1 if it is none."""


@dataclass(frozen=True, slots=True)
class PodView:
    """An attached pod: its rails, and the state of its network namespace."""

    name: str
    rails: Mapping[int, PodInterface]
    """Rail -> its interface in the pod."""
    state: HostState
    sysctls: Mapping[str, str]
    unread: str = ""
    """Why the namespace could not be read; empty if it could."""


@dataclass(frozen=True, slots=True)
class AttachRefusal:
    """An attachment that the agent refused."""

    pod: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """Everything that was read of one node."""

    node: NodePlan
    state: HostState
    sysctls: Mapping[str, str] = field(default_factory=dict)
    unpersisted_files: tuple[str, ...] | None = None
    """Trackbed's boot-time files that are missing or differ from the plan; None if they were not compared."""
    baseline: Mapping[str, tuple[int, int]] | None = None
    """Interface -> (carrier_changes, carrier_down_count) at the last apply."""
    rails_in_pods: frozenset[int] = frozenset()
    moved_ports: frozenset[str] = frozenset()
    """Ports that returned from a pod to the host, which interrupted their carrier."""
    pods: tuple[PodView, ...] = ()
    refusals: tuple[AttachRefusal, ...] = ()
    has_agent: bool = False
    """Whether the node's agent has answered, so that `pods` are all that it has attached."""
    lldp_failure: str = ""
    """Why LLDP was not listened for; empty if it was."""
    probes: Mapping[int, ProbeResults] = field(default_factory=dict)
    chains: tuple[BaseChain, ...] | None = None
    switches: Mapping[str, frozenset[int]] | None = None
    """Name of a leaf -> its addresses, as integers; None if no leaves were queried."""
    management: tuple[int, ...] = ()
    """IPv4 addresses that must not be routed over a rail: other nodes, the API server."""
    management_paths: Mapping[int, str] = field(default_factory=dict)
    """Management address -> name of the interface through which the kernel routes it."""
    host: Snapshot | None = None
    """Snapshot of the host; None if the node shares its host (a container, or a network namespace of the lab)."""
    vfs: Mapping[str, VfListing] = field(default_factory=dict)
    """Interface -> its VFs; no entry if the driver reports none."""
    neighbour_tables: tuple[NeighbourTable, ...] = ()
    """The kernel's neighbour tables after the probes; `overflows` counts from before them. Empty if not read."""
    dcb: Mapping[str, Dcb] = field(default_factory=dict)
    """Interface -> its data center bridging; no entry if the driver has none."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """What could not be read -> the reason: AGENT, BOOT_FILES, a name of STATE_DUMPS, `vfs NETDEV` or `dcb NETDEV`."""

    def iter_ports(self) -> Iterator[PortPlan]:
        """Yield the ports that are on the host now, not in a pod."""
        return (port for port in self.node.ports if port.rail not in self.rails_in_pods)

    def find_link(self, port: PortPlan) -> Link | None:
        """Return the interface with the port's planned name; None if there is none."""
        return next((link for link in self.state.links if link.name == port.netdev), None)

    def get_link_name(self, ifindex: int) -> str:
        """Return the name of the interface with this index; `ifINDEX` if there is none."""
        return next((link.name for link in self.state.links if link.index == ifindex), f"if{ifindex}")

    def list_addresses(self, port: PortPlan) -> tuple[Address, ...]:
        """Return the addresses of global scope on the port."""
        link = self.find_link(port)
        return tuple(
            address for address in self.state.addresses if link and address.index == link.index and address.scope == 0
        )

    def list_routes(self, port: PortPlan) -> list[Route]:
        """Return the routes over the port."""
        link = self.find_link(port)
        return [route for route in self.state.routes if link and route.oif == link.index]

    def get_effective_sysctl(self, port: PortPlan, key: str) -> int | None:
        """Return the effective value of an IPv4 sysctl of the port, such as rp_filter or arp_ignore; None if unknown.

        For these the kernel uses the larger of the port's value and `all` (Documentation/networking/ip-sysctl.rst).
        """
        value, common = (self.sysctls.get(f"net/ipv4/conf/{name}/{key}") for name in (port.netdev, "all"))
        return None if value is None else max(int(value), int(common or 0))

    def list_rail_ranges(self) -> list[Range]:
        """Return the address ranges of all rails."""
        return [subnet for rail in self.node.common.rails for subnet in (rail.v4, rail.v6) if subnet is not None]


def describe_unread_pod(pod: PodView) -> str:
    """Describe why a pod was not checked."""
    return f"pod {pod.name} was not read: {pod.unread}"


def get_ip_version(family: int) -> int:
    """Return the IP version of an address family."""
    return V4 if family == socket.AF_INET else 6


def format_route(view: NodeView, route: Route) -> str:
    """Format a route as `ip route` prints it."""
    version = get_ip_version(route.family)
    destination = "default" if route.prefix == 0 else f"{format_address(version, route.dst)}/{route.prefix}"
    via = f" via {format_address(version, route.gateway)}" if route.gateway else ""
    dev = f" dev {view.get_link_name(route.oif)}" if route.oif else ""
    src = f" src {format_address(version, route.prefsrc)}" if route.prefsrc else ""
    return f"{destination}{via}{dev} table {route.table}{src}"


def format_rule(rule: PolicyRule) -> str:
    """Format a rule as `ip rule` prints it."""
    version = get_ip_version(rule.family)
    selector = f"from {format_address(version, rule.src)}/{rule.src_prefix}" if rule.src_prefix else "from all"
    target = f" to {format_address(version, rule.dst)}/{rule.dst_prefix}" if rule.dst_prefix else ""
    return f"{rule.priority}: {'not ' if rule.invert else ''}{selector}{target} lookup {rule.table}"
