"""Virtual functions of a NIC, as its physical function tells and sets them (include/uapi/linux/if_link.h, IFLA_VF_*).

How many there are is sysfs's matter (sriov_numvfs); here is what each may do. rtnetlink takes a change apart setting
by setting in the order that do_setvfinfo of net/core/rtnetlink.c has, and stops at the first that the driver refuses.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.exact import U32, format_guid, parse_guid, unpack_exact, unpack_number
from trackbed.kernel.netlink.links import IFLA_ADDRESS, IFLA_EXT_MASK, IFLA_IFNAME, RTM_GETLINK, RTM_NEWLINK, parse_mac

if TYPE_CHECKING:
    from collections.abc import Iterator

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
"""auto: the VF's link follows the port's; enable, disable: always up, always down (IFLA_VF_LINK_STATE_*)."""

_LINK_STATES: tuple[LinkState, ...] = ("auto", "enable", "disable")
_UNSET = 0xFFFFFFFF
"""What the kernel says (-1) of a setting that the driver does not know."""

_INFO = struct.Struct("=BxHiII")
_MAC = struct.Struct(f"=I{MAX_ADDR_LEN}s")
_PAIR = struct.Struct("=II")
_TRIPLE = struct.Struct("=III")
_GUID = struct.Struct("=I4xQ")
_VLAN = struct.Struct("=III")
_VLAN_INFO = struct.Struct("=IIIH2x")


@dataclass(frozen=True, slots=True)
class Vf:
    """One virtual function as its PF shows it; None where the driver does not say."""

    index: int
    mac: str
    """As long as the PF's own address: 6 bytes, 20 for IPoIB."""
    vlan: int = 0
    """1 to 4095; 0: none."""
    qos: int = 0
    vlan_protocol: int = ETH_P_8021Q
    min_tx_rate: int = 0
    """Mbit/s; 0: no limit."""
    max_tx_rate: int = 0
    spoof_check: bool | None = None
    trust: bool | None = None
    link_state: str = "auto"
    """A LinkState; a number where the kernel knows more than we do."""
    node_guid: str | None = None
    """As sysfs writes it; InfiniBand only, as is the next."""
    port_guid: str | None = None


@dataclass(frozen=True, slots=True)
class VfVlan:
    """The VLAN a VF is held in: 0 to 4095 (0: none), priority 0 to 7, and ETH_P_8021AD in place of 802.1Q."""

    id: int
    qos: int = 0
    protocol: int = ETH_P_8021Q

    def __post_init__(self) -> None:
        """Refuse, with ValueError, what the header has no room for."""
        if not 0 <= self.id <= MAX_VLAN or not 0 <= self.qos <= MAX_QOS:
            msg = f"VLAN {self.id} with priority {self.qos}: a VLAN is 0 to {MAX_VLAN}, a priority 0 to {MAX_QOS}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class VfChange:
    """What to set of a VF; None leaves a setting alone."""

    mac: str | None = None
    vlan: VfVlan | None = None
    spoof_check: bool | None = None
    link_state: LinkState | None = None
    trust: bool | None = None
    rates: tuple[int, int] | None = None
    """Least and most that the VF may send, Mbit/s; 0: no limit."""
    node_guid: str | None = None
    port_guid: str | None = None


@dataclass(frozen=True, slots=True)
class VfListing:
    """The VFs of an interface: how many the device has, and those that the driver tells of."""

    count: int
    vfs: tuple[Vf, ...]


def build_vfs_request(name: str) -> Message:
    """The request behind `get_vfs`."""
    mask = codec.pack_u32(IFLA_EXT_MASK, RTEXT_FILTER_VF | RTEXT_FILTER_SKIP_STATS)
    return Message(RTM_GETLINK, 0, _INFO.pack(0, 0, 0, 0, 0) + mask + codec.pack_string(IFLA_IFNAME, name))


def get_vfs(sock: Socket, name: str) -> VfListing:
    """The VFs of an interface, none if it is no PF; RefusedError (ENODEV) if it is not there."""
    replies = sock.request(build_vfs_request(name))
    if len(replies) != 1:
        msg = f"{len(replies)} answers to a request for one interface"
        raise MalformedError(msg)
    return parse_vfs(replies[0].body)


def parse_vfs(body: bytes | memoryview) -> VfListing:
    """The VFs in an answer to RTM_GETLINK (rtnl_fill_vf of net/core/rtnetlink.c)."""
    codec.unpack_header(_INFO, body)
    found = codec.parse_attributes(body, _INFO.size)
    mac_length = len(found.get(IFLA_ADDRESS, b""))
    listed = codec.iter_attributes(found.get(IFLA_VFINFO_LIST, b""))
    entries = tuple(_vf(codec.parse_attributes(value), mac_length) for kind, value in listed if kind == IFLA_VF_INFO)
    count = unpack_number(U32, found.get(IFLA_NUM_VF), "IFLA_NUM_VF", len(entries))
    return VfListing(count, entries)


def _vf(found: dict[int, memoryview], mac_length: int) -> Vf:
    if IFLA_VF_MAC not in found:
        msg = "an IFLA_VF_INFO without IFLA_VF_MAC"
        raise MalformedError(msg)
    mac = found[IFLA_VF_MAC]
    index, *_ = unpack_exact(_MAC, mac, "IFLA_VF_MAC")
    vlan = _vlan(found)
    least, most = _rates(found)
    return Vf(
        index=index,
        mac=bytes(mac[4 : 4 + mac_length]).hex(":"),
        vlan=vlan.id,
        qos=vlan.qos,
        vlan_protocol=vlan.protocol,
        min_tx_rate=least,
        max_tx_rate=most,
        spoof_check=_switch(found, IFLA_VF_SPOOFCHK, "IFLA_VF_SPOOFCHK"),
        trust=_switch(found, IFLA_VF_TRUST, "IFLA_VF_TRUST"),
        link_state=_link_state(found),
        node_guid=_guid(found, IFLA_VF_IB_NODE_GUID, "IFLA_VF_IB_NODE_GUID"),
        port_guid=_guid(found, IFLA_VF_IB_PORT_GUID, "IFLA_VF_IB_PORT_GUID"),
    )


