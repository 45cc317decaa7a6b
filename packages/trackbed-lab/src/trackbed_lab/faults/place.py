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


class Site(Protocol):
    """What a fault needs of a lab."""

    fabric_file: Path
    """The lab's own copy of the Fabric; doctor plans from it."""

    @property
    def plan(self) -> Plan:
        """The plan of the lab."""

    def restore_fabric(self) -> None:
        """Put the Fabric back that the lab was made from."""

    def netns(self, name: str) -> Path:
        """The network namespace of a node, a leaf, a pod, or the spine."""

    def machine(self, node: str) -> Machine:
        """A node as hosts sees it."""

    def leaf_end(self, node: str, rail: int) -> tuple[str, str]:
        """Where a port's cable ends: (leaf, interface)."""

    def spine(self) -> str:
        """Name of the spine."""

    def settle(self, *names: str) -> None:
        """Bring nodes, leaves or the spine back to what is planned; a port has carrier only when both ends are up."""

    def advertise(self, leaf: str, interface: str, what: str) -> None:
        """Change what a leaf port says by LLDP: `mute`, `vlan N`, or `` for the truth."""

    def pods(self, node: str) -> tuple[str, ...]:
        """Names of the pods attached on a node."""

    def reattach(self, node: str, pod: str) -> None:
        """Detach a pod and attach it again."""

    def forget_refusals(self, node: str) -> None:
        """Let the node's agent forget what it refused."""

    def attach(self, node: str, pod: str, occupied: str) -> None:
        """Try to attach a pod whose namespace already holds an interface called `occupied`; refusals are swallowed."""


@dataclass(frozen=True, slots=True)
class Place:
    """One port in one lab."""

    site: Site
    node: NodePlan
    port: PortPlan

    @property
    def own(self) -> Addressed:
        """The port's IPv4 addressing (IPv6 where there is no other)."""
        if not self.port.addressed:
            raise UnsuitableError("this fault needs a Fabric with addresses")
        return self.port.addressed[0]

    @property
    def family(self) -> int:
        """Address family of `own`."""
        return FAMILY[self.own.version]

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
        others = [n for n in self.site.plan.nodes if n.name != self.node.name and n.port(self.port.rail)]
        if not others:
            raise UnsuitableError("this fault needs a second node on the rail")
        return next((n for n in others if n.unit != self.node.unit), others[0])

    def is_here(self) -> bool:
        """Whether the port is on the host, and not inside a pod."""
        return any(found.name == self.port.netdev for found in links(self.site, self.node.name))

    def link(self, name: str | None = None) -> Link:
        """An interface of the node, by default the port."""
        return link(self.site, self.node.name, name or self.port.netdev)

    def address(self, own: Addressed | None = None, *, prefix: int | None = None, index: int | None = None) -> Address:
        """An address on the port (or on interface `index`), as the kernel is told of it."""
        chosen = own or self.own
        where = self.link().index if index is None else index
        length = chosen.prefix if prefix is None else prefix
        return Address(where, FAMILY[chosen.version], chosen.address, length)

    def do(self, *messages: Message) -> None:
        """Change the node."""
        do(self.site, self.node.name, *messages)

    def at_leaf(self) -> tuple[str, Link]:
        """The leaf's end of the cable."""
        leaf, interface = self.site.leaf_end(self.node.name, self.port.rail)
        return leaf, link(self.site, leaf, interface)

    def sysctl(self, key: str, value: str) -> None:
        """Write a kernel parameter of the port; `key` as in net/ipv4/conf/{}/rp_filter."""
        self.site.machine(self.node.name).write_sysctl(key.format(self.port.netdev), value)

    def routes(self, table: int) -> tuple[Route, ...]:
        """The node's routes in a table."""
        with Socket(netns=self.site.netns(self.node.name)) as sock:
            return list_routes(sock, self.family, table)

    def rules(self) -> tuple[PolicyRule, ...]:
        """The node's rules."""
        with Socket(netns=self.site.netns(self.node.name)) as sock:
            return list_rules(sock, self.family)


def do(site: Site, name: str, *messages: Message) -> None:
    """Change a namespace of the lab."""
    with Socket(netns=site.netns(name)) as sock:
        sock.send(messages)


def link(site: Site, name: str, interface: str) -> Link:
    """An interface in a namespace of the lab."""
    with Socket(netns=site.netns(name)) as sock:
        return get_link(sock, interface)


def links(site: Site, name: str) -> tuple[Link, ...]:
    """All interfaces of a namespace of the lab."""
    with Socket(netns=site.netns(name)) as sock:
        return list_links(sock)


def set_sysctl(site: Site, name: str, path: str, value: str) -> None:
    """Write /proc/sys/`path` in a namespace of the lab."""
    with enter_netns(site.netns(name)), open(f"/proc/sys/{path}", "w", encoding="ascii") as stream:  # noqa: PTH123 - procfs
        stream.write(value)
