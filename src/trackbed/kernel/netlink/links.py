"""Network interfaces: list, create and change them in any namespace (include/uapi/linux/if_link.h, rtnetlink.h)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, Message
from trackbed.kernel.netlink.sockets import Socket

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_GETSTATS, RTM_NEWLINKPROP, RTM_DELLINKPROP = 94, 108, 109
IFF_UP, IFF_RUNNING, IFF_NOARP, IFF_PROMISC, IFF_ALLMULTI, IFF_MULTICAST = 0x1, 0x40, 0x80, 0x100, 0x200, 0x1000

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 3, 4, 5, 10
IFLA_TXQLEN, IFLA_IFALIAS, IFLA_TARGET_NETNSID = 13, 20, 46
IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_AF_SPEC, IFLA_GROUP, IFLA_NET_NS_FD = 16, 18, 26, 27, 28
IFLA_EXT_MASK, IFLA_CARRIER, IFLA_LINK_NETNSID, IFLA_PHYS_PORT_NAME = 29, 33, 37, 38
IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT, IFLA_NEW_IFINDEX = 47, 48, 49
IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PERM_ADDRESS, IFLA_PARENT_DEV_NAME, IFLA_PARENT_DEV_BUS_NAME = 52, 53, 54, 56, 57
IFLA_LINKMODE, IFLA_XDP = 17, 43
IFLA_GSO_MAX_SEGS, IFLA_GSO_MAX_SIZE, IFLA_GRO_MAX_SIZE = 40, 41, 58
IFLA_GSO_IPV4_MAX_SIZE, IFLA_GRO_IPV4_MAX_SIZE = 63, 64
PACKET_LIMITS = (
    IFLA_GSO_MAX_SEGS,
    IFLA_GSO_MAX_SIZE,
    IFLA_GRO_MAX_SIZE,
    IFLA_GSO_IPV4_MAX_SIZE,
    IFLA_GRO_IPV4_MAX_SIZE,
)
IFLA_XDP_FD, IFLA_XDP_ATTACHED, IFLA_XDP_FLAGS = 1, 2, 3
XDP_FLAGS_SKB_MODE, XDP_FLAGS_DRV_MODE = 2, 4
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE, VETH_INFO_PEER = 1, 4, 1
IFLA_INET_CONF = 1
RTEXT_FILTER_SKIP_STATS = 8

IPV4_DEVCONF = {
    "forwarding": 1,
    "mc_forwarding": 2,
    "proxy_arp": 3,
    "accept_redirects": 4,
    "secure_redirects": 5,
    "send_redirects": 6,
    "shared_media": 7,
    "rp_filter": 8,
    "accept_source_route": 9,
    "bootp_relay": 10,
    "log_martians": 11,
    "tag": 12,
    "arp_filter": 13,
    "medium_id": 14,
    "disable_xfrm": 15,
    "disable_policy": 16,
    "force_igmp_version": 17,
    "arp_announce": 18,
    "arp_ignore": 19,
    "promote_secondaries": 20,
    "arp_accept": 21,
    "arp_notify": 22,
    "accept_local": 23,
    "src_valid_mark": 24,
    "proxy_arp_pvlan": 25,
    "route_localnet": 26,
    "igmpv2_unsolicited_report_interval": 27,
    "igmpv3_unsolicited_report_interval": 28,
    "ignore_routes_with_linkdown": 29,
    "drop_unicast_in_l2_multicast": 30,
    "drop_gratuitous_arp": 31,
    "bc_forwarding": 32,
    "arp_evict_nocarrier": 33,
}
"""Per-interface sysctls that RTM_NEWLINK can set, by their names under /proc/sys/net/ipv4/conf/IFNAME/ (IPV4_DEVCONF_*
of include/uapi/linux/ip.h). Older kernels reject the last entries.
"""

_OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_INFO = struct.Struct("=BxHiII")
_STATS = struct.Struct("=4xII")  # struct if_stats_msg: ifindex, filter_mask
_STATS_LINK_64 = 1
_Choice = TypeVar("_Choice")


class Link(NamedTuple):
    """An interface as the kernel reports it."""

    index: int  # type: ignore[assignment] # the field hides a method of tuple
    name: str
    kind: str
    mtu: int
    flags: int
    operstate: str
    carrier: bool
    carrier_up_count: int
    carrier_down_count: int
    mac: str
    permanent_mac: str | None
    master: int
    parent: int
    """Index of the lower link (IFLA_LINK): the port of a macvlan, the peer of a veth; 0 for none."""
    group: int
    altnames: tuple[str, ...]
    """Alternative names; bytes that are not UTF-8 are lone surrogates (PEP 383), so that each name can be deleted."""
    parent_device: str | None
    """Name of the device on its bus; the PCI address of a NIC."""
    parent_bus: str | None = None
    """Bus of `parent_device`, for example "pci"."""
    link_netnsid: int | None = None
    """Namespace id of `parent` (IFLA_LINK_NETNSID); None if `parent` is in this namespace."""
    port_name: str = ""
    """Name of the port on its NIC (IFLA_PHYS_PORT_NAME): "p0", or "pf0vf1" for the representor of a VF."""
    alias: str = ""
    txqlen: int = 0
    """Length of the transmit queue in packets."""
    mode: int = 0
    """Link mode (IF_LINK_MODE_*): 1 keeps the interface dormant."""
    packet_limits: tuple[int, ...] = ()
    """Limits of segmentation and receive offload, in the order of PACKET_LIMITS; 0 where the kernel has none."""
    has_xdp: bool = False
    """Whether an XDP program is attached."""

    @property
    def is_up(self) -> bool:
        """Whether the interface is administratively up."""
        return bool(self.flags & IFF_UP)

    @property
    def is_running(self) -> bool:
        """Whether the interface is operationally up (RFC 2863)."""
        return bool(self.flags & IFF_RUNNING)


def list_links(sock: Socket, netns_id: int | None = None) -> tuple[Link, ...]:
    """Return the interfaces in the socket's namespace, or in the one that has `netns_id` in the socket's namespace."""
    return tuple(choose_from_links(sock, lambda link: link, netns_id))


def choose_from_links(
    sock: Socket, choose: Callable[[Link], _Choice | None], netns_id: int | None = None
) -> list[_Choice]:
    """Return what `choose` makes of each interface, without None; nothing else of a long listing is held in memory.

    The interfaces are those of `list_links`.
    """
    body = _INFO.pack(0, 0, 0, 0, 0) + codec.pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    if netns_id is not None:
        body += codec.pack_u32(IFLA_TARGET_NETNSID, netns_id)
    return sock.choose_from_dump(Message(RTM_GETLINK, 0, body), lambda reply: choose(_parse_link(reply.body)))


def list_indexes(sock: Socket) -> list[int]:
    """Return the index of each interface in the socket's namespace.

    Unlike a listing of links, no message grows with what an interface has, so none is left out for its length.
    """
    message = Message(RTM_GETSTATS, 0, _STATS.pack(0, _STATS_LINK_64))
    return sock.choose_from_dump(message, lambda reply: int(codec.unpack_header(_STATS, reply.body)[0]))


def get_link_by_index(sock: Socket, index: int, netns_id: int) -> Link:
    """Return an interface of the namespace that has `netns_id` in the socket's one. Raises RequestError (ENODEV)."""
    body = _INFO.pack(0, 0, index, 0, 0) + codec.pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    return _parse_link(sock.request_one(Message(RTM_GETLINK, 0, body + codec.pack_u32(IFLA_TARGET_NETNSID, netns_id))))


