"""Inspection of a node: reads its kernel, files, agent and pods, and probes its rails; the result is a NodeView."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackbed.doctor import host_reads
from trackbed.doctor.probes import (
    ProbeSource,
    ProbeTimeouts,
    get_netns,
    list_probe_sources,
    map_management_paths,
    probe_rails,
    read_base_chains,
    read_neighbour_tables,
    read_sysctls,
    subtract_overflows,
)
from trackbed.doctor.view import AttachRefusal, NodeView, PodInterface, PodView
from trackbed.fabric.model.ranges import parse_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.moved_ports import read_moved_ports
from trackbed.host.network_manager import ManagerError
from trackbed.host.render import FORMATS
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.state import read_host_state
from trackbed.host.transaction import carriers
from trackbed.host.transaction.boot_files import select_files
from trackbed.host.transaction.files import list_differences
from trackbed.kernel.netlink.codec import NetlinkError


@dataclass(frozen=True, slots=True)
class InspectionTarget:
    """A node to inspect, with the management addresses that it must reach and the addresses of its leaves.

    `read_agent` returns the status of the node's agent and raises OSError if no agent answers.
    """

    machine: Machine
    node: NodePlan
    read_agent: Callable[[], dict[str, Any]] | None = None
    management: tuple[int, ...] = ()
    switches: Mapping[str, frozenset[int]] | None = None
    host: Snapshot | None = None
    """Snapshot for the host checks; None if it has not been taken yet."""


def inspect_node(target: InspectionTarget, plan: Plan, timeouts: ProbeTimeouts) -> NodeView:
    """Read and probe one node and return its view."""
    machine, node = target.machine, target.node
    tables_before = read_neighbour_tables(machine)
    state = read_host_state(machine)
    status = _read_agent_status(target)
    attachments: list[dict[str, Any]] = list(status.get("attachments", ()))
    live = [attachment for attachment in attachments if Path(attachment["netns"]).exists()]
    pods = tuple(map(_inspect_pod, live))
    moved = read_moved_ports(machine)
    rails_in_pods = frozenset(
        port["rail"] for attachment in attachments if attachment["mode"] == "move" for port in attachment["ports"]
    ) | {port.rail for port in node.ports if port.netdev in moved}
    sources = [
        source
        for source in list_probe_sources(node, state, get_netns(machine))
        if source.port.rail not in rails_in_pods
    ]
    for pod, attachment in zip(pods, live, strict=True):
        sources += _list_probe_sources(node, pod, attachment)
    netdevs = [port.netdev for port in node.ports]
    probes = probe_rails(plan, node, sources, timeouts)
    return NodeView(
        node=node,
        state=state,
        sysctls=read_sysctls(machine, netdevs),
        unpersisted_files=_list_unpersisted_files(machine, node),
        baseline=carriers.load_counts(machine),
        rails_in_pods=rails_in_pods,
        moved_ports=frozenset(status.get("moved", ())),
        pods=pods,
        refusals=_list_refusals(status),
        probes=probes,
        neighbour_tables=subtract_overflows(read_neighbour_tables(machine), tables_before),
        chains=read_base_chains(machine),
        switches=target.switches,
        management=target.management,
        management_paths=map_management_paths(machine, target.management),
        host=target.host or host_reads.take_snapshot(machine, node),
        vfs=host_reads.read_vfs(machine, netdevs),
        dcb=host_reads.read_dcb(machine, netdevs),
    )


def _read_agent_status(target: InspectionTarget) -> dict[str, Any]:
    """Return the agent's status; empty if there is no agent or it does not answer."""
    try:
        return target.read_agent() if target.read_agent else {}
    except OSError:
        return {}


def _list_refusals(status: dict[str, Any]) -> tuple[AttachRefusal, ...]:
    return tuple(
        AttachRefusal(refusal["pod"], str(refusal["code"]), refusal["message"]) for refusal in status.get("refused", ())
    )


def _inspect_pod(attachment: dict[str, Any]) -> PodView:
    """Read the network namespace of an attached pod and return its view."""
    machine = Machine(Path("/"), Path(attachment["netns"]))
    rails = {
        port["rail"]: PodInterface(
            port["name"], tuple(parse_agent_address(address) for address in port.get("addresses", ()))
        )
        for port in attachment["ports"]
    }
    sysctls = read_sysctls(machine, [name for name, _ in rails.values()])
    return PodView(attachment["container"][:12], rails, read_host_state(machine), sysctls)


def parse_agent_address(address: dict[str, str]) -> AddressPlan:
    """Parse an address as the agent's status encodes it."""
    host_part, _, prefix = address["text"].partition("/")
    version, number = parse_address(host_part)
    gateway = parse_address(address["gateway"])[1] if address.get("gateway") else 0
    return AddressPlan(version, number, int(prefix), gateway, 0, 0)


def _list_probe_sources(node: NodePlan, pod: PodView, attachment: dict[str, Any]) -> list[ProbeSource]:
    """Return the probe sources of ports that were moved into this pod; empty for other attachment modes."""
    if attachment["mode"] != "move":
        return []
    indexes = {link.name: link.index for link in pod.state.links if link.is_up and link.carrier}
    sources = []
    for rail, (name, addresses) in pod.rails.items():
        port = node.find_port(rail)
        if port is not None and addresses and name in indexes:
            sources.append(ProbeSource(port, Path(attachment["netns"]), indexes[name], addresses[0]))
    return sources


def _list_unpersisted_files(machine: Machine, node: NodePlan) -> tuple[str, ...] | None:
    """Return Trackbed's boot-time files that are missing or differ from the plan; None if unreadable."""
    try:
        files, _ = select_files(machine, node, "auto", lambda chosen: FORMATS[chosen](node))
        return tuple(change.path for change in list_differences(machine, files or {}))
    except (OSError, NetlinkError, ManagerError):
        return None
