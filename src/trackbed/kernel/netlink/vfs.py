"""Virtual functions of a NIC, read and set through its physical function (include/uapi/linux/if_link.h, IFLA_VF_*).

The number of VFs is set in sysfs (sriov_numvfs), their settings here. rtnetlink applies the settings of a change one by
one in the order of do_setvfinfo (net/core/rtnetlink.c), and stops at the first that the driver refuses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.exact import U32, format_guid, parse_guid, unpack_exact, unpack_number
from trackbed.kernel.netlink.links import IFLA_ADDRESS, IFLA_EXT_MASK, IFLA_IFNAME, RTM_GETLINK, RTM_NEWLINK, parse_mac
from trackbed.kernel.netlink.sockets import Socket

IFLA_NUM_VF, IFLA_VFINFO_LIST, IFLA_VF_INFO = 21, 22, 1
IFLA_VF_MAC, IFLA_VF_VLAN, IFLA_VF_TX_RATE, IFLA_VF_SPOOFCHK, IFLA_VF_LINK_STATE, IFLA_VF_RATE = 1, 2, 3, 4, 5, 6
IFLA_VF_TRUST, IFLA_VF_IB_NODE_GUID, IFLA_VF_IB_PORT_GUID = 9, 10, 11
IFLA_VF_VLAN_LIST, IFLA_VF_VLAN_INFO = 12, 1
RTEXT_FILTER_VF, RTEXT_FILTER_SKIP_STATS = 1, 8
ETH_P_8021Q, ETH_P_8021AD = 0x8100, 0x88A8
MAX_ADDR_LEN = 32
MAX_VLAN, MAX_QOS = 4095, 7

LinkState = Literal["auto", "enable", "disable"]
"""auto: the VF follows the port's link; enable, disable: always up, always down (IFLA_VF_LINK_STATE_*)."""

_LINK_STATES: tuple[LinkState, ...] = ("auto", "enable", "disable")
_UNSET = 0xFFFFFFFF
"""Value (-1) that the kernel reports for a setting that the driver does not report."""

_INFO = struct.Struct("=BxHiII")
_MAC = struct.Struct(f"=I{MAX_ADDR_LEN}s")
_PAIR = struct.Struct("=II")
_TRIPLE = struct.Struct("=III")
_GUID = struct.Struct("=I4xQ")
_VLAN = struct.Struct("=III")
_VLAN_INFO = struct.Struct("=IIIH2x")


class Vf(NamedTuple):
    """A virtual function as its PF reports it; None for settings that the driver does not report."""

    index: int  # type: ignore[assignment] # the field hides a method of tuple
    mac: str
    """Has the length of the PF's address: 6 bytes, or 20 for IPoIB."""
    vlan: int = 0
    """1 to 4095; 0 for none."""
    qos: int = 0
    vlan_protocol: int = ETH_P_8021Q
    min_tx_rate: int = 0
    """In Mbit/s; 0 for no limit."""
    max_tx_rate: int = 0
    spoof_check: bool | None = None
    trust: bool | None = None
    link_state: str = "auto"
    """A LinkState; a number if the kernel reports a newer state."""
    node_guid: str | None = None
    """In the format of sysfs; InfiniBand only, as `port_guid`."""
    port_guid: str | None = None


@dataclass(frozen=True)
class VfVlan:
    """VLAN of a VF: id 0 to 4095 (0: none), priority 0 to 7, and ETH_P_8021AD instead of 802.1Q."""

    id: int
    qos: int = 0
    protocol: int = ETH_P_8021Q

    def __post_init__(self) -> None:
        """Raise ValueError if a number is out of range."""
        if not 0 <= self.id <= MAX_VLAN or not 0 <= self.qos <= MAX_QOS:
            raise ValueError(
                f"VLAN {self.id} with priority {self.qos}: a VLAN is 0 to {MAX_VLAN}, a priority 0 to {MAX_QOS}"
            )


class VfChange(NamedTuple):
    """Settings to change on a VF; None leaves a setting alone."""

    mac: str | None = None
    vlan: VfVlan | None = None
    spoof_check: bool | None = None
    link_state: LinkState | None = None
    trust: bool | None = None
    rates: tuple[int, int] | None = None
    """Minimum and maximum transmit rate in Mbit/s; 0 for no limit."""
    node_guid: str | None = None
    port_guid: str | None = None