def get_link(sock: Socket, name: str) -> Link:
    """Return an interface by name. Raises RequestError (ENODEV) if it does not exist."""
    body = _INFO.pack(0, 0, 0, 0, 0) + codec.pack_string(IFLA_IFNAME, name)
    return _parse_link(sock.request_one(Message(RTM_GETLINK, 0, body)))


def _parse_link(body: memoryview) -> Link:
    _, _, index, flags, _ = codec.unpack_header(_INFO, body)
    attributes = codec.parse_attributes(body, _INFO.size)
    link_info = codec.parse_attributes(attributes.get(IFLA_LINKINFO, b""))
    state = codec.as_int(attributes.get(IFLA_OPERSTATE))
    permanent = attributes.get(IFLA_PERM_ADDRESS)
    return Link(
        index=index,
        name=codec.as_text(attributes.get(IFLA_IFNAME)),
        kind=codec.as_text(link_info.get(IFLA_INFO_KIND)),
        mtu=codec.as_int(attributes.get(IFLA_MTU)),
        flags=flags,
        operstate=_OPERSTATES[state] if state < len(_OPERSTATES) else str(state),
        carrier=bool(codec.as_int(attributes.get(IFLA_CARRIER))),
        carrier_up_count=codec.as_int(attributes.get(IFLA_CARRIER_UP_COUNT)),
        carrier_down_count=codec.as_int(attributes.get(IFLA_CARRIER_DOWN_COUNT)),
        mac=_format_mac(attributes.get(IFLA_ADDRESS, b"")),
        permanent_mac=_format_mac(permanent) if permanent is not None else None,
        master=codec.as_int(attributes.get(IFLA_MASTER)),
        parent=codec.as_int(attributes.get(IFLA_LINK)),
        group=codec.as_int(attributes.get(IFLA_GROUP)),
        altnames=tuple(_parse_altnames(attributes.get(IFLA_PROP_LIST))),
        parent_device=codec.as_text(attributes.get(IFLA_PARENT_DEV_NAME)) or None,
        parent_bus=codec.as_text(attributes.get(IFLA_PARENT_DEV_BUS_NAME)) or None,
        link_netnsid=codec.as_int(attributes[IFLA_LINK_NETNSID]) if IFLA_LINK_NETNSID in attributes else None,
        port_name=codec.as_text(attributes.get(IFLA_PHYS_PORT_NAME)),
        alias=codec.as_text(attributes.get(IFLA_IFALIAS)),
        txqlen=codec.as_int(attributes.get(IFLA_TXQLEN)),
        mode=codec.as_int(attributes.get(IFLA_LINKMODE)),
        packet_limits=tuple(codec.as_int(attributes.get(limit)) for limit in PACKET_LIMITS),
        has_xdp=any(codec.parse_attributes(attributes.get(IFLA_XDP, b"")).get(IFLA_XDP_ATTACHED, b"")),
    )


