"""The way of ports and VFs from a pod back to the host, although the pod may have done anything to its interfaces.

1. In the pod a device is found by its identity, wherever the pod has put it. It loses its alternative names and gets a
   temporary name, so that no name that the pod chose appears on the host.
2. On the host it is found by its identity again. What came in its place, exchanged at the last moment, is deleted.
3. It gets its name. Another device of a pod that has it, because the kernel returned that with the name from its pod,
   gets a temporary name until its own pod ends.

When a namespace ends, the kernel returns its devices with a delay, and renames a device whose name is taken (dev7).
Then udev reserves the device's usual name as an alternative name.
"""

import errno
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, NamedTuple

from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.sockets import BatchError, Socket
from trackbed.node.rails import hostport
from trackbed.node.rails.attachment import HostPort, PodPort, PortIdentity
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps
from trackbed.node.rails.deletion import delete_by_index
from trackbed.node.rails.identity import (
    IdentifiedLink,
    choose_from_pod_links,
    find_link,
    get_identity,
    is_same_device,
    is_vouched,
    list_host_links,
)

_log = logging.getLogger(__name__)

RETURN_SECONDS = 2.0
"""Time for the kernel to return the devices of a namespace that has ended."""
_POLL_SECONDS = 0.05
_TEMPORARY: Final = "trackbed"
_TEMPORARY_PATTERN: Final = f"{_TEMPORARY}%d"
"""The kernel replaces %d by the first free number (dev_alloc_name() of net/core/dev.c)."""


class Device(NamedTuple):
    """A device of the host to look for: its rail, identity, name on the host, and its former index there if known."""

    rail: int
    identity: PortIdentity
    name: str
    host_index: int | None = None


class Recovery:
    """Brings ports and VFs of one node home from pods."""

    def __init__(self, host_netns_fd: int, list_devices: Callable[[], Iterable[PortIdentity]]) -> None:
        """`list_devices` returns the identities of all devices that the node may have given to pods."""
        self._host_netns_fd = host_netns_fd
        self._list_devices = list_devices
        self._lock = threading.Lock()

    def list_host_links(self, host: Socket) -> list[IdentifiedLink]:
        """Return the interfaces of the host with their identities."""
        return list_host_links(host, self._host_netns_fd)

    def return_devices(self, pod_netns_fd: int, devices: Sequence[Device]) -> list[Device]:
        """Move those devices that are in a pod to the host, each with its former index if that is free; return them.

        Raises:
            StepsRefusedError: a device cannot leave the pod.
        """
        with Socket() as host, Socket(netns=pod_netns_fd) as pod_socket:
            listing = _list_devices_and_uppers(host, pod_netns_fd, [device.identity for device in devices])
            present = {device: link for device in devices if (link := find_link(listing.devices, device.identity))}
            if not present:
                return []
            lent = {link.index for link in present.values()}
            _delete_uppers(pod_socket, [upper.link for upper in listing.uppers if upper.parent in lent])
            _hide_names(pod_socket, present.values())
            self._move_to_host(pod_socket, present)
            self._remove_impostors(host, devices)
        return list(present)

    def _move_to_host(self, pod_socket: Socket, present: dict[Device, Link]) -> None:
        """Move devices to the host, with their former index if it is free."""
        try:
            steps = [self._build_return_step(device, link, device.host_index) for device, link in present.items()]
            send_steps(pod_socket, steps)
        except StepsRefusedError as error:
            if any(refusal.errno not in {errno.EBUSY, errno.EEXIST} for refusal in error.refusals):
                raise
            _log.warning("%s; trying with a new index", error)
            rails = {refusal.step.rail for refusal in error.refusals}
            refused = {device: link for device, link in present.items() if device.rail in rails}
            send_steps(pod_socket, [self._build_return_step(*pair, None) for pair in refused.items()])

    def _build_return_step(self, device: Device, link: Link, host_index: int | None) -> NetlinkStep:
        message = links.build_set_link(
            link.index, name=_TEMPORARY_PATTERN, netns_fd=self._host_netns_fd, new_index=host_index
        )
        return NetlinkStep(device.rail, f"move {device.name} back", message)

    def _remove_impostors(self, host: Socket, devices: Iterable[Device]) -> None:
        """Delete interfaces that a pod exchanged for a device after that was found."""
        identities = [*self._list_devices(), *(device.identity for device in devices)]
        for link, identity in self.list_host_links(host):
            if link.name.startswith(_TEMPORARY) and not _is_any(identity, identities):
                _log.warning("%s is none of the node's devices; it came from a pod and is deleted", link.name)
                _send_regardless(host, [links.build_delete_link(link.index)])

    def restore_ports(self, ports: Iterable[PodPort], timeout_seconds: float) -> list[PodPort]:
        """Restore name and state of ports on the host; return those that have not returned within the timeout.

        What the kernel refuses to restore is logged: it must not keep a pod from ending.
        """
        steps: list[NetlinkStep] = []
        missing: list[PodPort] = []
        deadline = time.monotonic() + timeout_seconds
        with Socket() as host:
            for port in ports:
                if port.host is None:
                    continue
                device = Device(port.rail, get_identity(port, port.host), port.host.name)
                try:
                    link = self._recover_device(host, device, deadline)
                    hostport.restore_unbatched(host, port.host)
                except (OSError, NetlinkError) as error:
                    _log_unreturned(port.rail, port.host, error, urgent=timeout_seconds > 0)
                    missing.append(port)
                    continue
                steps += hostport.iter_restore_steps(port, port.host, link)
            hostport.send_restore_steps(host, steps)
        return missing

    def recover_names(self, devices: Iterable[Device]) -> None:
        """Give devices of the host that have a temporary name theirs: an agent was killed that brought them home."""
        with Socket() as host:
            listing = [pair for pair in self.list_host_links(host) if pair.link.name.startswith(_TEMPORARY)]
        for device in devices if listing else ():
            if find_link(listing, device.identity):
                self.recover_name(device)

    def recover_name(self, device: Device) -> None:
        """Give a device that is on the host its name, no settings. A failure is logged."""
        _log.warning("rail %d: %s returns without its settings; `trackbed apply` sets it up", device.rail, device.name)
        try:
            with Socket() as host:
                self._recover_device(host, device, time.monotonic())
        except (OSError, NetlinkError) as error:
            _log.warning("rail %d: %s has not its name: %s", device.rail, device.name, error)

    def _recover_device(self, host: Socket, device: Device, deadline: float) -> Link:
        """Wait until a device has returned to the host, restore its name, and return its interface.

        Raises:
            OSError, NetlinkError: the device had not returned at the deadline, or its name is taken.
        """
        while True:
            try:
                with self._lock:
                    return self._claim_name(host, device)
            except (OSError, NetlinkError):
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_POLL_SECONDS)

    def _claim_name(self, host: Socket, device: Device) -> Link:
        listing = self.list_host_links(host)
        link = find_link(listing, device.identity)
        if link is None:
            raise OSError(errno.ENODEV, "it has not come back from the pod")
        if link.name != device.name:
            for other, identity in listing:
                if other is not link and device.name in {other.name, *other.altnames}:
                    self._vacate_name(host, other, identity, device.name)
            if device.name in link.altnames:
                host.send([links.build_delete_altname(link.index, device.name)])
            host.send([links.build_set_link(link.index, up=False)])
            host.send([links.build_set_link(link.index, name=device.name)])
        return link

    def _vacate_name(self, host: Socket, link: Link, identity: PortIdentity, name: str) -> None:
        """Take a name from another device of a pod. Raises OSError if the interface is none of the node's devices."""
        if not _is_any(identity, self._list_devices()):
            raise OSError(errno.EEXIST, f"interface {link.index} has the name {name}")
        _log.warning("%s, which a pod has given the name %s, loses it", identity.parent_device or link.name, name)
        if link.name == name:
            host.send([links.build_set_link(link.index, up=False)])
            host.send([links.build_set_link(link.index, name=_TEMPORARY_PATTERN)])
        else:
            host.send([links.build_delete_altname(link.index, name)])


