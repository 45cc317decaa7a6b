"""The target of a fault: a port of a node in a lab, with functions to read and change the node and its leaf."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trackbed.fabric.plan.plan import AddressPlan, NodePlan, Plan, PortPlan
from trackbed.host.machine import Machine
from trackbed.kernel.netlink.addresses import FAMILY, Address
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import Link, get_link, list_links
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.routes import Route, list_routes
from trackbed.kernel.netlink.rules import PolicyRule, list_rules
from trackbed.kernel.netlink.sockets import Socket


class UnsuitableError(Exception):
    """The fault cannot be injected in this lab; the message says what it requires."""


class TargetLab(Protocol):
    """The interface of a lab that faults use."""

    fabric_file: Path
    """The lab's copy of the Fabric, from which doctor plans."""

    @property
    def plan(self) -> Plan:
        """The plan of the lab."""

    def restore_fabric(self) -> None:
        """Restore the original Fabric."""

    def locate_netns(self, name: str) -> Path:
        """Return the network namespace of a node, a leaf, a pod or the spine."""

    def get_machine(self, node: str) -> Machine:
        """Return a node as the code for hosts sees it."""

    def find_leaf_end(self, node: str, rail: int) -> tuple[str, str]:
        """Return leaf and interface at the other end of a port's cable."""

    def get_spine(self) -> str:
        """Return the name of the spine."""

    def restore_plan(self, *names: str) -> None:
        """Configure nodes, leaves or the spine as planned; a port has carrier only when both ends are up."""

    def set_advertisement(self, leaf: str, interface: str, override: str) -> None:
        """Override the LLDP advertisement of a leaf's port: `mute`, `vlan N`, or "" for none."""

    def list_pods(self, node: str) -> tuple[str, ...]:
        """Return the names of the pods attached on a node."""

    def reattach_pod(self, node: str, pod: str) -> None:
        """Detach a pod and attach it again."""

    def clear_refusals(self, node: str) -> None:
        """Clear the refusals that the node's agent remembers."""

    def attach_twin(self, node: str, pod: str, occupied: str) -> None:
        """Try to attach a pod whose namespace already has an interface `occupied`; the refusal is ignored."""


@dataclass(frozen=True, slots=True)
class FaultTarget:
    """A port of a lab's node into which a fault is injected."""

    lab: TargetLab
    node: NodePlan
    port: PortPlan

    @property
    def addressing(self) -> AddressPlan:
        """The port's IPv4 addressing (IPv6 where it has no other)."""
        if not self.port.addresses:
            raise UnsuitableError("this fault needs a Fabric with addresses")
        return self.port.addresses[0]

    @property
    def family(self) -> int:
        """The address family of `addressing`."""
        return FAMILY[self.addressing.version]

    @property
    def table(self) -> int:
        """The route table of the rail."""
        return self.node.common.rails[self.port.rail].table

    @property
    def next_rail_port(self) -> PortPlan:
        """The port of the next rail of this node."""
        others = [port for port in self.node.ports if port.rail != self.port.rail]
        if not others:
            raise UnsuitableError("this fault needs a node with two rails")
        return next((port for port in others if port.rail > self.port.rail), others[0])

    @property
    def peer(self) -> NodePlan:
        """Another node with a port on this rail, behind another leaf where there is one."""
        others = [
            node for node in self.lab.plan.nodes if node.name != self.node.name and node.find_port(self.port.rail)
        ]
        if not others:
            raise UnsuitableError("this fault needs a second node on the rail")
        return next((node for node in others if node.unit != self.node.unit), others[0])

    def is_on_host(self) -> bool:
        """Return whether the port is on the host, and not inside a pod."""
        return any(link.name == self.port.netdev for link in read_links(self.lab, self.node.name))

    def read_link(self, name: str | None = None) -> Link:
        """Return an interface of the node, by default the port."""
        return read_link(self.lab, self.node.name, name or self.port.netdev)

    def build_address(
        self, addressing: AddressPlan | None = None, *, prefix_length: int | None = None, link_index: int | None = None
    ) -> Address:
        """Return an address for netlink, by default the port's; the keyword arguments replace its values."""
        planned = addressing or self.addressing
        ifindex = self.read_link().index if link_index is None else link_index
        length = planned.prefix if prefix_length is None else prefix_length
        return Address(ifindex, FAMILY[planned.version], planned.address, length)

    def send_messages(self, *messages: Message) -> None:
        """Send netlink messages to the node."""
        send_messages(self.lab, self.node.name, *messages)

    def find_leaf_end(self) -> tuple[str, Link]:
        """Return the leaf, and its interface at the other end of the port's cable."""
        leaf, interface = self.lab.find_leaf_end(self.node.name, self.port.rail)
        return leaf, read_link(self.lab, leaf, interface)

    def write_sysctl(self, key: str, value: str) -> None:
        """Write a kernel parameter of the port, with `{}` for its name: net/ipv4/conf/{}/rp_filter."""
        self.lab.get_machine(self.node.name).write_sysctl(key.format(self.port.netdev), value)

    def read_routes(self, table: int) -> tuple[Route, ...]:
        """Return the node's routes in a table."""
        with Socket(netns=self.lab.locate_netns(self.node.name)) as sock:
            return list_routes(sock, self.family, table)

    def read_rules(self) -> tuple[PolicyRule, ...]:
        """Return the node's rules."""
        with Socket(netns=self.lab.locate_netns(self.node.name)) as sock:
            return list_rules(sock, self.family)


def send_messages(lab: TargetLab, name: str, *messages: Message) -> None:
    """Send netlink messages to a namespace of the lab."""
    with Socket(netns=lab.locate_netns(name)) as sock:
        sock.send(messages)


def read_link(lab: TargetLab, name: str, interface: str) -> Link:
    """Return an interface of a namespace of the lab."""
    with Socket(netns=lab.locate_netns(name)) as sock:
        return get_link(sock, interface)


def read_links(lab: TargetLab, netns_name: str) -> tuple[Link, ...]:
    """Return all interfaces of a namespace of the lab."""
    with Socket(netns=lab.locate_netns(netns_name)) as sock:
        return list_links(sock)


def write_sysctl(lab: TargetLab, netns_name: str, key: str, value: str) -> None:
    """Write /proc/sys/`path` in a namespace of the lab."""
    with enter_netns(lab.locate_netns(netns_name)), open(f"/proc/sys/{key}", "w", encoding="ascii") as stream:  # noqa: PTH123 - procfs
        stream.write(value)
