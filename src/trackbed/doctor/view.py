"""Everything a check may look at, gathered before any check runs: checks are pure and judge a View.

    View
      node, state       the node's plan, and what its kernel says (hosts.state)
      sysctls, files    what was read of the sysctls and files that the plan wants
      baseline          carrier counts at the last apply
      away              rails whose port is inside a pod, in mode move
      peers             the same of other nodes, where they were collected
      pods              attachments of this node's agent, each with the state of its namespace
      observed          what probes found: gateway, LLDP, peers, full-size packets
      switches          what the leaves say of themselves, where they can be asked
      host              files, links and program outputs that the host checks asked for
      vfs, dcb          what netlink says of each port's VFs and of its data center bridging

What could not be looked at is absent (None, or no key), and a check answers unknown for it.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import V4, Range, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trackbed.fabric.plan.plan import Addressed, NodePlan, PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot
    from trackbed.host.state import HostState
    from trackbed.kernel.netlink.addresses import Address
    from trackbed.kernel.netlink.dcb import Dcb
    from trackbed.kernel.netlink.links import Link
    from trackbed.kernel.netlink.routes import Route
    from trackbed.kernel.netlink.rules import PolicyRule
    from trackbed.kernel.netlink.vfs import VfListing
    from trackbed.kernel.wire.lldp import Advertisement
    from trackbed.kernel.wire.nftables import BaseChain


@dataclass(frozen=True, slots=True)
class EchoResult:
    """Outcome of one probe of a peer: `answered`, or the words of whoever refused."""

    answered: bool
    target: str
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """What probes found on one rail; None means not probed."""

    gateway: bool | None = None
    lldp: Advertisement | None = None
    lldp_heard: bool | None = None
    same_rail: tuple[EchoResult, ...] = ()
    cross_rail: tuple[EchoResult, ...] = ()
    full_size: EchoResult | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """One attachment: the pod's netns as its kernel shows it."""

    name: str
    rails: Mapping[int, tuple[str, tuple[Addressed, ...]]]
    """Rail -> (interface name, addressing in the pod)."""
    state: HostState
    sysctls: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AttachRefusal:
    """An attach that the agent refused."""

    pod: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class SwitchView:
    """One leaf: its addresses as ints."""

    name: str
    addresses: frozenset[int]


@dataclass(frozen=True, slots=True)
class NodeView:
    """What was gathered of one node."""

    node: NodePlan
    state: HostState
    sysctls: Mapping[str, str | None] = field(default_factory=dict)
    unpersisted_files: tuple[str, ...] | None = None
    """Own files that are missing or differ from the plan; None where they could not be read."""
    baseline: Mapping[str, tuple[int, int]] | None = None
    """Interface -> (carrier_changes, carrier_down_count) at the last apply."""
    rails_in_pods: frozenset[int] = frozenset()
    moved_ports: frozenset[str] = frozenset()
    """Ports that have been in a pod and come back: they lost their carrier by that."""
    peers: tuple[NodeView, ...] | None = None
    pods: tuple[PodView, ...] = ()
    refusals: tuple[AttachRefusal, ...] = ()
    probes: Mapping[int, ProbeResults] = field(default_factory=dict)
    chains: tuple[BaseChain, ...] | None = None
    switches: Mapping[str, SwitchView] | None = None
    management: tuple[int, ...] = ()
    """IPv4 addresses that must be reached off the rails: other nodes, the API server."""
    management_paths: Mapping[int, str] = field(default_factory=dict)
    """Management address -> name of the interface that the kernel would take."""
    host: Snapshot | None = None
    """None where the host's own files mean nothing: a network namespace of the lab, a container."""
    vfs: Mapping[str, VfListing] = field(default_factory=dict)
    """Interface -> its VFs; no entry where the kernel did not tell."""
    dcb: Mapping[str, Dcb] = field(default_factory=dict)
    """Interface -> its data center bridging; no entry where the driver has none."""

    def iter_ports(self) -> Iterator[PortPlan]:
        """The ports that are on the host now."""
        return (port for port in self.node.ports if port.rail not in self.rails_in_pods)

    def find_link(self, port: PortPlan) -> Link | None:
        """The interface with the port's planned name."""
        return next((link for link in self.state.links if link.name == port.netdev), None)

    def get_link_name(self, index: int) -> str:
        """The name of an interface by its index."""
        return next((link.name for link in self.state.links if link.index == index), f"if{index}")

    def list_addresses(self, port: PortPlan) -> tuple[Address, ...]:
        """Global addresses on the port."""
        link = self.find_link(port)
        return tuple(a for a in self.state.addresses if link and a.index == link.index and a.scope == 0)

    def find_port(self, index: int) -> PortPlan | None:
        """The port that an interface index belongs to."""
        name = self.get_link_name(index)
        return next((port for port in self.node.ports if port.netdev == name), None)

    def list_rail_ranges(self) -> list[Range]:
        """The ranges of all rails."""
        return [cut for rail in self.node.common.rails for cut in (rail.v4, rail.v6) if cut is not None]


def get_ip_version(family: int) -> int:
    """The IP version of an address family."""
    return V4 if family == socket.AF_INET else 6


def format_route(view: NodeView, route: Route) -> str:
    """A route as `ip route` writes it."""
    version = get_ip_version(route.family)
    where = "default" if route.prefix == 0 else f"{text(version, route.dst)}/{route.prefix}"
    via = f" via {text(version, route.gateway)}" if route.gateway else ""
    dev = f" dev {view.get_link_name(route.oif)}" if route.oif else ""
    src = f" src {text(version, route.prefsrc)}" if route.prefsrc else ""
    return f"{where}{via}{dev} table {route.table}{src}"


def format_rule(rule: PolicyRule) -> str:
    """A rule as `ip rule` writes it."""
    version = get_ip_version(rule.family)
    selector = f"from {text(version, rule.src)}/{rule.src_prefix}" if rule.src_prefix else "from all"
    target = f" to {text(version, rule.dst)}/{rule.dst_prefix}" if rule.dst_prefix else ""
    return f"{rule.priority}: {'not ' if rule.invert else ''}{selector}{target} lookup {rule.table}"
