"""Mode macvlan: the rail's port stays on the host, and the pod gets a macvlan interface on it.

Attaching takes two batches: the first creates the interfaces directly in the pod with their final names, the second
configures them. Detaching takes one delete for the whole group, because the kernel waits for an RCU grace period
(16 ms) at each delete; see `deletion`.
"""

import errno
import socket
from collections.abc import Iterable, Iterator, Mapping

from trackbed.fabric.plan.plan import AddressPlan, NodePlan
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import pod
from trackbed.node.rails.attachment import Attachment, Key, PodPort, derive_mac, to_pod_address
from trackbed.node.rails.batch import NetlinkStep, send_steps
from trackbed.node.rails.deletion import InterfaceDeleter
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.rdma import find_port_device
from trackbed.node.rails.sandbox import Sandbox
from trackbed.node.rails.store import Blocks, Chosen


class Macvlan:
    """Attaches and detaches pods of one node."""

    def __init__(self, node: NodePlan) -> None:
        self._node = node
        self._deleter = InterfaceDeleter()

    def select_blocks(self, rails: Iterable[int]) -> Blocks:
        """Return the planned pod addresses of these rails of the node."""
        return {port.rail: port.addresses for port in self._node.ports if port.rail in rails}

    def build_ports(self, chosen: Chosen, key: Key, devices: Mapping[int, str]) -> tuple[PodPort, ...]:
        """Return the pod's ports for the chosen addresses; `devices` are the kubelet's device ids by rail."""
        return tuple(
            self._build_port(rail, addresses, key, devices.get(rail, "")) for rail, addresses in chosen.items()
        )

    def _build_port(self, rail: int, addresses: tuple[AddressPlan, ...], key: Key, device: str) -> PodPort:
        common, port = self._node.common, self._node.find_port(rail)
        name, mac = common.rails[rail].pod_netdev, derive_mac(addresses, key, rail)
        head = (rail, name, mac, common.mtu_bytes, tuple(map(to_pod_address, addresses)))
        return PodPort(*head, rdma=find_port_device(port, common) if port else None, device=device)

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Create the interfaces and configure them. StepsRefusedError and CniError leave the completed part."""
        with Socket() as host:
            send_steps(host, list(self._create_interfaces(attachment, sandbox)))
        with Socket(netns=sandbox.fd) as inside:
            send_steps(inside, pod.bring_up(attachment, self._node.common))

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Remove the attachment from its namespace, if that still exists. Raises StepsRefusedError.

        `alone`: no other attachment is in the namespace.
        """
        if sandbox is None:
            return
        with Socket(netns=sandbox.fd) as inside:
            send_steps(inside, pod.take_down(attachment, self._node.common, alone=alone))
        message = links.delete_group(pod.get_group(attachment))
        step = NetlinkStep(-1, "delete the pod's interfaces", message, errno.ENODEV)
        self._deleter.delete(sandbox.fd, step, (pod.get_index(port.rail) for port in attachment.ports))

    def _create_interfaces(self, attachment: Attachment, sandbox: Sandbox) -> Iterator[NetlinkStep]:
        group = pod.get_group(attachment)
        for port in attachment.ports:
            host_port = self._node.find_port(port.rail)
            parent = host_port.netdev if host_port else ""
            message = links.create_macvlan(
                port.name,
                _read_parent_index(port.rail, parent),
                netns_fd=sandbox.fd,
                index=pod.get_index(port.rail),
                mac=port.mac,
                mtu=port.mtu_bytes,
                group=group,
            )
            yield NetlinkStep(port.rail, f"create {port.name} on port {parent}", message)


def _read_parent_index(rail: int, parent: str) -> int:
    try:
        return socket.if_nametoindex(parent)
    except OSError as error:
        remedy = "`trackbed doctor` on this node says why and what to do"
        raise CniError(Code.KERNEL, f"rail {rail}: port {parent} is not on this node", remedy) from error