def _vlan(found: dict[int, memoryview]) -> VfVlan:
    """The VLAN of the list, which has its protocol; of the older attribute where the kernel sends no list."""
    for kind, value in codec.iter_attributes(found.get(IFLA_VF_VLAN_LIST, b"")):
        if kind == IFLA_VF_VLAN_INFO:
            _, vlan, qos, _ = unpack_exact(_VLAN_INFO, value, "IFLA_VF_VLAN_INFO")
            protocol = int.from_bytes(value[_VLAN.size : _VLAN.size + 2], "big")
            return _told(vlan, qos, protocol)
    if IFLA_VF_VLAN in found:
        _, vlan, qos = unpack_exact(_VLAN, found[IFLA_VF_VLAN], "IFLA_VF_VLAN")
        return _told(vlan, qos)
    return VfVlan(0)


def _told(vlan: int, qos: int, protocol: int = ETH_P_8021Q) -> VfVlan:
    try:
        return VfVlan(vlan, qos, protocol)
    except ValueError as error:
        raise MalformedError(str(error)) from error


def _rates(found: dict[int, memoryview]) -> tuple[int, int]:
    if IFLA_VF_RATE in found:
        _, least, most = unpack_exact(_TRIPLE, found[IFLA_VF_RATE], "IFLA_VF_RATE")
        return least, most
    if IFLA_VF_TX_RATE in found:
        return 0, unpack_exact(_PAIR, found[IFLA_VF_TX_RATE], "IFLA_VF_TX_RATE")[1]
    return 0, 0


def _switch(found: dict[int, memoryview], kind: int, what: str) -> bool | None:
    if kind not in found:
        return None
    setting = unpack_exact(_PAIR, found[kind], what)[1]
    return None if setting == _UNSET else bool(setting)


def _link_state(found: dict[int, memoryview]) -> str:
    if IFLA_VF_LINK_STATE not in found:
        return "auto"
    state = unpack_exact(_PAIR, found[IFLA_VF_LINK_STATE], "IFLA_VF_LINK_STATE")[1]
    return _LINK_STATES[state] if state < len(_LINK_STATES) else str(state)


def _guid(found: dict[int, memoryview], kind: int, what: str) -> str | None:
    return format_guid(unpack_exact(_GUID, found[kind], what)[1]) if kind in found else None


def set_vf(pf_index: int, vf: int, change: VfChange) -> Message:
    """Change a VF of the PF with that interface index; ValueError for a number out of range or a GUID that is none."""
    settings = codec.pack_attribute(IFLA_VF_INFO, b"".join(_settings(vf, change)))
    return Message(RTM_NEWLINK, 0, _INFO.pack(0, 0, pf_index, 0, 0) + codec.pack_attribute(IFLA_VFINFO_LIST, settings))


def _settings(vf: int, change: VfChange) -> Iterator[bytes]:
    if change.mac is not None:
        yield codec.pack_attribute(IFLA_VF_MAC, _MAC.pack(vf, _address(change.mac)))
    if change.vlan is not None:
        yield _vlan_setting(vf, change.vlan)
    if change.spoof_check is not None:
        yield codec.pack_attribute(IFLA_VF_SPOOFCHK, _PAIR.pack(vf, int(change.spoof_check)))
    if change.link_state is not None:
        yield codec.pack_attribute(IFLA_VF_LINK_STATE, _PAIR.pack(vf, _LINK_STATES.index(change.link_state)))
    if change.trust is not None:
        yield codec.pack_attribute(IFLA_VF_TRUST, _PAIR.pack(vf, int(change.trust)))
    if change.rates is not None:
        yield codec.pack_attribute(IFLA_VF_RATE, _TRIPLE.pack(vf, *_ordered(change.rates)))
    if change.node_guid is not None:
        yield codec.pack_attribute(IFLA_VF_IB_NODE_GUID, _GUID.pack(vf, parse_guid(change.node_guid)))
    if change.port_guid is not None:
        yield codec.pack_attribute(IFLA_VF_IB_PORT_GUID, _GUID.pack(vf, parse_guid(change.port_guid)))


def _vlan_setting(vf: int, vlan: VfVlan) -> bytes:
    """The older attribute where it is enough, as ip(8) does: not every driver takes a protocol."""
    numbers = _VLAN.pack(vf, vlan.id, vlan.qos)
    if vlan.protocol == ETH_P_8021Q:
        return codec.pack_attribute(IFLA_VF_VLAN, numbers)
    info = codec.pack_attribute(IFLA_VF_VLAN_INFO, numbers + vlan.protocol.to_bytes(2, "big") + bytes(2))
    return codec.pack_attribute(IFLA_VF_VLAN_LIST, info)


def _address(mac: str) -> bytes:
    address = parse_mac(mac)
    if len(address) > MAX_ADDR_LEN:
        msg = f"an address of {len(address)} bytes: at most {MAX_ADDR_LEN}"
        raise ValueError(msg)
    return address


def _ordered(rates: tuple[int, int]) -> tuple[int, int]:
    least, most = rates
    if not 0 <= least < _UNSET or not 0 <= most < _UNSET or 0 < most < least:
        msg = f"rates {least} to {most} Mbit/s: the least is 0 or more, the most is 0 (no limit) or not below it"
        raise ValueError(msg)
    return rates
