"""Inspection of a node: reads its kernel, files, agent and pods, and probes its rails; the result is a NodeView."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trackbed.doctor import host_reads
from trackbed.doctor.agent_status import AgentStatus, PodAttachment, read_agent_status
from trackbed.doctor.probes import (
    ProbeSource,
    ProbeTimeouts,
    list_probe_sources,
    map_management_paths,
    probe_rails,
    read_neighbour_tables,
    subtract_overflows,
)
from trackbed.doctor.view import AGENT, BOOT_FILES, AttachRefusal, NodeView, PodInterface, PodView
from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.moved_ports import read_moved_ports
from trackbed.host.network_manager import ManagerError
from trackbed.host.render import FORMATS
from trackbed.host.snapshot.reading import get_netns, read_base_chains, read_dcb, read_sysctls, read_vfs
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.state import HostState, read_available_state
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
    """Read and probe one node and return its view; what does not answer is in its `unread`.

    Raises OSError if the node has no netlink socket.
    """
    machine, node = target.machine, target.node
    tables_before = read_neighbour_tables(machine)
    state, unread = read_available_state(machine)
    status, silence = read_agent_status(machine, target.read_agent)
    unread |= {AGENT: silence} if silence else {}
    live = [attachment for attachment in status.attachments if not _is_gone(attachment)]
    pods = tuple(map(_inspect_pod, live))
    rails_in_pods = _list_rails_in_pods(machine, node, status)
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
        unpersisted_files=_list_unpersisted_files(machine, node, unread),
        baseline=carriers.load_counts(machine),
        rails_in_pods=rails_in_pods,
        moved_ports=status.moved,
        pods=pods,
        has_agent=bool(status.node),
        refusals=tuple(AttachRefusal(refused.pod, str(refused.code), refused.message) for refused in status.refused),
        probes=probes,
        neighbour_tables=subtract_overflows(read_neighbour_tables(machine), tables_before),
        chains=read_base_chains(machine),
        switches=target.switches,
        management=target.management,
        management_paths=map_management_paths(state, target.management),
        host=target.host or host_reads.take_snapshot(machine, node),
        vfs=read_vfs(machine, netdevs, unread),
        dcb=read_dcb(machine, netdevs, unread),
        unread=unread,
    )


def _list_rails_in_pods(machine: Machine, node: NodePlan, status: AgentStatus) -> frozenset[int]:
    """Return the rails whose port is in a pod, by the agent's status and by its journal."""
    moved = read_moved_ports(machine)
    attached = {
        port.rail for attachment in status.attachments if attachment.mode == "move" for port in attachment.ports
    }
    return frozenset(attached | {port.rail for port in node.ports if port.netdev in moved})


def _is_gone(attachment: PodAttachment) -> bool:
    """Return whether the namespace of a pod does not exist any more."""
    try:
        Path(attachment.netns).stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        return False
    return False


def _inspect_pod(attachment: PodAttachment) -> PodView:
    """Read the network namespace of an attached pod and return its view."""
    machine = Machine(Path("/"), Path(attachment.netns))
    rails = {
        port.rail: PodInterface(port.name, port.parse_addresses(), port.host.vf if port.host and port.host.pf else -1)
        for port in attachment.ports
    }
    name = attachment.container[:12]
    try:
        state, failures = read_available_state(machine)
        sysctls = read_sysctls(machine, [interface.name for interface in rails.values()])
    except (OSError, ValueError) as error:
        return PodView(name, rails, HostState(machine, (), (), (), (), ()), {}, str(error))
    return PodView(name, rails, state, sysctls, "; ".join(f"{part}: {reason}" for part, reason in failures.items()))


def _list_probe_sources(node: NodePlan, pod: PodView, attachment: PodAttachment) -> list[ProbeSource]:
    """Return the probe sources of ports that were moved into this pod; empty for other attachment modes."""
    if attachment.mode != "move":
        return []
    indexes = {link.name: link.index for link in pod.state.links if link.is_up and link.carrier}
    sources = []
    for rail, (name, addresses, _) in pod.rails.items():
        port = node.find_port(rail)
        if port is not None and addresses and name in indexes:
            sources.append(ProbeSource(port, Path(attachment.netns), indexes[name], addresses[0]))
    return sources


def _list_unpersisted_files(machine: Machine, node: NodePlan, unread: dict[str, str]) -> tuple[str, ...] | None:
    """Return Trackbed's boot-time files that are missing or differ from the plan.

    If they cannot be compared, return None and add the reason to `unread`.
    """
    try:
        files, _ = select_files(machine, node, "auto", lambda chosen: FORMATS[chosen](node))
        return tuple(change.path for change in list_differences(machine, files or {}))
    except (OSError, NetlinkError, ManagerError) as error:
        unread[BOOT_FILES] = str(error)
        return None
