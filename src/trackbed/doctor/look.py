"""One node as a View: its kernel and files, its agent and pods, and what its probes found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trackbed.doctor import host
from trackbed.doctor.gather import (
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
from trackbed.fabric.plan.plan import Addressed
from trackbed.host.machine import Machine
from trackbed.host.render import FORMATS
from trackbed.host.state import read
from trackbed.host.transaction import carriers
from trackbed.host.transaction.files import differences, renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trackbed.fabric.plan.plan import NodePlan, Plan
    from trackbed.host.snapshot.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Subject:
    """A node to look at: the machine, its agent, addresses of others that are no rail's, and its leaves.

    `read_agent` returns the status of the node's agent; OSError where no agent answers.
    """

    machine: Machine
    node: NodePlan
    read_agent: Callable[[], dict[str, Any]] | None = None
    management: tuple[int, ...] = ()
    switches: Mapping[str, SwitchView] | None = None
    host: Snapshot | None = None
    """What the host checks want, where somebody has read it already."""


def inspect_node(subject: Subject, plan: Plan, patience: Timeouts) -> NodeView:
    """Look at one node alone; `together` adds what only others can say."""
    machine, node = subject.machine, subject.node
    state = read(machine)
    told = _read_agent(subject)
    pods = tuple(_pod(one) for one in told.get("attachments", ()) if Path(one["netns"]).exists())
    away = frozenset(
        port["rail"] for one in told.get("attachments", ()) if one["mode"] == "move" for port in one["ports"]
    )
    taken = [seat for seat in find_sources(node, state, get_netns(machine)) if seat.port.rail not in away]
    taken += [
        seat for pod, one in zip(pods, told.get("attachments", ()), strict=False) for seat in _pod_seats(node, pod, one)
    ]
    return NodeView(
        node=node,
        state=state,
        sysctls=read_sysctls(machine, [port.netdev for port in node.ports]),
        unpersisted_files=_unpersisted(machine, node),
        baseline=carriers.load(machine),
        rails_in_pods=away,
        moved_ports=frozenset(told.get("moved", ())),
        pods=pods,
        refusals=tuple(AttachRefusal(r["pod"], str(r["code"]), r["message"]) for r in told.get("refused", ())),
        probes=probe_rails(plan, node, taken, patience),
        chains=read_base_chains(machine),
        switches=subject.switches,
        management=subject.management,
        management_paths=find_management_paths(machine, subject.management),
        host=subject.host or host.take_snapshot(machine, node),
        vfs=host.read_vfs(machine, [port.netdev for port in node.ports]),
        dcb=host.read_dcb(machine, [port.netdev for port in node.ports]),
    )


def link_peers(views: list[NodeView]) -> list[NodeView]:
    """Let each view know its peers, so that checks across nodes can be made."""
    return [replace(view, peers=tuple(other for other in views if other is not view)) for view in views]


def _read_agent(subject: Subject) -> dict[str, Any]:
    """Return the agent's status; empty where there is no agent."""
    try:
        return subject.read_agent() if subject.read_agent else {}
    except OSError:
        return {}


def _pod(one: dict[str, Any]) -> PodView:
    machine = Machine(Path("/"), Path(one["netns"]))
    rails = {
        port["rail"]: (port["name"], tuple(parse_agent_address(a) for a in port.get("addresses", ())))
        for port in one["ports"]
    }
    read_keys = read_sysctls(machine, [name for name, _ in rails.values()])
    known = {key: value for key, value in read_keys.items() if value is not None}
    return PodView(one["container"][:12], rails, read(machine), known)


def parse_agent_address(address: dict[str, str]) -> Addressed:
    """An address as the agent's status tells it."""
    written, _, prefix = address["text"].partition("/")
    version, number = parse_address(written)
    gateway = parse_address(address["gateway"])[1] if address.get("gateway") else 0
    return Addressed(version, number, int(prefix), gateway, 0, 0)


def _pod_seats(node: NodePlan, pod: PodView, one: dict[str, Any]) -> list[ProbeSource]:
    """Seats of ports that moved into a pod: there they are probed from now on."""
    if one["mode"] != "move":
        return []
    indexes = {link.name: link.index for link in pod.state.links if link.up and link.carrier}
    found = []
    for rail, (name, addresses) in pod.rails.items():
        port = node.port(rail)
        if port is not None and addresses and name in indexes:
            found.append(ProbeSource(port, Path(one["netns"]), indexes[name], addresses[0]))
    return found


def _unpersisted(machine: Machine, node: NodePlan) -> tuple[str, ...] | None:
    try:
        wanted = FORMATS[renderer(machine)](node)
        return tuple(change.path for change in differences(machine, wanted))
    except OSError:
        return None
