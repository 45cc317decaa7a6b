"""Network interfaces: list, create and change them in any namespace (include/uapi/linux/if_link.h, rtnetlink.h)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, Message
from trackbed.kernel.netlink.sockets import Socket

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_DELLINKPROP = 109
IFF_UP, IFF_RUNNING = 0x1, 0x40

IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 3, 4, 5, 10
IFLA_OPERSTATE, IFLA_LINKINFO, IFLA_AF_SPEC, IFLA_GROUP, IFLA_NET_NS_FD = 16, 18, 26, 27, 28
IFLA_EXT_MASK, IFLA_CARRIER, IFLA_LINK_NETNSID = 29, 33, 37
IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT, IFLA_NEW_IFINDEX = 47, 48, 49
IFLA_PROP_LIST, IFLA_ALT_IFNAME, IFLA_PERM_ADDRESS, IFLA_PARENT_DEV_NAME, IFLA_PARENT_DEV_BUS_NAME = 52, 53, 54, 56, 57
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
of include/uapi/linux/ip.h). Older kernels refuse the last ones.
"""

_OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")
_INFO = struct.Struct("=BxHiII")


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
    parent_device: str | None
    """Name of the device on its bus; the PCI address of a NIC."""
    parent_bus: str | None = None
    """Bus of that device, for example "pci"."""
    link_netnsid: int | None = None
    """Namespace id of `parent` (IFLA_LINK_NETNSID); None if `parent` is in this namespace."""

    @property
    def up(self) -> bool:
        """Whether the interface is administratively up."""
        return bool(self.flags & IFF_UP)

    @property
    def running(self) -> bool:
        """Whether the interface is operationally up (RFC 2863)."""
        return bool(self.flags & IFF_RUNNING)


def list_links(sock: Socket) -> tuple[Link, ...]:
    """Return the interfaces in the socket's namespace."""
    body = _INFO.pack(0, 0, 0, 0, 0) + codec.pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
    return tuple(_parse_link(reply.body) for reply in sock.dump(Message(RTM_GETLINK, 0, body)))


def get_link(sock: Socket, name: str) -> Link:
    """Return an interface by name; RequestError (ENODEV) if it does not exist."""
    body = _INFO.pack(0, 0, 0, 0, 0) + codec.pack_string(IFLA_IFNAME, name)
    return _parse_link(sock.request(Message(RTM_GETLINK, 0, body))[0].body)


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
    )


def _parse_altnames(properties: memoryview | None) -> Iterator[str]:
    for attribute_type, value in codec.iter_attributes(properties or b""):
        if attribute_type == IFLA_ALT_IFNAME:
            yield codec.as_text(value)


def _format_mac(value: bytes | memoryview) -> str:
    return bytes(value).hex(":")


def parse_mac(mac: str) -> bytes:
    """Return a MAC address as bytes; ValueError if it is malformed."""
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


def create_veth(near: VethEnd, far: VethEnd) -> Message:
    """Return the message that creates a veth pair, each end directly in its namespace."""
    peer = _INFO.pack(0, 0, far.index, 0, 0) + _pack_common(far.name, mtu=far.mtu, mac=far.mac, netns_fd=far.netns_fd)
    attributes = _pack_common(near.name, mtu=near.mtu, mac=near.mac, netns_fd=near.netns_fd)
    return _build_create_message(
        "veth", near.index, attributes, codec.pack_attribute(VETH_INFO_PEER | codec.NLA_F_NESTED, peer)
    )


def create_macvlan(  # noqa: PLR0913 - every attribute of a macvlan
    name: str,
    parent_index: int,
    *,
    netns_fd: int | None = None,
    index: int = 0,
    group: int | None = None,
    mac: str | None = None,
    mtu: int | None = None,
) -> Message:
    """Return the message that creates a macvlan in bridge mode on `parent_index`, directly in a namespace."""
    attributes = _pack_common(name, netns_fd=netns_fd, group=group, mac=mac, mtu=mtu) + codec.pack_u32(
        IFLA_LINK, parent_index
    )
    return _build_create_message("macvlan", index, attributes, codec.pack_u32(IFLA_MACVLAN_MODE, MACVLAN_MODE_BRIDGE))


def create_bridge(name: str, *, mtu: int | None = None, mac: str | None = None) -> Message:
    """Return the message that creates a bridge."""
    return _build_create_message("bridge", 0, _pack_common(name, mtu=mtu, mac=mac))


def set_link(  # noqa: PLR0913 - every attribute of one message
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


def delete_link(index: int) -> Message:
    """Return the message that deletes an interface."""
    return Message(RTM_DELLINK, 0, _INFO.pack(0, 0, index, 0, 0))


def delete_group(group: int) -> Message:
    """Return the message that deletes all interfaces of a group, with one RCU barrier for all of them.

    The kernel refuses group 0 (EPERM), the default group of every interface.
    """
    return Message(RTM_DELLINK, 0, _INFO.pack(0, 0, 0, 0, 0) + codec.pack_u32(IFLA_GROUP, group))


def delete_altname(index: int, name: str) -> Message:
    """Return the message that removes an alternative name from an interface."""
    inner = codec.pack_nested(IFLA_PROP_LIST, codec.pack_string(IFLA_ALT_IFNAME, name))
    return Message(RTM_DELLINKPROP, 0, _INFO.pack(0, 0, index, 0, 0) + inner)
