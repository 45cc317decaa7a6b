"""Modes move and sriov: the port itself, or a VF of it, moves into the pod and back.

A VF keeps its MAC address, and its number determines its address in the rail's block, so a neighbour table entry for a
VF stays valid for the next pod that gets the VF. Trust and spoof check of a VF are set through its port at each attach.

The kernel drops addresses, routes and sysctls of a device that leaves a namespace, so they are read and recorded first.
DEL restores them with name, index (if still free) and MTU. Routing rules are kept by the kernel. Each move waits for an
RCU grace period (16 ms); the kernel has no batch for moves.
"""

import errno
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from trackbed.fabric.plan.plan import CommonPlan, NodePlan, PortPlan
from trackbed.kernel.netlink import links, vfs
from trackbed.kernel.netlink.netns_ids import assign_netns_id
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.node.rails import hardware, hostport, pod, rdma, recovery, traffic_class
from trackbed.node.rails.attachment import PORT_ITSELF, Attachment, HostPort, PodPort, PortIdentity, to_pod_address
from trackbed.node.rails.batch import NetlinkStep, send_steps
from trackbed.node.rails.errors import CniError, Code
from trackbed.node.rails.identity import get_identity, identify, is_same_device, is_vouched, to_vf_identity
from trackbed.node.rails.ledger import Ledger, get_slot
from trackbed.node.rails.recovery import Device, Recovery
from trackbed.node.rails.sandbox import Sandbox
from trackbed.node.rails.store import Slot

_log = logging.getLogger(__name__)

_DPU_MODE = {
    errno.EPERM: "DPU mode: the Arm cores of the BlueField set trust and spoof check of its VFs, not this host"
}


