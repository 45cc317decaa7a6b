"""Inspection of one node: its kernel and files, its agent and pods, and the results of its probes, as a NodeView."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from trackbed.doctor import host_reads
from trackbed.doctor.probes import (
    ProbeSource,
    Timeouts,
    find_management_paths,
    find_sources,
    get_netns,
    probe_rails,
    read_base_chains,
    read_sysctls,
)
from trackbed.doctor.view import AttachRefusal, NodeView, PodView, SwitchView
from trackbed.fabric.model.ranges import parse_address
from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.render import FORMATS
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.state import read
from trackbed.host.transaction import carriers
from trackbed.host.transaction.files import find_renderer, list_differences


@dataclass(frozen=True, slots=True)
class Subject:
    """A node to inspect: its machine, its agent, the management addresses that it must reach, and its leaves.

    `read_agent` returns the status of the node's agent and raises OSError where no agent answers.
    """

    machine: Machine
    node: NodePlan
    read_agent: Callable[[], dict[str, Any]] | None = None
    management: tuple[int, ...] = ()
    switches: Mapping[str, SwitchView] | None = None
    host: Snapshot | None = None
    """Snapshot for the host checks, where it was taken already."""


def inspect_node(subject: Subject, plan: Plan, timeouts: Timeouts) -> NodeView:
    """Read and probe one node; `link_peers` adds what checks across nodes need."""
    machine, node = subject.machine, subject.node
    state = read(machine)
    status = _read_agent(subject)
    attachments: list[dict[str, Any]] = list(status.get("attachments", ()))
    live = [attachment for attachment in attachments if Path(attachment["netns"]).exists()]
    pods = tuple(map(_inspect_pod, live))
    rails_in_pods = frozenset(
        port["rail"] for attachment in attachments if attachment["mode"] == "move" for port in attachment["ports"]
    )
    sources = [
        source for source in find_sources(node, state, get_netns(machine)) if source.port.rail not in rails_in_pods
    ]
    for pod, attachment in zip(pods, live, strict=True):
        sources += _find_pod_sources(node, pod, attachment)
    netdevs = [port.netdev for port in node.ports]
    return NodeView(
        node=node,
        state=state,
        sysctls=read_sysctls(machine, netdevs),
        unpersisted_files=_list_unpersisted_files(machine, node),
        baseline=carriers.load(machine),
        rails_in_pods=rails_in_pods,
        moved_ports=frozenset(status.get("moved", ())),
        pods=pods,
        refusals=tuple(
            AttachRefusal(refusal["pod"], str(refusal["code"]), refusal["message"])
            for refusal in status.get("refused", ())
        ),
        probes=probe_rails(plan, node, sources, timeouts),
        chains=read_base_chains(machine),
        switches=subject.switches,
        management=subject.management,
        management_paths=find_management_paths(machine, subject.management),
        host=subject.host or host_reads.take_snapshot(machine, node),
        vfs=host_reads.read_vfs(machine, netdevs),
        dcb=host_reads.read_dcb(machine, netdevs),
    )


def link_peers(views: list[NodeView]) -> list[NodeView]:
    """Return the views with `peers` set, for checks that compare nodes."""
    return [replace(view, peers=tuple(other for other in views if other is not view)) for view in views]


def _read_agent(subject: Subject) -> dict[str, Any]:
    """Return the agent's status; empty without an agent."""
    try:
        return subject.read_agent() if subject.read_agent else {}
    except OSError:
        return {}


def _inspect_pod(attachment: dict[str, Any]) -> PodView:
    """Read the network namespace of an attached pod."""
    machine = Machine(Path("/"), Path(attachment["netns"]))
    rails = {
        port["rail"]: (port["name"], tuple(parse_agent_address(address) for address in port.get("addresses", ())))
        for port in attachment["ports"]
    }
    sysctls = read_sysctls(machine, [name for name, _ in rails.values()])
    known = {key: value for key, value in sysctls.items() if value is not None}
    return PodView(attachment["container"][:12], rails, read(machine), known)


def parse_agent_address(address: dict[str, str]) -> AddressPlan:
    """Parse an address of the agent's status."""
    host_part, _, prefix = address["text"].partition("/")
    version, number = parse_address(host_part)
    gateway = parse_address(address["gateway"])[1] if address.get("gateway") else 0
    return AddressPlan(version, number, int(prefix), gateway, 0, 0)


def _find_pod_sources(node: NodePlan, pod: PodView, attachment: dict[str, Any]) -> list[ProbeSource]:
    """Return the probe sources of ports that were moved into a pod."""
    if attachment["mode"] != "move":
        return []
    indexes = {link.name: link.index for link in pod.state.links if link.up and link.carrier}
    sources = []
    for rail, (name, addresses) in pod.rails.items():
        port = node.find_port(rail)
        if port is not None and addresses and name in indexes:
            sources.append(ProbeSource(port, Path(attachment["netns"]), indexes[name], addresses[0]))
    return sources


def _list_unpersisted_files(machine: Machine, node: NodePlan) -> tuple[str, ...] | None:
    try:
        files = FORMATS[find_renderer(machine)](node)
        return tuple(change.path for change in list_differences(machine, files))
    except OSError:
        return None
