"""A sound node as a NodeView, built from a plan without a kernel."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trackbed.doctor.view import EchoResult, NodeView, ProbeResults
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.ranges import BITS, format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan, Plan, PortPlan
from trackbed.fabric.plan.routes import PlannedRule
from trackbed.host.kinds import route
from trackbed.host.machine import Machine
from trackbed.host.state import HostState
from trackbed.host.steps import iter_settings
from trackbed.kernel.netlink.addresses import FAMILY, Address
from trackbed.kernel.netlink.links import IFF_RUNNING, IFF_UP, Link
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, RTN_UNREACHABLE, Route
from trackbed.kernel.netlink.rules import PolicyRule
from trackbed.kernel.wire.lldp import Advertisement

FABRIC = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: small}
spec:
  nodes:
    - hosts: n[0-1]
      ports: [{netdev: rail0}, {netdev: rail1}]
      hostPorts: {n0: ["02:00:00:00:00:00", "02:00:00:00:00:01"], n1: ["02:00:00:00:01:00", "02:00:00:00:01:01"]}
  rails: 2
  nodesPerUnit: 1
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/15, ipv6: "fd00::/32"}
"""


def compute_small_plan() -> Plan:
    """Return a plan of two nodes in two units, with two rails, IPv4 and IPv6."""
    return compute_plan(load_fabric(FABRIC, "small.yaml").fabric, {})


def build_sound_view(node: NodePlan) -> NodeView:
    """Return a view of a node that is exactly as planned."""
    return NodeView(
        node=node,
        state=_build_state(node),
        sysctls=_build_sysctls(node),
        unpersisted_files=(),
        baseline={port.netdev: (2, 1) for port in node.ports},
        probes={port.rail: _build_results(port) for port in node.ports},
        chains=(),
        switches={port.leaf: frozenset(address.gateway for address in port.addresses) for port in node.ports},
        management=(1,),
        management_paths={1: "eth0"},
    )


def _build_results(port: PortPlan) -> ProbeResults:
    peer = EchoResult(answered=True, target="peer")
    advertisement = Advertisement(port.leaf, "swp1", system_name=port.leaf, port_vlan=1)
    return ProbeResults(
        gateway=True, lldp=advertisement, lldp_heard=True, same_rail=(peer,), cross_rail=(peer,), full_size=peer
    )


def build_link(index: int, name: str, mac: str, mtu: int = 9000) -> Link:
    """Return an interface that is up and has carrier."""
    return Link(
        index=index,
        name=name,
        kind="veth",
        mtu=mtu,
        flags=IFF_UP | IFF_RUNNING,
        operstate="up",
        carrier=True,
        carrier_up_count=1,
        carrier_down_count=1,
        mac=mac,
        permanent_mac=None,
        master=0,
        parent=0,
        group=0,
        altnames=(),
        parent_device=None,
    )


def _build_state(node: NodePlan) -> HostState:
    indexes = {port.netdev: 10 + port.rail for port in node.ports}
    links = [build_link(2, "eth0", "02:ff:00:00:00:01", 1500)]
    links += [build_link(indexes[port.netdev], port.netdev, port.mac or "") for port in node.ports]
    addresses = [
        Address(indexes[port.netdev], FAMILY[address.version], address.address, address.prefix)
        for port in node.ports
        for address in port.addresses
    ]
    wanted = [setting.want for setting in iter_settings(node)]
    routes = [_to_route(want, indexes) for want in wanted if isinstance(want, route.Want)]
    rules = [_to_rule(want) for want in wanted if isinstance(want, PlannedRule)]
    machine = Machine(Path("/nowhere"))
    return HostState(machine, tuple(links), tuple(addresses), tuple(routes), tuple(rules), ())


def _to_route(want: route.Want, indexes: dict[str, int]) -> Route:
    route = want.route
    kept = Route(FAMILY[route.to.version], route.table, route.to.base, route.to.prefix, prefsrc=route.source)
    if route.unreachable:
        return replace(kept, type=RTN_UNREACHABLE)
    scope = 0 if route.gateway else RT_SCOPE_LINK
    return replace(kept, oif=indexes[want.netdev], gateway=route.gateway, scope=scope)


def _to_rule(want: PlannedRule) -> PolicyRule:
    if want.source is not None:
        family = FAMILY[want.source.version]
        return PolicyRule(family, want.priority, want.table, src=want.source.base, src_prefix=want.source.prefix)
    target = want.unless_to
    assert target is not None
    family = FAMILY[target.version]
    return PolicyRule(family, want.priority, want.table, dst=target.base, dst_prefix=target.prefix, invert=True)


def _build_sysctls(node: NodePlan) -> dict[str, str]:
    sysctls = {f"net/ipv4/conf/all/{key}": "0" for key in ("rp_filter", "arp_ignore", "arp_announce")}
    for port in node.ports:
        for key, value in (("rp_filter", "2"), ("arp_ignore", "1"), ("arp_announce", "2")):
            sysctls[f"net/ipv4/conf/{port.netdev}/{key}"] = value
        sysctls[f"net/ipv6/conf/{port.netdev}/accept_ra"] = "0"
    return sysctls


def format_host_address(version: int, address: int) -> str:
    """Format an address with its full prefix, as in rules."""
    return f"{format_address(version, address)}/{BITS[version]}"