class Move:
    """Moves ports and VFs of one node into pods and back."""

    def __init__(
        self,
        node: NodePlan,
        host_netns_fd: int,
        ledger: Ledger,
        list_recorded: Callable[[], Iterable[PodPort]] = tuple,
        sysfs: Path = hardware.SYSFS,
    ) -> None:
        """`host_netns_fd`: descriptor of the node's network namespace; `list_recorded` returns the ports in pods."""
        self._node = node
        self._host_netns_fd = host_netns_fd
        self._ledger = ledger
        self._list_recorded = list_recorded
        self._sysfs = sysfs
        self._writable_sysfs = traffic_class.find_writable_sysfs() if sysfs == hardware.SYSFS else sysfs
        self._recovery = Recovery(host_netns_fd, self._list_devices)
        self.moved_ports: set[str] = set()
        """Ports that have been in a pod since the agent started; their carrier counts do not reflect the cable."""
        self._lock = threading.Lock()
        """Held while the ledger changes."""

    def _list_devices(self) -> list[PortIdentity]:
        """Return the identities of all devices that may be in pods."""
        ports = [*self._list_recorded(), *self._ledger.away.values()]
        return [*self._ledger.known.values(), *(get_identity(port, port.host) for port in ports if port.host)]

    def note_ports(self) -> None:
        """Note the identities of the ports that are on the host; call it when the agent starts, before any request.

        Ports and VFs that came home without a record get their names first.
        """
        recorded = {get_slot(port) for port in self._list_recorded()}
        self._recovery.recover_names(device for slot, device in self.iter_slots() if slot not in recorded)
        in_pods = {port.rail for port in self._list_recorded() if port.host and port.host.vf == PORT_ITSELF}
        names = {port.netdev: port.rail for port in self._node.ports if port.rail not in in_pods}
        with Socket() as host:
            listing = self._recovery.list_host_links(host)
        by_rail = {names[link.name]: identity for link, identity in listing if link.name in names}
        self._note_identities(by_rail)

    def _note_identities(self, by_rail: Mapping[int, PortIdentity]) -> None:
        """Note identities, except of a device that has the name of a port and is another one."""
        with self._lock:
            self._ledger.note_identities(
                {
                    rail: identity
                    for rail, identity in by_rail.items()
                    if is_vouched(identity) and not self._is_other_port(rail, identity)
                }
            )

    def _is_other_port(self, rail: int, identity: PortIdentity) -> bool:
        return any(is_same_device(known, identity) for other, known in self._ledger.known.items() if other != rail)

    def build_ports(self, chosen_vfs: Mapping[int, int], device_ids: Mapping[int, str]) -> tuple[PodPort, ...]:
        """Return the pod's ports for the chosen ports or VFs, with the state that these have on the host.

        Args:
            chosen_vfs: VF number, or PORT_ITSELF, by rail.
            device_ids: the kubelet's, by rail.

        Raises:
            CniError: a device is not on the host (KERNEL).
        """
        self.restore_returned_devices()
        port_plans = [port for port in self._node.ports if port.rail in chosen_vfs]
        with Socket() as host:
            netns_id = assign_netns_id(host, self._host_netns_fd)
            host_links = [_read_device_link(host, port, chosen_vfs[port.rail], self._sysfs) for port in port_plans]
            identities = {
                port.rail: self._check_identity(port, chosen_vfs[port.rail], identify(link, netns_id))
                for port, link in zip(port_plans, host_links, strict=True)
            }
            states = [
                hostport.read_host_port(host, link, identities[port.rail])
                for port, link in zip(port_plans, host_links, strict=True)
            ]
        self._note_identities({rail: identities[rail] for rail, vf in chosen_vfs.items() if vf == PORT_ITSELF})
        pod_ports = tuple(
            self._build_pod_port(port, chosen_vfs[port.rail], link.mac, state, device_ids.get(port.rail, ""))
            for port, link, state in zip(port_plans, host_links, states, strict=True)
        )
        return rdma.note_indexes(pod_ports)

    def _check_identity(self, port: PortPlan, vf: int, identity: PortIdentity) -> PortIdentity:
        """Return the identity to record. Raises CniError if the device is another one, or could be imitated."""
        if vf != PORT_ITSELF:
            identity = to_vf_identity(identity)
        elif self._is_other_port(port.rail, identity):
            message = f"rail {port.rail}: interface {port.netdev} is the port of another rail"
            raise CniError(Code.KERNEL, message, "a pod has renamed it: `trackbed apply` gives it its name")
        if not is_vouched(identity):
            message = f"rail {port.rail}: {port.netdev} is a {identity.kind or 'device'} that a pod could imitate"
            raise CniError(Code.CONFIG, message, "give pods a NIC, or take pods.mode macvlan")
        return identity

    def attach(self, attachment: Attachment, sandbox: Sandbox) -> None:
        """Move the devices into the pod and configure them.

        After StepsRefusedError, the caller undoes what was completed.
        """
        if self._node.common.link_type == "ethernet":
            value = self._node.common.qos.traffic_class
            traffic_class.set_device_class(attachment.ports, value, self._writable_sysfs)
        self.moved_ports.update(port.host.name for port in attachment.ports if port.host and not port.host.pf)
        with Socket() as host:
            netns_id = assign_netns_id(host, self._host_netns_fd)
            moves = list(_iter_moves_into_pod(host, netns_id, attachment, sandbox))
            send_steps(host, [*_iter_vf_restrictions(attachment, self._node.common), *moves])
        with Socket(netns=sandbox.fd) as pod_socket:
            send_steps(pod_socket, pod.iter_setup_steps(attachment, self._node.common))
        rdma.move_devices_into_pod(attachment.ports, sandbox.fd)
        traffic_class.set_connection_class(attachment.ports, self._node.common.qos.traffic_class, self._writable_sysfs)

    def detach(self, attachment: Attachment, sandbox: Sandbox | None, *, alone: bool) -> None:
        """Move the devices back to the host and restore their state.

        `alone`: no other attachment is in the namespace.

        Raises:
            StepsRefusedError: a device cannot leave the pod.
        """
        if sandbox is not None:
            rdma.move_devices_to_host(attachment.ports, sandbox.fd, self._host_netns_fd)
            pod.clear_settings(attachment, self._node.common, sandbox, alone=alone)
            self._recovery.return_devices(sandbox.fd, [_build_device(port) for port in attachment.ports if port.host])
        missing = self._restore_ports(attachment.ports, recovery.RETURN_SECONDS)
        with self._lock:
            self._ledger.set_away({**self._ledger.away, **missing})

    def restore_returned_devices(self) -> None:
        """Restore the state of devices that have returned since their pod ended; a namespace ends asynchronously."""
        if not self._ledger.away:
            return
        with self._lock:
            self._ledger.set_away(self._restore_ports(tuple(self._ledger.away.values()), 0))

    def check_returned(self, rails: Iterable[int]) -> None:
        """Raise CniError (KERNEL) if the port of a rail had not come home when its pod ended, and still has not."""
        self.restore_returned_devices()
        for rail in rails:
            if (port := self._ledger.away.get((rail, PORT_ITSELF))) and port.host:
                message = f"rail {rail}: port {port.host.name} has not come back from a pod that has ended"
                raise CniError(Code.KERNEL, message, "a process holds that pod's network namespace; end it")

    def return_unrecorded(self, sandbox: Sandbox) -> bool:
        """Move ports and VFs of this node home from a pod that has no record; return whether there were any.

        Raises:
            StepsRefusedError: a device cannot leave the pod.
        """
        returned = self._recovery.return_devices(sandbox.fd, [device for _, device in self.iter_slots()])
        for device in returned:
            self._recovery.recover_name(device)
        return bool(returned)

    def iter_slots(self) -> Iterator[tuple[Slot, Device]]:
        """Yield ports and VFs of this node; VFs have systemd's names, since only a record has their original ones."""
        for port in self._node.ports:
            if identity := self._ledger.known.get(port.rail):
                yield (port.rail, PORT_ITSELF), Device(port.rail, identity, port.netdev)
            for vf in range(self._node.common.vfs):
                if (folder := hardware.locate_vf(port.netdev, vf, self._sysfs)).exists():
                    identity = PortIdentity(parent_device=folder.resolve().name)
                    yield (port.rail, vf), Device(port.rail, identity, f"{port.netdev}v{vf}")

    def _restore_ports(self, ports: Sequence[PodPort], timeout_seconds: float) -> dict[Slot, PodPort]:
        """Restore the state of ports on the host; return those that have not returned within the timeout."""
        missing = {get_slot(port): port for port in self._recovery.restore_ports(ports, timeout_seconds)}
        returned = [port for port in ports if get_slot(port) not in missing]
        missing |= {get_slot(port): port for port in rdma.restore_names(returned)}
        rdma.recreate_soft_devices(returned)
        traffic_class.restore_connection_classes(returned, self._writable_sysfs)
        return missing

    def _build_pod_port(self, port_plan: PortPlan, vf: int, mac: str, state: HostPort, device_id: str) -> PodPort:
        common = self._node.common
        name = common.rails[port_plan.rail].pod_netdev
        if vf == PORT_ITSELF:
            addresses, mtu = port_plan.addresses, common.mtu_bytes
            rdma_device = rdma.find_moved_port_device(port_plan, common, self._sysfs)
            if rdma_device:
                tos = traffic_class.read_connection_class(rdma_device.name, self._writable_sysfs)
                state = msgspec.structs.replace(state, connection_class=tos)
        else:
            addresses = tuple(block.with_address(block.pods_first + vf) for block in port_plan.addresses)
            mtu, rdma_device = common.vf_mtu_bytes, rdma.find_vf_device(port_plan, vf, common, self._sysfs)
            state = msgspec.structs.replace(state, vf=vf, pf=port_plan.netdev)
        return PodPort(
            port_plan.rail, name, mac, mtu, tuple(map(to_pod_address, addresses)), state, rdma_device, device_id
        )