class VfListing(NamedTuple):
    """VFs of an interface: their number, and the VFs that the driver reports."""

    count: int  # type: ignore[assignment] # the field hides a method of tuple
    vfs: tuple[Vf, ...]


def build_vfs_request(name: str) -> Message:
    """Return the request that `get_vfs` sends."""
    mask = codec.pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS)
    return Message(RTM_GETLINK, 0, _INFO.pack(0, 0, 0, 0, 0) + mask + codec.pack_string(IFLA_IFNAME, name))


def get_vfs(sock: Socket, name: str) -> VfListing:
    """Return the VFs of an interface; empty if it is not a PF. Raises RequestError (ENODEV) if it does not exist."""
    return parse_vfs(sock.request_one(build_vfs_request(name)))


def parse_vfs(body: bytes | memoryview) -> VfListing:
    """Parse a reply to RTM_GETLINK (rtnl_fill_vf of net/core/rtnetlink.c)."""
    codec.unpack_header(_INFO, body)
    attributes = codec.parse_attributes(body, _INFO.size)
    mac_length = len(attributes.get(IFLA_ADDRESS, b""))
    vf_attributes = codec.iter_attributes(attributes.get(IFLA_VFINFO_LIST, b""))
    entries = tuple(
        _parse_vf(codec.parse_attributes(value), mac_length)
        for attribute_type, value in vf_attributes
        if attribute_type == IFLA_VF_INFO
    )
    count = unpack_number(U32, attributes.get(IFLA_NUM_VF), "IFLA_NUM_VF", len(entries))
    return VfListing(count, entries)


def _parse_vf(attributes: dict[int, memoryview], mac_length: int) -> Vf:
    if IFLA_VF_MAC not in attributes:
        raise MalformedError("an IFLA_VF_INFO without IFLA_VF_MAC")
    mac = attributes[IFLA_VF_MAC]
    index, *_ = unpack_exact(_MAC, mac, "IFLA_VF_MAC")
    vlan = _parse_vlan(attributes)
    lowest, highest = _parse_rates(attributes)
    return Vf(
        index=index,
        mac=bytes(mac[4 : 4 + mac_length]).hex(":"),
        vlan=vlan.id,
        qos=vlan.qos,
        vlan_protocol=vlan.protocol,
        min_tx_rate=lowest,
        max_tx_rate=highest,
        spoof_check=_parse_switch(attributes, IFLA_VF_SPOOFCHK, "IFLA_VF_SPOOFCHK"),
        trust=_parse_switch(attributes, IFLA_VF_TRUST, "IFLA_VF_TRUST"),
        link_state=_parse_link_state(attributes),
        node_guid=_parse_guid_attribute(attributes, IFLA_VF_IB_NODE_GUID, "IFLA_VF_IB_NODE_GUID"),
        port_guid=_parse_guid_attribute(attributes, IFLA_VF_IB_PORT_GUID, "IFLA_VF_IB_PORT_GUID"),
    )


def _parse_vlan(attributes: dict[int, memoryview]) -> VfVlan:
    """Return the VLAN in IFLA_VF_VLAN_LIST, which has the protocol, else the VLAN in the older IFLA_VF_VLAN."""
    for attribute_type, value in codec.iter_attributes(attributes.get(IFLA_VF_VLAN_LIST, b"")):
        if attribute_type == IFLA_VF_VLAN_INFO:
            _, vlan, qos, _ = unpack_exact(_VLAN_INFO, value, "IFLA_VF_VLAN_INFO")
            protocol = int.from_bytes(value[_VLAN.size : _VLAN.size + 2], "big")
            return _build_vlan(vlan, qos, protocol)
    if IFLA_VF_VLAN in attributes:
        _, vlan, qos = unpack_exact(_VLAN, attributes[IFLA_VF_VLAN], "IFLA_VF_VLAN")
        return _build_vlan(vlan, qos)
    return VfVlan(0)


def _build_vlan(vlan: int, qos: int, protocol: int = ETH_P_8021Q) -> VfVlan:
    try:
        return VfVlan(vlan, qos, protocol)
    except ValueError as error:
        raise MalformedError(str(error)) from error


