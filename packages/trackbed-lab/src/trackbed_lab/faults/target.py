"""Where a fault is put: a port of a node of a lab, its leaf, and hands to change either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from trackbed.kernel.netlink.addresses import FAMILY, Address
from trackbed.kernel.netlink.links import get_link, list_links
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.routes import list_routes
from trackbed.kernel.netlink.rules import list_rules
from trackbed.kernel.netlink.sockets import Socket

if TYPE_CHECKING:
    from pathlib import Path

    from trackbed.fabric.plan.plan import Addressed, NodePlan, Plan, PortPlan
    from trackbed.host.machine import Machine
    from trackbed.kernel.netlink.codec import Message
    from trackbed.kernel.netlink.links import Link
    from trackbed.kernel.netlink.routes import Route
    from trackbed.kernel.netlink.rules import PolicyRule


class UnsuitableError(Exception):
    """This lab has no place for the fault; the message says what it would need."""


class TargetLab(Protocol):
    """What a fault needs of a lab."""

    fabric_file: Path
    """The lab's own copy of the Fabric; doctor plans from it."""

    @property
    def plan(self) -> Plan:
        """The plan of the lab."""

    def restore_fabric(self) -> None:
        """Put the Fabric back that the lab was made from."""

    def locate_netns(self, name: str) -> Path:
        """The network namespace of a node, a leaf, a pod, or the spine."""

    def get_machine(self, node: str) -> Machine:
        """A node as hosts sees it."""

    def find_leaf_end(self, node: str, rail: int) -> tuple[str, str]:
        """Where a port's cable ends: (leaf, interface)."""

    def get_spine(self) -> str:
        """Name of the spine."""

    def restore_plan(self, *names: str) -> None:
        """Bring nodes, leaves or the spine back to what is planned; a port has carrier only when both ends are up."""

    def set_advertisement(self, leaf: str, interface: str, what: str) -> None:
        """Change what a leaf port says by LLDP: `mute`, `vlan N`, or `` for the truth."""

    def list_pods(self, node: str) -> tuple[str, ...]:
        """Names of the pods attached on a node."""

    def reattach(self, node: str, pod: str) -> None:
        """Detach a pod and attach it again."""

    def forget_refusals(self, node: str) -> None:
        """Let the node's agent forget what it refused."""

    def attach_twin(self, node: str, pod: str, occupied: str) -> None:
        """Try to attach a pod whose namespace already holds an interface called `occupied`; refusals are swallowed."""


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """One port in one lab."""

    lab: TargetLab
    node: NodePlan
    port: PortPlan

    @property
    def addressing(self) -> Addressed:
        """The port's IPv4 addressing (IPv6 where there is no other)."""
        if not self.port.addressed:
            raise UnsuitableError("this fault needs a Fabric with addresses")
        return self.port.addressed[0]

    @property
    def family(self) -> int:
        """Address family of `own`."""
        return FAMILY[self.addressing.version]

    @property
    def table(self) -> int:
        """Route table of the rail."""
        return self.node.common.rails[self.port.rail].table

    @property
    def neighbour(self) -> PortPlan:
        """The port of the next rail of this node."""
        others = [port for port in self.node.ports if port.rail != self.port.rail]
        if not others:
            raise UnsuitableError("this fault needs a node with two rails")
        return next((port for port in others if port.rail > self.port.rail), others[0])

    @property
    def peer(self) -> NodePlan:
        """Another node with a port on this rail, behind another leaf where there is one."""
        others = [n for n in self.lab.plan.nodes if n.name != self.node.name and n.port(self.port.rail)]
        if not others:
            raise UnsuitableError("this fault needs a second node on the rail")
        return next((n for n in others if n.unit != self.node.unit), others[0])

    def is_on_host(self) -> bool:
        """Whether the port is on the host, and not inside a pod."""
        return any(found.name == self.port.netdev for found in read_links(self.lab, self.node.name))

    def read_link(self, name: str | None = None) -> Link:
        """An interface of the node, by default the port."""
        return read_link(self.lab, self.node.name, name or self.port.netdev)

    def build_address(
        self, own: Addressed | None = None, *, prefix: int | None = None, index: int | None = None
    ) -> Address:
        """An address on the port (or on interface `index`), as the kernel is told of it."""
        chosen = own or self.addressing
        where = self.read_link().index if index is None else index
        length = chosen.prefix if prefix is None else prefix
        return Address(where, FAMILY[chosen.version], chosen.address, length)

    def send(self, *messages: Message) -> None:
        """Change the node."""
        send_messages(self.lab, self.node.name, *messages)

    def find_leaf_end(self) -> tuple[str, Link]:
        """The leaf's end of the cable."""
        leaf, interface = self.lab.find_leaf_end(self.node.name, self.port.rail)
        return leaf, read_link(self.lab, leaf, interface)

    def write_sysctl(self, key: str, value: str) -> None:
        """Write a kernel parameter of the port; `key` as in net/ipv4/conf/{}/rp_filter."""
        self.lab.get_machine(self.node.name).write_sysctl(key.format(self.port.netdev), value)

    def list_routes(self, table: int) -> tuple[Route, ...]:
        """The node's routes in a table."""
        with Socket(netns=self.lab.locate_netns(self.node.name)) as sock:
            return list_routes(sock, self.family, table)

    def list_rules(self) -> tuple[PolicyRule, ...]:
        """The node's rules."""
        with Socket(netns=self.lab.locate_netns(self.node.name)) as sock:
            return list_rules(sock, self.family)


def send_messages(site: TargetLab, name: str, *messages: Message) -> None:
    """Change a namespace of the lab."""
    with Socket(netns=site.locate_netns(name)) as sock:
        sock.send(messages)


def read_link(site: TargetLab, name: str, interface: str) -> Link:
    """An interface in a namespace of the lab."""
    with Socket(netns=site.locate_netns(name)) as sock:
        return get_link(sock, interface)


def read_links(site: TargetLab, name: str) -> tuple[Link, ...]:
    """All interfaces of a namespace of the lab."""
    with Socket(netns=site.locate_netns(name)) as sock:
        return list_links(sock)


def write_sysctl(site: TargetLab, name: str, path: str, value: str) -> None:
    """Write /proc/sys/`path` in a namespace of the lab."""
    with enter_netns(site.locate_netns(name)), open(f"/proc/sys/{path}", "w", encoding="ascii") as stream:  # noqa: PTH123 - procfs
        stream.write(value)