def _parse_altnames(properties: memoryview | None) -> Iterator[str]:
    for attribute_type, value in codec.iter_attributes(properties or b""):
        if attribute_type == IFLA_ALT_IFNAME:
            yield bytes(value).partition(b"\0")[0].decode(errors="surrogateescape")


def _format_mac(value: bytes | memoryview) -> str:
    return bytes(value).hex(":")


def parse_mac(mac: str) -> bytes:
    """Return a MAC address as bytes. Raises ValueError if it is malformed."""
    return bytes.fromhex(mac.replace(":", ""))


def _pack_common(
    name: str | None = None,
    *,
    mtu: int | None = None,
    mac: str | None = None,
    netns_fd: int | None = None,
    group: int | None = None,
) -> bytes:
    parts = []
    if name is not None:
        parts.append(codec.pack_string(IFLA_IFNAME, name))
    if mtu is not None:
        parts.append(codec.pack_u32(IFLA_MTU, mtu))
    if mac is not None:
        parts.append(codec.pack_attribute(IFLA_ADDRESS, parse_mac(mac)))
    if netns_fd is not None:
        parts.append(codec.pack_u32(IFLA_NET_NS_FD, netns_fd))
    if group is not None:
        parts.append(codec.pack_u32(IFLA_GROUP, group))
    return b"".join(parts)


def _build_create_message(kind: str, index: int, attributes: bytes, kind_data: bytes = b"") -> Message:
    link_info = [codec.pack_attribute(IFLA_INFO_KIND, kind.encode())]
    if kind_data:
        link_info.append(codec.pack_nested(IFLA_INFO_DATA, kind_data))
    body = _INFO.pack(0, 0, index, 0, 0) + attributes + codec.pack_nested(IFLA_LINKINFO, *link_info)
    return Message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, body)


class VethEnd(NamedTuple):
    """One end of a veth pair: name, namespace (None: the socket's), MTU in bytes, MAC and requested index (0: any)."""

    name: str
    netns_fd: int | None = None
    mtu: int | None = None
    mac: str | None = None
    index: int = 0  # type: ignore[assignment] # the field hides a method of tuple


def build_create_veth(near: VethEnd, far: VethEnd) -> Message:
    """Return the message that creates a veth pair with each end in its own namespace."""
    peer = _INFO.pack(0, 0, far.index, 0, 0) + _pack_common(far.name, mtu=far.mtu, mac=far.mac, netns_fd=far.netns_fd)
    attributes = _pack_common(near.name, mtu=near.mtu, mac=near.mac, netns_fd=near.netns_fd)
    return _build_create_message(
        "veth", near.index, attributes, codec.pack_attribute(VETH_INFO_PEER | codec.NLA_F_NESTED, peer)
    )


def build_create_macvlan(  # noqa: PLR0913 - every attribute of a macvlan
    name: str,
    parent_index: int,
    *,
    netns_fd: int | None = None,
    index: int = 0,
    group: int | None = None,
    mac: str | None = None,
    mtu: int | None = None,
) -> Message:
    """Return the message that creates a macvlan in bridge mode on `parent_index`, directly in namespace `netns_fd`."""
    attributes = _pack_common(name, netns_fd=netns_fd, group=group, mac=mac, mtu=mtu) + codec.pack_u32(
        IFLA_LINK, parent_index
    )
    return _build_create_message("macvlan", index, attributes, codec.pack_u32(IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE))