def _parse_rates(attributes: dict[int, memoryview]) -> tuple[int, int]:
    if IFLA_VF_RATE in attributes:
        _, lowest, highest = unpack_exact(_TRIPLE, attributes[IFLA_VF_RATE], "IFLA_VF_RATE")
        return lowest, highest
    if IFLA_VF_TX_RATE in attributes:
        return 0, unpack_exact(_PAIR, attributes[IFLA_VF_TX_RATE], "IFLA_VF_TX_RATE")[1]
    return 0, 0


def _parse_switch(attributes: dict[int, memoryview], attribute_type: int, label: str) -> bool | None:
    if attribute_type not in attributes:
        return None
    setting = unpack_exact(_PAIR, attributes[attribute_type], label)[1]
    return None if setting == _UNSET else bool(setting)


def _parse_link_state(attributes: dict[int, memoryview]) -> str:
    if IFLA_VF_LINK_STATE not in attributes:
        return "auto"
    state = unpack_exact(_PAIR, attributes[IFLA_VF_LINK_STATE], "IFLA_VF_LINK_STATE")[1]
    return _LINK_STATES[state] if state < len(_LINK_STATES) else str(state)


def _parse_guid_attribute(attributes: dict[int, memoryview], attribute_type: int, label: str) -> str | None:
    return (
        format_guid(unpack_exact(_GUID, attributes[attribute_type], label)[1]) if attribute_type in attributes else None
    )


def build_set_vf(pf_index: int, vf: int, change: VfChange) -> Message:
    """Return the message that changes a VF of the PF with index `pf_index`.

    Raises ValueError for a number out of range or a malformed GUID.
    """
    settings = codec.pack_attribute(IFLA_VF_INFO, b"".join(_pack_settings(vf, change)))
    return Message(RTM_NEWLINK, 0, _INFO.pack(0, 0, pf_index, 0, 0) + codec.pack_attribute(IFLA_VFINFO_LIST, settings))


def _pack_settings(vf: int, change: VfChange) -> Iterator[bytes]:
    if change.mac is not None:
        yield codec.pack_attribute(IFLA_VF_MAC, _MAC.pack(vf, _parse_address(change.mac)))
    if change.vlan is not None:
        yield _pack_vlan(vf, change.vlan)
    if change.spoof_check is not None:
        yield codec.pack_attribute(IFLA_VF_SPOOFCHK, _PAIR.pack(vf, int(change.spoof_check)))
    if change.link_state is not None:
        yield codec.pack_attribute(IFLA_VF_LINK_STATE, _PAIR.pack(vf, _LINK_STATES.index(change.link_state)))
    if change.trust is not None:
        yield codec.pack_attribute(IFLA_VF_TRUST, _PAIR.pack(vf, int(change.trust)))
    if change.rates is not None:
        yield codec.pack_attribute(IFLA_VF_RATE, _TRIPLE.pack(vf, *_check_rates(change.rates)))
    if change.node_guid is not None:
        yield codec.pack_attribute(IFLA_VF_IB_NODE_GUID, _GUID.pack(vf, parse_guid(change.node_guid)))
    if change.port_guid is not None:
        yield codec.pack_attribute(IFLA_VF_IB_PORT_GUID, _GUID.pack(vf, parse_guid(change.port_guid)))


def _pack_vlan(vf: int, vlan: VfVlan) -> bytes:
    """Return the older IFLA_VF_VLAN where it suffices, as ip(8) does: some drivers reject a protocol."""
    numbers = _VLAN.pack(vf, vlan.id, vlan.qos)
    if vlan.protocol == ETH_P_8021Q:
        return codec.pack_attribute(IFLA_VF_VLAN, numbers)
    info = codec.pack_attribute(IFLA_VF_VLAN_INFO, numbers + vlan.protocol.to_bytes(2, "big") + bytes(2))
    return codec.pack_attribute(IFLA_VF_VLAN_LIST, info)


def _parse_address(mac: str) -> bytes:
    address = parse_mac(mac)
    if len(address) > MAX_ADDR_LEN:
        raise ValueError(f"an address of {len(address)} bytes: at most {MAX_ADDR_LEN}")
    return address


def _check_rates(rates: tuple[int, int]) -> tuple[int, int]:
    lowest, highest = rates
    if not 0 <= lowest < _UNSET or not 0 <= highest < _UNSET or 0 < highest < lowest:
        raise ValueError(
            f"rates {lowest} to {highest} Mbit/s: the minimum is 0 or more, the maximum is 0 (no limit) or not below it"
        )
    return rates
