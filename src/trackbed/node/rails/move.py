"""Modes move and sriov: the port itself, or a VF of it, moves into the pod and back.

A VF keeps its MAC address, and its number determines its address in the rail's block, so a neighbour's entry for a VF
stays valid for its next pod. Trust and spoof check of a VF are set through its port at each attach.

The kernel drops addresses, routes and sysctls of a device that leaves a namespace, so they are read and recorded first.
DEL restores them with name, index (if still free) and MTU. Routing rules are kept by the kernel. Each move waits for an
RCU grace period (16 ms); the kernel has no batch for moves.
"""

import errno
import logging
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from trackbed.fabric.plan.plan import CommonPlan, NodePlan, PortPlan
from trackbed.kernel.netlink import links, vfs
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import hardware, hostport, pod, rdma
from trackbed.node.rails.attachment import PORT_ITSELF, Attachment, HostPort, PodPort, to_pod_address
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.sandbox import Sandbox
from trackbed.node.rails.store import Slot

_log = logging.getLogger(__name__)


class Move:
    """Moves ports of one node into pods and back."""

    def __init__(self, node: NodePlan, host_netns: int, sysfs: Path = hardware.SYSFS) -> None:
        """`host_netns` is a descriptor of the node's network namespace."""
        self._node = node
        self._host_netns = host_netns
        self._sysfs = sysfs
        self.moved: set[str] = set()
        """Ports that have been in a pod since the agent started; their carrier counts do not reflect the cable."""
        self._late: dict[Slot, PodPort] = {}
        """Devices that had not returned to the host when their pod ended."""
        self._lock = threading.Lock()

    def build_ports(self, chosen: Mapping[int, int], devices: Mapping[int, str]) -> tuple[PodPort, ...]:
        """Return the pod's ports for the chosen ports or VFs, with their state on the host.

        Args:
            chosen: VF number, or PORT_ITSELF, by rail.
            devices: the kubelet's device ids by rail.

        Raises:
            CniError: a device is not on the host (KERNEL).
        """
        self.restore_late()
        planned = [port for port in self._node.ports if port.rail in chosen]
        with Socket() as host:
            host_links = [_read_link(host, port, chosen[port.rail], self._sysfs) for port in planned]
            states = hostport.read_host_ports(host, host_links)
        return tuple(
            self._build_port(port, chosen[port.rail], link.mac, state, devices.get(port.rail, ""))
            for port, link, state in zip(planned, host_links, states, strict=True)
        )

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Move the devices into the pod and configure them. StepsRefusedError leaves the completed part."""
        self.moved.update(port.host.name for port in attachment.ports if port.host and not port.host.pf)
        with Socket() as host:
            send_steps(host, [*_restrict_vfs(attachment, self._node.common), *_move_into_pod(attachment, sandbox)])
        with Socket(netns=sandbox.fd) as inside:
            send_steps(inside, pod.bring_up(attachment, self._node.common))
        rdma.move_into_pod(attachment.ports, sandbox.fd)

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Move the devices back and restore the host's state. Raises StepsRefusedError where one cannot leave the pod.

        `alone`: no other attachment is in the namespace.
        """
        if sandbox is not None:
            rdma.move_to_host(attachment.ports, sandbox.fd, self._host_netns)
            with Socket(netns=sandbox.fd) as inside:
                send_steps(inside, pod.take_down(attachment, self._node.common, alone=alone))
                self._move_back(inside, attachment)
        missing = self._restore(attachment.ports, hostport.RETURN_SECONDS)
        with self._lock:
            self._late |= missing

    def restore_late(self) -> None:
        """Restore devices that returned late; the kernel ends a namespace asynchronously."""
        if not self._late:
            return
        with self._lock:
            self._late = self._restore(tuple(self._late.values()), 0)

    def _restore(self, ports: Sequence[PodPort], timeout_seconds: float) -> dict[Slot, PodPort]:
        """Restore the host's state of ports; return the ports that have not returned within the timeout."""
        with Socket() as host:
            unreturned = hostport.restore_host_ports(host, ports, self._sysfs, timeout_seconds)
        missing = {_get_slot(port): port for port in unreturned}
        rdma.recreate(port for port in ports if _get_slot(port) not in missing)
        return missing

    def _move_back(self, inside: Socket, attachment: Attachment) -> None:
        """Move the devices to the host, with their former index where it is free."""
        present = {link.index for link in links.list_links(inside)}
        steps = [
            NetlinkStep(port.rail, f"move {port.name} back", self._build_return(port, port.host, keep_index=True))
            for port in attachment.ports
            if port.host and pod.get_index(port.rail) in present
        ]
        try:
            send_steps(inside, steps)
        except StepsRefusedError as error:
            if any(refusal.errno not in {errno.EBUSY, errno.EEXIST} for refusal in error.refusals):
                raise
            _log.warning("%s; trying with a new index", error)
            send_steps(inside, (self._drop_index(attachment, refusal.step) for refusal in error.refusals))

    def _drop_index(self, attachment: Attachment, step: NetlinkStep) -> NetlinkStep:
        port = next(port for port in attachment.ports if port.rail == step.rail)
        assert port.host is not None  # noqa: S101 - only ports with it are moved
        return step._replace(message=self._build_return(port, port.host, keep_index=False))

    def _build_return(self, port: PodPort, state: HostPort, *, keep_index: bool) -> Message:
        new_index = state.ifindex if keep_index else None
        return links.set_link(pod.get_index(port.rail), name=state.name, netns_fd=self._host_netns, new_index=new_index)

    def _build_port(self, planned: PortPlan, vf: int, mac: str, state: HostPort, device: str) -> PodPort:
        common = self._node.common
        name = common.rails[planned.rail].pod_netdev
        if vf == PORT_ITSELF:
            addresses, mtu = planned.addresses, common.mtu_bytes
            rdma_device = rdma.find_moved_port_device(planned, common, self._sysfs)
        else:
            addresses = tuple(block.with_address(block.pods_first + vf) for block in planned.addresses)
            mtu, rdma_device = common.vf_mtu_bytes, rdma.find_vf_device(planned, vf, common, self._sysfs)
            state = msgspec.structs.replace(state, vf=vf, pf=planned.netdev)
        return PodPort(planned.rail, name, mac, mtu, tuple(map(to_pod_address, addresses)), state, rdma_device, device)


