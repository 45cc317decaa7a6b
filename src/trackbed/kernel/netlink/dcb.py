"""Data center bridging over rtnetlink: ETS, PFC, APP table, trust (linux/dcbnl.h).

Covers IEEE 802.1Qaz and Linux's additional settings; the older CEE is not supported. The kernel rejects requests for
an interface without DCB (EOPNOTSUPP). PFC and ETS are set as a whole: read, change with `dataclasses.replace`, set.

The kernel reports the driver's refusal inside its reply and still acknowledges the request with success. Send these
messages with `apply_setting`, which reads the reply. `Socket.send` would take every refusal for a success.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.exact import U8, unpack_exact, unpack_number
from trackbed.kernel.netlink.sockets import Failure, RequestError, Socket

RTM_GETDCB, RTM_SETDCB = 78, 79
DCB_CMD_IEEE_SET, DCB_CMD_IEEE_GET, DCB_CMD_SDCBX, DCB_CMD_IEEE_DEL = 20, 21, 23, 27
DCB_ATTR_IFNAME, DCB_ATTR_IEEE, DCB_ATTR_DCBX = 1, 13, 14
DCB_ATTR_IEEE_ETS, DCB_ATTR_IEEE_PFC, DCB_ATTR_IEEE_APP_TABLE = 1, 2, 3
DCB_ATTR_DCB_APP_TRUST_TABLE = 11
DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP = 1, 2

IEEE_8021QAZ_MAX_TCS = 8
IEEE_8021QAZ_TSA_STRICT, IEEE_8021QAZ_TSA_ETS = 0, 2
IEEE_8021QAZ_APP_SEL_DSCP, DCB_APP_SEL_PCP = 5, 255
DCB_CAP_DCBX_HOST, DCB_CAP_DCBX_LLD_MANAGED, DCB_CAP_DCBX_VER_IEEE = 0x01, 0x02, 0x08

EightInts = tuple[int, int, int, int, int, int, int, int]
"""One number for each priority or traffic class, 0 to 7."""

_MESSAGE = struct.Struct("=BBH")
_ETS = struct.Struct("=3B56B")
_PFC = struct.Struct("=3BxH2x8Q8Q")
_APP = struct.Struct("=BBH")
_ZEROS: EightInts = (0, 0, 0, 0, 0, 0, 0, 0)
_ERRNO_BYTE = 0x100
_ENOTSUPP_BYTE = -524 % _ERRNO_BYTE


class Ets(NamedTuple):
    """Enhanced transmission selection (struct ieee_ets): bandwidth in percent and algorithm of each traffic class."""

    willing: bool
    """Whether the port adopts the settings that its neighbour recommends over LLDP."""
    capacity: int
    """Traffic classes that the device supports; read-only."""
    credit_based_shaper: bool
    tx_bandwidth: EightInts
    """Percentage of bandwidth of each class; the classes with IEEE_8021QAZ_TSA_ETS add up to 100."""
    rx_bandwidth: EightInts
    algorithms: EightInts
    """IEEE_8021QAZ_TSA_* of each class."""
    classes: EightInts
    """Traffic class of each priority."""
    recommended_bandwidth: EightInts = _ZEROS
    recommended_algorithms: EightInts = _ZEROS
    recommended_classes: EightInts = _ZEROS


class Pfc(NamedTuple):
    """Priority flow control (struct ieee_pfc)."""

    capacity: int
    """Priorities that may have PFC at once; read-only."""
    priorities: frozenset[int]
    """Priorities (0 to 7) that are paused rather than dropped."""
    macsec_bypass: bool = False
    delay: int = 0
    """Allowance for the round trip on the cable, in bits."""
    requests: EightInts = _ZEROS
    """Pause frames sent, by priority."""
    indications: EightInts = _ZEROS
    """Pause frames received, by priority."""


class App(NamedTuple):
    """An entry of the APP table (struct dcb_app): traffic of `protocol` gets `priority` (0 to 7).

    `selector` says how `protocol` is read. `build_dscp_app(26, 3)` gives DSCP 26 the priority 3. EtherType 0 sets the
    default priority.
    """

    selector: int
    protocol: int
    priority: int


@dataclass(frozen=True)
class Dcb:
    """Bridging settings of an interface; None for those that its driver does not support."""

    ets: Ets | None
    pfc: Pfc | None
    apps: tuple[App, ...]
    trust: tuple[int, ...] | None
    """Trusted selectors in order of precedence; needs Linux 6.2 and support in the driver."""
    dcbx: int | None
    """DCB_CAP_DCBX_* flags: whether host or firmware negotiates, and in which version."""
    body: bytes = field(default=b"", compare=False, repr=False)
    """The reply that `parse_dcb` read."""

    @property
    def is_negotiated_by_firmware(self) -> bool:
        """Whether the firmware negotiates with the neighbour: mlx5 then lacks HOST, others have LLD_MANAGED."""
        return bool(self.dcbx) and not (self.dcbx or 0) & DCB_CAP_DCBX_HOST


def build_dscp_app(codepoint: int, priority: int) -> App:
    """Return the APP entry that maps a DSCP (0 to 63) to a priority."""
    return App(IEEE_8021QAZ_APP_SEL_DSCP, codepoint, priority)


def group_dscp_priorities(apps: Iterable[App]) -> dict[int, frozenset[int]]:
    """Return the priorities of each DSCP; the highest of several applies (IEEE 802.1Qaz D.2.8.7)."""
    priorities: dict[int, frozenset[int]] = {}
    for app in apps:
        if app.selector == IEEE_8021QAZ_APP_SEL_DSCP:
            priorities[app.protocol] = priorities.get(app.protocol, frozenset()) | {app.priority}
    return priorities


def build_dcb_request(name: str) -> Message:
    """Return the request that `get_dcb` sends."""
    return Message(RTM_GETDCB, 0, _pack_header(DCB_CMD_IEEE_GET, name))


def get_dcb(sock: Socket, name: str) -> Dcb:
    """Return the settings of an interface.

    Raises RequestError: ENODEV if it does not exist, EOPNOTSUPP if it has no DCB.
    """
    return parse_dcb(sock.request_one(build_dcb_request(name)))


def parse_dcb(body: bytes | memoryview) -> Dcb:
    """Parse a reply to DCB_CMD_IEEE_GET (dcbnl_ieee_fill of net/dcb/dcbnl.c)."""
    codec.unpack_header(_MESSAGE, body)
    attributes = codec.parse_attributes(body, _MESSAGE.size)
    ieee = codec.parse_attributes(attributes.get(DCB_ATTR_IEEE, b""))
    dcbx = attributes.get(DCB_ATTR_DCBX)
    trust = ieee.get(DCB_ATTR_DCB_APP_TRUST_TABLE)
    return Dcb(
        ets=_parse_ets(ieee[DCB_ATTR_IEEE_ETS]) if DCB_ATTR_IEEE_ETS in ieee else None,
        pfc=_parse_pfc(ieee[DCB_ATTR_IEEE_PFC]) if DCB_ATTR_IEEE_PFC in ieee else None,
        apps=tuple(_parse_apps(ieee.get(DCB_ATTR_IEEE_APP_TABLE, b""))),
        trust=None if trust is None else tuple(_parse_trust(trust)),
        dcbx=None if dcbx is None else unpack_number(U8, dcbx, "DCB_ATTR_DCBX"),
        body=bytes(body),
    )


def _parse_ets(value: memoryview) -> Ets:
    willing, capacity, shaper, *numbers = unpack_exact(_ETS, value, "DCB_ATTR_IEEE_ETS")
    tables = [_to_eight_ints(numbers[start : start + 8]) for start in range(0, len(numbers), 8)]
    return Ets(bool(willing), capacity, bool(shaper), *tables)


def _parse_pfc(value: memoryview) -> Pfc:
    capacity, enabled, bypass, delay, *counters = unpack_exact(_PFC, value, "DCB_ATTR_IEEE_PFC")
    paused = frozenset(priority for priority in range(IEEE_8021QAZ_MAX_TCS) if enabled >> priority & 1)
    return Pfc(capacity, paused, bool(bypass), delay, _to_eight_ints(counters[:8]), _to_eight_ints(counters[8:]))


def _parse_apps(table: bytes | memoryview) -> Iterator[App]:
    for attribute_type, value in codec.iter_attributes(table):
        if attribute_type in {DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP}:
            selector, priority, protocol = unpack_exact(_APP, value, "DCB_ATTR_IEEE_APP")
            yield App(selector, protocol, priority)


def _parse_trust(table: memoryview) -> Iterator[int]:
    for attribute_type, value in codec.iter_attributes(table):
        if attribute_type in {DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP}:
            yield unpack_number(U8, value, "DCB_ATTR_DCB_APP_TRUST_TABLE")


def build_set_ets(netdev: str, ets: Ets) -> Message:
    """Return the message that sets ETS. Raises ValueError if a number does not fit into a byte."""
    tables = (
        ets.tx_bandwidth,
        ets.rx_bandwidth,
        ets.algorithms,
        ets.classes,
        ets.recommended_bandwidth,
        ets.recommended_algorithms,
        ets.recommended_classes,
    )
    header = (int(ets.willing), ets.capacity, int(ets.credit_based_shaper))
    value = _pack_struct(_ETS, *header, *(number for table in tables for number in table))
    return _build_set_message(netdev, codec.pack_attribute(DCB_ATTR_IEEE_ETS, value))


def build_set_pfc(netdev: str, pfc: Pfc) -> Message:
    """Return the message that sets PFC; the kernel ignores counters and capacity.

    Raises ValueError for a priority outside 0 to 7.
    """
    enabled = sum(1 << priority for priority in pfc.priorities)
    header = (pfc.capacity, enabled, int(pfc.macsec_bypass), pfc.delay)
    value = _pack_struct(_PFC, *header, *pfc.requests, *pfc.indications)
    return _build_set_message(netdev, codec.pack_attribute(DCB_ATTR_IEEE_PFC, value))


def build_add_apps(netdev: str, apps: Iterable[App]) -> Message:
    """Return the message that adds APP entries.

    The kernel rejects an existing entry (EEXIST); other entries of the same protocol are left alone.
    """
    return _build_set_message(netdev, _pack_app_table(apps))


def build_delete_apps(netdev: str, apps: Iterable[App]) -> Message:
    """Return the message that deletes APP entries; the kernel rejects it (ENOENT) if an entry is missing."""
    return _build_set_message(netdev, _pack_app_table(apps), DCB_CMD_IEEE_DEL)


def build_set_trust(netdev: str, selectors: Iterable[int]) -> Message:
    """Return the message that sets the trusted selectors in order of precedence (Linux 6.2).

    The kernel rejects it (EOPNOTSUPP) if the driver has no such list.
    """
    parts = [codec.pack_u8(_find_app_attribute(selector), selector) for selector in selectors]
    return _build_set_message(netdev, codec.pack_nested(DCB_ATTR_DCB_APP_TRUST_TABLE, *parts))


def build_set_dcbx(netdev: str, flags: int) -> Message:
    """Return the message that sets who negotiates, and in which version (DCB_CAP_DCBX_*); 0 is the firmware."""
    return Message(RTM_SETDCB, 0, _pack_header(DCB_CMD_SDCBX, netdev) + codec.pack_u8(DCB_ATTR_DCBX, flags))


def apply_setting(sock: Socket, message: Message) -> None:
    """Send a message that sets, adds or deletes something. Raises RequestError if the driver rejects it."""
    failure = parse_failure(sock.request_one(message))
    if failure:
        raise RequestError(failure)


def parse_failure(body: bytes | memoryview) -> Failure | None:
    """Parse a reply to a setting; None means success.

    The kernel stores a negative errno in one byte; EINVAL stands for any other refusal. ENOTSUPP (524 in
    include/linux/errno.h, which user space does not know) arrives as 0xf4 and is returned as EOPNOTSUPP.
    """
    codec.unpack_header(_MESSAGE, body)
    attributes = codec.parse_attributes(body, _MESSAGE.size)
    status_attribute = attributes.get(DCB_ATTR_DCBX if bytes(body)[1] == DCB_CMD_SDCBX else DCB_ATTR_IEEE)
    if status_attribute is None:
        raise MalformedError("a reply to a DCB setting without its result")
    status = unpack_number(U8, status_attribute, "DCB_ATTR_IEEE")
    if status == 0:
        return None
    if status == _ENOTSUPP_BYTE:
        return Failure(0, errno.EOPNOTSUPP, "")
    if status >= _ERRNO_BYTE // 2:
        return Failure(0, _ERRNO_BYTE - status, "")
    return Failure(0, errno.EINVAL, f"the driver replied {status}")


def _pack_header(command: int, name: str) -> bytes:
    return _MESSAGE.pack(0, command, 0) + codec.pack_string(DCB_ATTR_IFNAME, name)


def _build_set_message(name: str, inner: bytes, command: int = DCB_CMD_IEEE_SET) -> Message:
    return Message(RTM_SETDCB, 0, _pack_header(command, name) + codec.pack_nested(DCB_ATTR_IEEE, inner))


def _pack_app_table(apps: Iterable[App]) -> bytes:
    parts = [
        codec.pack_attribute(
            _find_app_attribute(app.selector), _pack_struct(_APP, app.selector, app.priority, app.protocol)
        )
        for app in apps
    ]
    return codec.pack_nested(DCB_ATTR_IEEE_APP_TABLE, *parts)


def _find_app_attribute(selector: int) -> int:
    """Return the attribute type of a selector: IEEE selectors and Linux's own selectors have different types."""
    return DCB_ATTR_DCB_APP if selector == DCB_APP_SEL_PCP else DCB_ATTR_IEEE_APP


def _to_eight_ints(numbers: list[int]) -> EightInts:
    first, second, third, fourth, fifth, sixth, seventh, eighth = numbers
    return first, second, third, fourth, fifth, sixth, seventh, eighth


def _pack_struct(layout: struct.Struct, *numbers: int) -> bytes:
    try:
        return layout.pack(*numbers)
    except struct.error as error:
        raise ValueError(f"{numbers} does not fit: {error}") from error
