"""Mode macvlan: each rail's port stays on the node, the pod gets an interface on it.

Two batches attach: interfaces straight into the pod with their final names, then everything inside the pod. One delete
for the whole group detaches, since the kernel waits for an RCU grace period (16 ms) at each delete; see `departure`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Mapping

from trackbed.fabric.plan.plan import AddressPlan, NodePlan
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import batch, pod
from trackbed.node.rails.attachment import Attachment, Key, Port, address_of, mac_of
from trackbed.node.rails.batch import GONE, Step
from trackbed.node.rails.departure import Departures
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.rdma import of_port
from trackbed.node.rails.sandbox import Sandbox
from trackbed.node.rails.store import Blocks, Chosen


class Macvlan:
    """Attaches and detaches pods of one node."""

    def __init__(self, node: NodePlan) -> None:
        self._node = node
        self._departures = Departures()

    def blocks(self, rails: Iterable[int]) -> Blocks:
        """What the plan has for pods on these rails of the node."""
        return {port.rail: port.addresses for port in self._node.ports if port.rail in rails}

    def ports(self, chosen: Chosen, key: Key, names: Mapping[int, str]) -> tuple[Port, ...]:
        """What a pod gets for the addresses chosen; `names` are what the kubelet calls it, where it does."""
        return tuple(self._port(rail, own, key, names.get(rail, "")) for rail, own in chosen.items())

    def _port(self, rail: int, own: tuple[AddressPlan, ...], key: Key, device: str) -> Port:
        common, planned = self._node.common, self._node.find_port(rail)
        name, mac = common.rails[rail].pod_netdev, mac_of(own, key, rail)
        head = (rail, name, mac, common.mtu_bytes, tuple(map(address_of, own)))
        return Port(*head, rdma=of_port(planned, common) if planned else None, device=device)

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Make the interfaces and set them up; StepsRefusedError or CniError leaves what was done."""
        with Socket() as host:
            batch.send(host, list(self._created(attachment, sandbox)))
        with Socket(netns=sandbox.fd) as inside:
            batch.send(inside, pod.bring_up(attachment, self._node.common))

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Take everything away; nothing to do where the namespace is gone. StepsRefusedError if something stays."""
        if sandbox is None:
            return
        with Socket(netns=sandbox.fd) as inside:
            batch.send(inside, pod.take_down(attachment, self._node.common, alone=alone))
        delete = Step(-1, "delete the pod's interfaces", links.delete_group(pod.group(attachment)), GONE)
        self._departures.delete(sandbox.fd, delete, (pod.index(port.rail) for port in attachment.ports))

    def _created(self, attachment: Attachment, sandbox: Sandbox) -> Iterator[Step]:
        group = pod.group(attachment)
        for port in attachment.ports:
            planned = self._node.find_port(port.rail)
            parent = planned.netdev if planned else ""
            message = links.create_macvlan(
                port.name,
                _index(port.rail, parent),
                netns_fd=sandbox.fd,
                index=pod.index(port.rail),
                mac=port.mac,
                mtu=port.mtu_bytes,
                group=group,
            )
            yield Step(port.rail, f"create {port.name} on port {parent}", message)


def _index(rail: int, parent: str) -> int:
    try:
        return socket.if_nametoindex(parent)
    except OSError as error:
        remedy = "`trackbed doctor` on this node says why and what to do"
        raise CniError(Code.KERNEL, f"rail {rail}: port {parent} is not on this node", remedy) from error