def _get_slot(port: PodPort) -> Slot:
    return port.rail, port.host.vf if port.host else PORT_ITSELF


def _read_link(host: Socket, port: PortPlan, vf: int, sysfs: Path) -> links.Link:
    name, description = port.netdev, f"port {port.netdev}"
    if vf != PORT_ITSELF:
        description = f"the interface of VF {vf} of {port.netdev}"
        name = hardware.read_interface(hardware.locate_vf(port.netdev, vf, sysfs)) or ""
    try:
        return links.get_link(host, name)
    except RequestError as error:
        if error.errno not in {errno.ENODEV, errno.EINVAL}:
            raise
        remedy = "another pod may have it (`trackbed agent status`); if none has, `trackbed doctor` says why"
        raise CniError(Code.KERNEL, f"rail {port.rail}: {description} is not on this node", remedy) from error


def _restrict_vfs(attachment: Attachment, common: CommonPlan) -> Iterator[NetlinkStep]:
    """Yield the steps that set trust and spoof check of VFs. Drivers without support for it (EOPNOTSUPP) are accepted.

    Raises:
        OSError: a port is not on the host.
    """
    change = vfs.VfChange(trust=common.vf_trust, spoof_check=common.vf_spoof_check)
    for port in attachment.ports:
        if port.host and port.host.pf and common.link_type == "ethernet":
            message = vfs.set_vf(socket.if_nametoindex(port.host.pf), port.host.vf, change)
            yield NetlinkStep(port.rail, f"guard VF {port.host.vf} of {port.host.pf}", message, errno.EOPNOTSUPP)


def _move_into_pod(attachment: Attachment, sandbox: Sandbox) -> Iterator[NetlinkStep]:
    for port in attachment.ports:
        if port.host is None:
            continue
        message = links.set_link(
            port.host.ifindex,
            netns_fd=sandbox.fd,
            name=port.name,
            new_index=pod.get_index(port.rail),
            mtu=port.mtu_bytes,
        )
        kind = "port" if port.host.vf == PORT_ITSELF else "VF"
        yield NetlinkStep(port.rail, f"move {kind} {port.host.name} into the pod", message)
