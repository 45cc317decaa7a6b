"""Mode macvlan: the rail's port stays on the host, and the pod gets a macvlan interface on it.

Attaching takes two batches: the first creates the interfaces directly in the pod with their final names, the second
configures them. Detaching takes one delete for the whole group, because the kernel waits for an RCU grace period
(16 ms) at each delete; see `deletion`.
"""

import errno
import logging
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.netns_ids import assign_netns_id
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import pod
from trackbed.node.rails.attachment import Attachment, Key, PodPort, Rdma, derive_mac, to_pod_address
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps
from trackbed.node.rails.deletion import delete_by_index, delete_interfaces
from trackbed.node.rails.hostport import read_port_index
from trackbed.node.rails.identity import IdentifiedLink, choose_from_pod_links
from trackbed.node.rails.rdma import find_port_device
from trackbed.node.rails.sandbox import Sandbox
from trackbed.node.rails.store import ChosenAddresses

_log = logging.getLogger(__name__)

_THREADS = 16


class Macvlan:
    """Attaches pods of one node to its ports by macvlan interfaces, and detaches them."""

    def __init__(self, node: NodePlan, host_netns_fd: int) -> None:
        """`host_netns_fd` is a descriptor of the node's network namespace."""
        self._node = node
        self._host_netns_fd = host_netns_fd
        self._threads = ThreadPoolExecutor(_THREADS, "deletion")

    def find_rdma_devices(self, rails: Collection[int]) -> dict[int, Rdma | None]:
        """Return the RDMA device that pods get on the port of each rail; None for a rail without one."""
        ports = [port for port in self._node.ports if port.rail in rails]
        return {port.rail: find_port_device(port, self._node.common) for port in ports}

    def build_ports(
        self,
        chosen_addresses: ChosenAddresses,
        key: Key,
        device_ids: Mapping[int, str],
        rdma_devices: Mapping[int, Rdma | None],
    ) -> tuple[PodPort, ...]:
        """Return the pod's ports for the chosen addresses; `device_ids` are the kubelet's, by rail."""
        common = self._node.common
        return tuple(
            PodPort(
                rail,
                common.rails[rail].pod_netdev,
                derive_mac(addresses, key, rail),
                common.mtu_bytes,
                tuple(map(to_pod_address, addresses)),
                rdma=rdma_devices.get(rail),
                device=device_ids.get(rail, ""),
            )
            for rail, addresses in chosen_addresses.items()
        )

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Create the interfaces and configure them.

        After StepsRefusedError or CniError, the caller undoes what was completed.
        """
        with Socket() as host:
            send_steps(host, list(self._iter_creation_steps(attachment, sandbox)))
        with Socket(netns=sandbox.fd) as pod_socket:
            send_steps(pod_socket, pod.iter_setup_steps(attachment, self._node.common))

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Remove the attachment from its namespace, if that still exists. Raises StepsRefusedError, NetlinkError.

        `alone`: no other attachment is in the namespace.
        """
        if sandbox is None:
            return
        pod.clear_settings(attachment, self._node.common, sandbox, alone=alone)
        message = links.build_delete_group(pod.get_interface_group(attachment))
        step = NetlinkStep(-1, "delete the pod's interfaces", message, errno.ENODEV)
        indexes = [pod.get_interface_index(port.rail) for port in attachment.ports]
        try:
            complete = delete_interfaces(self._threads, sandbox.fd, step, indexes)
        except StepsRefusedError as error:
            _log.warning("%s: %s; deleting each by itself", attachment, error)
            complete = False
        if not complete:
            self._delete_each(attachment, sandbox)

    def _delete_each(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Delete all macvlans in a pod that are on the attachment's ports, whatever the pod has made of them."""
        rails = {port.rail for port in attachment.ports}
        netdevs = {port.netdev for port in self._node.ports if port.rail in rails}
        with Socket() as host, Socket(netns=sandbox.fd) as pod_socket:
            host_id = assign_netns_id(host, self._host_netns_fd)
            ports = {link.index for link in links.list_links(host) if link.name in netdevs}

            def choose_index(pair: IdentifiedLink) -> int | None:
                link, identity = pair
                is_on_port = link.kind == "macvlan" and identity.peer in ports and identity.peer_netns == host_id
                return link.index if is_on_port else None

            delete_by_index(pod_socket, choose_from_pod_links(host, sandbox.fd, choose_index))

    def _iter_creation_steps(self, attachment: Attachment, sandbox: Sandbox) -> Iterator[NetlinkStep]:
        group = pod.get_interface_group(attachment)
        for port in attachment.ports:
            host_port = self._node.find_port(port.rail)
            parent = host_port.netdev if host_port else ""
            message = links.build_create_macvlan(
                port.name,
                read_port_index(port.rail, parent),
                netns_fd=sandbox.fd,
                index=pod.get_interface_index(port.rail),
                mac=port.mac,
                mtu=port.mtu_bytes,
                group=group,
            )
            yield NetlinkStep(port.rail, f"create {port.name} on port {parent}", message, names_interface=True)
