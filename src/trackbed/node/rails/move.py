"""Modes move and sriov: the port itself, or a VF of it, goes into the pod and comes back.

A VF keeps its MAC address, and its number says which address of the rail's block it has: so a neighbour that knows one
of a VF's pods knows the next one too. What it may do (trust, spoof check) is set through its port at each attach.

What the kernel drops when a device leaves a namespace is read first and recorded: addresses, routes by it, switches.
DEL sets it again, so that the node is as it was: name, index (if still free), MTU, addresses, routes. Rules stay where
they are. Each move waits for an RCU grace period in the kernel (16 ms), whoever asks; there is no batch for that.
"""

from __future__ import annotations

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
from trackbed.node.rails import batch, hardware, hostport, pod, rdma
from trackbed.node.rails.attachment import PORT_ITSELF, Attachment, HostPort, PodPort, to_pod_address
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.sandbox import Sandbox
from trackbed.node.rails.store import Slot

_log = logging.getLogger(__name__)


class Move:
    """Moves ports of one node into pods and back."""

    def __init__(self, node: NodePlan, home: int, sysfs: Path = hardware.SYSFS) -> None:
        """`home` is a descriptor of the node's network namespace."""
        self._node = node
        self._home = home
        self._sysfs = sysfs
        self.moved: set[str] = set()
        """Ports that have been in a pod since the agent started: their carrier counts say nothing of the cable."""
        self._late: dict[Slot, PodPort] = {}
        """What had not come home when its pod was gone, by rail and VF."""
        self._lock = threading.Lock()

    def build_ports(self, chosen: Mapping[int, int], names: Mapping[int, str]) -> tuple[PodPort, ...]:
        """The ports or VFs chosen by rail as they stand on the host; CniError (KERNEL) if one is not there.

        `names` are what the kubelet calls them, where it does.
        """
        self.restore_late()
        planned = [port for port in self._node.ports if port.rail in chosen]
        with Socket() as host:
            found = [_link(host, port, chosen[port.rail], self._sysfs) for port in planned]
            had = hostport.read_host_ports(host, found)
        return tuple(
            self._port(port, chosen[port.rail], link.mac, was, names.get(port.rail, ""))
            for port, link, was in zip(planned, found, had, strict=True)
        )

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Move the devices in and set them up; StepsRefusedError leaves whatever was done."""
        self.moved.update(port.host.name for port in attachment.ports if port.host and not port.host.pf)
        with Socket() as host:
            batch.send_steps(host, [*_guards(attachment, self._node.common), *_into_pod(attachment, sandbox)])
        with Socket(netns=sandbox.fd) as inside:
            batch.send_steps(inside, pod.bring_up(attachment, self._node.common))
        rdma.move_into_pod(attachment.ports, sandbox.fd)

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Move the devices back and give the host what it had; StepsRefusedError if one cannot leave the pod."""
        if sandbox is not None:
            rdma.move_to_host(attachment.ports, sandbox.fd, self._home)
            with Socket(netns=sandbox.fd) as inside:
                batch.send_steps(inside, pod.take_down(attachment, self._node.common, alone=alone))
                self._back(inside, attachment)
        away = self._restored(attachment.ports, hostport.RETURN_SECONDS)
        with self._lock:
            self._late |= away

    def restore_late(self) -> None:
        """Give what has come home late its name and the rest; a namespace ends when the kernel has time for it."""
        if not self._late:
            return
        with self._lock:
            self._late = self._restored(tuple(self._late.values()), 0)

    def _restored(self, ports: Sequence[PodPort], patience: float) -> dict[Slot, PodPort]:
        """Give the host what it had of these; those that are not home within `patience` seconds."""
        with Socket() as host:
            away = {_place(port): port for port in hostport.restore_host_ports(host, ports, self._sysfs, patience)}
        rdma.recreate(port for port in ports if _place(port) not in away)
        return away

    def _back(self, inside: Socket, attachment: Attachment) -> None:
        there = {link.index: link for link in links.list_links(inside)}
        steps = [
            NetlinkStep(port.rail, f"move {port.name} back", self._returning(port, port.host, keep_index=True))
            for port in attachment.ports
            if port.host and pod.get_index(port.rail) in there
        ]
        try:
            batch.send_steps(inside, steps)
        except StepsRefusedError as error:
            again = [refusal.step for refusal in error.refusals if refusal.errno in {errno.EBUSY, errno.EEXIST}]
            if len(again) != len(error.refusals):
                raise
            _log.warning("%s; trying with a new index", error)
            batch.send_steps(inside, (self._with_new_index(attachment, step) for step in again))

    def _with_new_index(self, attachment: Attachment, step: NetlinkStep) -> NetlinkStep:
        port = next(port for port in attachment.ports if port.rail == step.rail)
        assert port.host is not None  # noqa: S101 - only ports with it are moved
        return step._replace(message=self._returning(port, port.host, keep_index=False))

    def _returning(self, port: PodPort, was: HostPort, *, keep_index: bool) -> Message:
        new_index = was.ifindex if keep_index else None
        return links.set_link(pod.get_index(port.rail), name=was.name, netns_fd=self._home, new_index=new_index)

    def _port(self, planned: PortPlan, vf: int, mac: str, was: HostPort, device: str) -> PodPort:
        common = self._node.common
        name = common.rails[planned.rail].pod_netdev
        if vf == PORT_ITSELF:
            own, mtu = planned.addresses, common.mtu_bytes
            roce = rdma.find_moved_port_device(planned, common, self._sysfs)
        else:
            own = tuple(one.with_address(one.pods_first + vf) for one in planned.addresses)
            mtu, roce = common.vf_mtu_bytes, rdma.find_vf_device(planned, vf, common, self._sysfs)
            was = msgspec.structs.replace(was, vf=vf, pf=planned.netdev)
        return PodPort(planned.rail, name, mac, mtu, tuple(map(to_pod_address, own)), was, roce, device)


def _place(port: PodPort) -> Slot:
    return port.rail, port.host.vf if port.host else PORT_ITSELF


def _link(host: Socket, port: PortPlan, vf: int, sysfs: Path) -> links.Link:
    name, what = port.netdev, f"port {port.netdev}"
    if vf != PORT_ITSELF:
        what = f"the interface of VF {vf} of {port.netdev}"
        name = hardware.read_interface(hardware.locate_vf(port.netdev, vf, sysfs)) or ""
    try:
        return links.get_link(host, name)
    except RequestError as error:
        if error.errno not in {errno.ENODEV, errno.EINVAL}:
            raise
        remedy = "another pod may have it (`trackbed agent status`); if none has, `trackbed doctor` says why"
        raise CniError(Code.KERNEL, f"rail {port.rail}: {what} is not on this node", remedy) from error


def _guards(attachment: Attachment, common: CommonPlan) -> Iterator[NetlinkStep]:
    """What the VFs may do; a driver that has no such switch has nothing to set. OSError: a port is not there."""
    change = vfs.VfChange(trust=common.vf_trust, spoof_check=common.vf_spoof_check)
    for port in attachment.ports:
        if port.host and port.host.pf and common.link_type == "ethernet":
            message = vfs.set_vf(socket.if_nametoindex(port.host.pf), port.host.vf, change)
            yield NetlinkStep(port.rail, f"guard VF {port.host.vf} of {port.host.pf}", message, errno.EOPNOTSUPP)


def _into_pod(attachment: Attachment, sandbox: Sandbox) -> Iterator[NetlinkStep]:
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
        what = "port" if port.host.vf == PORT_ITSELF else "VF"
        yield NetlinkStep(port.rail, f"move {what} {port.host.name} into the pod", message)