class _Upper(NamedTuple):
    """An interface on top of another: the indexes of both."""

    link: int
    parent: int


class _PodLinks(NamedTuple):
    """Those interfaces of a pod that are devices of the node or on top of others; a pod may make thousands of these."""

    devices: list[IdentifiedLink]
    uppers: list[_Upper]


def _list_devices_and_uppers(host: Socket, pod_netns_fd: int, identities: Sequence[PortIdentity]) -> _PodLinks:
    """List a pod's devices, and its interfaces on top of others, such as VLANs and macvlans.

    The parent of a veth is its peer.
    """

    def choose(pair: IdentifiedLink) -> IdentifiedLink | _Upper | None:
        link, identity = pair
        if (is_vouched(identity) or not link.kind) and _is_any(identity, identities):
            return pair
        is_upper = link.parent and link.link_netnsid is None and link.kind != "veth"
        return _Upper(link.index, link.parent) if is_upper else None

    listing = _PodLinks([], [])
    choices: list[IdentifiedLink | _Upper] = choose_from_pod_links(host, pod_netns_fd, choose)
    for choice in choices:
        if isinstance(choice, _Upper):
            listing.uppers.append(choice)
        else:
            listing.devices.append(choice)
    return listing


def _delete_uppers(pod_socket: Socket, indexes: Sequence[int]) -> None:
    """Delete interfaces on top of a pod's devices: they would stay there and use the device after it has left."""
    try:
        delete_by_index(pod_socket, indexes)
    except StepsRefusedError as error:
        _log.info("%s", error)


def _hide_names(pod_socket: Socket, pod_links: Collection[Link]) -> None:
    """Take from devices in a pod all names that could clash with the host's, or show there.

    Kernels before 6.2 rename no interface that is up.
    """
    altnames = [links.build_delete_altname(link.index, name) for link in pod_links for name in link.altnames]
    down = [links.build_set_link(link.index, up=False) for link in pod_links]
    names = [links.build_set_link(link.index, name=_TEMPORARY_PATTERN) for link in pod_links]
    if not _send_regardless(pod_socket, [*altnames, *names]):
        _send_regardless(pod_socket, [*down, *names])


def _send_regardless(sock: Socket, messages: Sequence[Message]) -> bool:
    """Send messages that need not succeed; return whether all did."""
    try:
        sock.send(messages)
    except BatchError as error:
        _log.info("the kernel refused: %s", error)
        return False
    return True


def _is_any(identity: PortIdentity, devices: Iterable[PortIdentity]) -> bool:
    return any(is_same_device(device, identity) for device in devices)


def _log_unreturned(rail: int, state: HostPort, error: Exception, *, urgent: bool) -> None:
    level = logging.WARNING if urgent else logging.DEBUG
    _log.log(level, "rail %d: %s is not restored yet, trying again later: %s", rail, state.name, error)
