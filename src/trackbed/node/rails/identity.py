"""The identity of a node's ports and VFs in any network namespace, by what the kernel vouches for.

A pod with NET_ADMIN can create an interface with the name, the index and the MAC of a port. It cannot give it a device
on a bus (IFLA_PARENT_DEV_NAME) or a permanent MAC (IFLA_PERM_ADDRESS, which register_netdevice() of net/core/dev.c
copies from the driver), nor cable it to a network namespace that it cannot enter (IFLA_LINK_NETNSID).
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec

from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.codec import MalformedError, NetlinkError
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.netns_ids import assign_netns_id
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.attachment import HostPort, PodPort, PortIdentity

_Choice = TypeVar("_Choice")


class IdentifiedLink(NamedTuple):
    """An interface with its identity."""

    link: Link
    identity: PortIdentity


def choose_from_pod_links(
    host: Socket, netns_fd: int, choose: Callable[[IdentifiedLink], _Choice | None]
) -> list[_Choice]:
    """Return what `choose` makes of the interfaces of the network namespace `netns_fd`, without None.

    `host` is a socket in the host's namespace. A pod may make as many interfaces as it likes: of those that are not
    chosen only the index is held in memory.

    The kernel ends the listing of another namespace, without an error, at an interface whose message exceeds 32 KiB:
    rtnl_calcit() of net/core/rtnetlink.c computes the length for the socket's namespace. A pod can give an interface
    64 KiB of alternative names, so what is missing is requested alone.
    """
    netns_id = assign_netns_id(host, netns_fd)

    def choose_with_index(link: Link) -> tuple[int, _Choice | None]:
        return link.index, choose(IdentifiedLink(link, identify(link, netns_id)))

    choices: list[tuple[int, _Choice | None]] = []
    with suppress(MalformedError):  # a pod has made an interface whose message is malformed
        choices = links.choose_from_links(host, choose_with_index, netns_id)
    with Socket(netns=netns_fd) as sock:
        missing = set(links.list_indexes(sock)).difference(index for index, _ in choices)
    for index in missing:
        with suppress(NetlinkError):  # deleted meanwhile, or a malformed one, which no port is
            choices.append(choose_with_index(links.get_link_by_index(host, index, netns_id)))
    return [choice for _, choice in choices if choice is not None]


def list_host_links(host: Socket, host_netns_fd: int) -> list[IdentifiedLink]:
    """Return the interfaces of the host with their identities; `host` is a socket there."""
    netns_id = assign_netns_id(host, host_netns_fd)
    return [IdentifiedLink(link, identify(link, netns_id)) for link in links.list_links(host)]


def identify(link: Link, netns_id: int) -> PortIdentity:
    """Return the identity of an interface in the network namespace that has `netns_id` in the host's namespace."""
    same_netns = netns_id if link.link_netnsid is None else link.link_netnsid
    return PortIdentity(
        kind=link.kind,
        parent_device=link.parent_device or "",
        permanent_mac=link.permanent_mac or "",
        port_name=link.port_name,
        peer=link.parent,
        peer_netns=same_netns if link.parent else -1,
    )


def is_vouched(identity: PortIdentity) -> bool:
    """Return whether no pod can create an interface with this identity."""
    return bool(identity.parent_device or identity.peer)


def to_vf_identity(identity: PortIdentity) -> PortIdentity:
    """Return the identity of a VF, without the MAC that its port may change."""
    return msgspec.structs.replace(identity, permanent_mac="")


def is_same_device(recorded: PortIdentity, current: PortIdentity) -> bool:
    """Return whether two identities are of one device."""
    if not is_vouched(recorded):  # a record of an earlier version
        return not current.kind and bool(current.parent_device) and current.permanent_mac == recorded.permanent_mac
    return recorded == (current if recorded.permanent_mac else to_vf_identity(current))


def get_identity(port: PodPort, state: HostPort) -> PortIdentity:
    """Return the recorded identity of a port; of a record of an earlier version, hardware with the port's MAC."""
    if state.identity is not None:
        return state.identity
    return PortIdentity(permanent_mac=port.mac)


def find_link(listing: Iterable[IdentifiedLink], wanted: PortIdentity) -> Link | None:
    """Return the interface of a device; None if it is not in the listing."""
    return next((link for link, identity in listing if is_same_device(wanted, identity)), None)