def build_create_bridge(name: str, *, mtu: int | None = None, mac: str | None = None) -> Message:
    """Return the message that creates a bridge."""
    return _build_create_message("bridge", 0, _pack_common(name, mtu=mtu, mac=mac))


def build_set_link(  # noqa: PLR0913 - every attribute of one message
    index: int,
    *,
    up: bool | None = None,
    mtu: int | None = None,
    name: str | None = None,
    master: int | None = None,
    mac: str | None = None,
    group: int | None = None,
    netns_fd: int | None = None,
    new_index: int | None = None,
    ipv4_conf: Mapping[str, int] | None = None,
) -> Message:
    """Return the message that changes an interface; `ipv4_conf` sets sysctls of IPV4_DEVCONF."""
    change = IFF_UP if up is not None else 0
    parts = [_INFO.pack(0, 0, index, IFF_UP if up else 0, change)]
    parts.append(_pack_common(name, mtu=mtu, mac=mac, netns_fd=netns_fd, group=group))
    if master is not None:
        parts.append(codec.pack_u32(IFLA_MASTER, master))
    if new_index is not None:
        parts.append(codec.pack_u32(IFLA_NEW_IFINDEX, new_index))
    if ipv4_conf:
        values = [codec.pack_u32(IPV4_DEVCONF[key], value) for key, value in ipv4_conf.items()]
        inet = codec.pack_nested(socket.AF_INET, codec.pack_nested(IFLA_INET_CONF, *values))
        parts.append(codec.pack_nested(IFLA_AF_SPEC, inet))
    return Message(RTM_NEWLINK, 0, b"".join(parts))


def build_set_flags(index: int, flags: int, change: int) -> Message:
    """Return the message that sets those flags of an interface that are in the mask `change`."""
    return Message(RTM_NEWLINK, 0, _INFO.pack(0, 0, index, flags & change, change))


def build_set_labels(index: int, *, alias: str, txqlen: int, group: int) -> Message:
    """Return the message that sets alias, length of the transmit queue, and group of an interface."""
    parts = (codec.pack_string(IFLA_IFALIAS, alias), codec.pack_u32(IFLA_TXQLEN, txqlen))
    return Message(RTM_NEWLINK, 0, _INFO.pack(0, 0, index, 0, 0) + b"".join(parts) + _pack_common(group=group))


def build_set_limits(index: int, *, mode: int, packet_limits: tuple[int, ...]) -> Message:
    """Return the message that sets link mode and packet limits (in the order of PACKET_LIMITS) of an interface."""
    limits = (codec.pack_u32(limit, value) for limit, value in zip(PACKET_LIMITS, packet_limits) if value)
    return Message(
        RTM_NEWLINK, 0, _INFO.pack(0, 0, index, 0, 0) + codec.pack_u8(IFLA_LINKMODE, mode) + b"".join(limits)
    )


def build_detach_xdp(index: int, mode_flag: int) -> Message:
    """Return the message that detaches the XDP program of a mode (XDP_FLAGS_*_MODE), if there is any."""
    fields = (codec.pack_attribute(IFLA_XDP_FD, struct.pack("=i", -1)), codec.pack_u32(IFLA_XDP_FLAGS, mode_flag))
    return Message(RTM_NEWLINK, 0, _INFO.pack(0, 0, index, 0, 0) + codec.pack_nested(IFLA_XDP, *fields))


def build_delete_link(index: int) -> Message:
    """Return the message that deletes an interface."""
    return Message(RTM_DELLINK, 0, _INFO.pack(0, 0, index, 0, 0))


def build_delete_group(group: int) -> Message:
    """Return the message that deletes all interfaces of a group, with one RCU barrier for all of them.

    The kernel refuses group 0 (EPERM), the default group of every interface.
    """
    return Message(RTM_DELLINK, 0, _INFO.pack(0, 0, 0, 0, 0) + codec.pack_u32(IFLA_GROUP, group))


def build_delete_altname(index: int, name: str) -> Message:
    """Return the message that removes an alternative name from an interface."""
    return Message(RTM_DELLINKPROP, 0, _INFO.pack(0, 0, index, 0, 0) + _pack_altname(name))


def build_add_altname(index: int, name: str) -> Message:
    """Return the message that adds an alternative name to an interface."""
    return Message(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL, _INFO.pack(0, 0, index, 0, 0) + _pack_altname(name))


def _pack_altname(name: str) -> bytes:
    return codec.pack_nested(
        IFLA_PROP_LIST, codec.pack_attribute(IFLA_ALT_IFNAME, name.encode(errors="surrogateescape") + b"\0")
    )