def _build_device(port: PodPort) -> Device:
    state = port.host
    assert state is not None  # noqa: S101 - the caller has only ports that moved
    return Device(port.rail, get_identity(port, state), state.name, state.ifindex)


def _read_device_link(host: Socket, port: PortPlan, vf: int, sysfs: Path) -> links.Link:
    name, description = port.netdev, f"port {port.netdev}"
    if vf != PORT_ITSELF:
        description = f"the interface of VF {vf} of {port.netdev}"
        name = hardware.read_interface_name(hardware.locate_vf(port.netdev, vf, sysfs)) or ""
    link = _find_link_by_name(host, name)
    if link is None:
        remedy = "another pod may have it (`trackbed agent status`); if none has, `trackbed doctor` says why"
        raise CniError(Code.KERNEL, f"rail {port.rail}: {description} is not on this node", remedy)
    return link


def _find_link_by_name(host: Socket, name: str) -> links.Link | None:
    """Return the interface with this name; None if there is none, or if it is only an alternative name."""
    try:
        link = links.get_link(host, name)
    except RequestError as error:
        if error.errno not in {errno.ENODEV, errno.EINVAL}:
            raise
        return None
    return link if link.name == name else None


def _iter_vf_restrictions(attachment: Attachment, common: CommonPlan) -> Iterator[NetlinkStep]:
    """Yield the steps that set trust and spoof check of VFs.

    EOPNOTSUPP, from drivers without support, is accepted, and EPERM, mlx5's answer in DPU mode (mlx5_esw_allowed,
    drivers/net/ethernet/mellanox/mlx5/core/esw/legacy.c): without privileges, the moves that follow are refused too.

    Raises:
        CniError: a port is not on the host.
    """
    change = vfs.VfChange(trust=common.vf_trust, spoof_check=common.vf_spoof_check)
    for port in attachment.ports:
        if port.host and port.host.pf and common.link_type == "ethernet":
            message = vfs.build_set_vf(hostport.read_port_index(port.rail, port.host.pf), port.host.vf, change)
            yield NetlinkStep(
                port.rail, f"guard VF {port.host.vf} of {port.host.pf}", message, errno.EOPNOTSUPP, _DPU_MODE
            )


def _iter_moves_into_pod(
    host: Socket, netns_id: int, attachment: Attachment, sandbox: Sandbox
) -> Iterator[NetlinkStep]:
    """Yield the steps that move the devices into the pod. Raises CniError if a device is not on the host."""
    for port in attachment.ports:
        if port.host is None:
            continue
        link = _find_link_by_name(host, port.host.name)  # the recorded index may be outdated
        if link is None or not is_same_device(get_identity(port, port.host), identify(link, netns_id)):
            remedy = "`trackbed doctor` on this node says why and what to do"
            raise CniError(Code.KERNEL, f"rail {port.rail}: port {port.host.name} is not on this node", remedy)
        message = links.build_set_link(
            link.index,
            netns_fd=sandbox.fd,
            name=port.name,
            new_index=pod.get_interface_index(port.rail),
            mtu=port.mtu_bytes,
        )
        kind = "port" if port.host.vf == PORT_ITSELF else "VF"
        yield NetlinkStep(port.rail, f"move {kind} {port.host.name} into the pod", message, names_interface=True)
