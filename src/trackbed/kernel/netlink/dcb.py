"""Data center bridging of an interface over rtnetlink: ETS, PFC, APP table, trust, buffers (linux/dcbnl.h).

All of it is IEEE 802.1Qaz, or stands beside it in the same messages; the older CEE is not spoken. An interface without
DCB is refused (EOPNOTSUPP). PFC and ETS are set whole: read, change with `dataclasses.replace`, set.

The kernel reports a setting that the driver refuses in its answer, with an ACK of success behind it: send these
messages with `carry_out` alone, which reads the answer. `Socket.send` would take every refusal for a success.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.exact import U8, unpack_exact, unpack_number
from trackbed.kernel.netlink.sockets import Failure, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.kernel.netlink.sockets import Socket

RTM_GETDCB, RTM_SETDCB = 78, 79
DCB_CMD_IEEE_SET, DCB_CMD_IEEE_GET, DCB_CMD_SDCBX, DCB_CMD_IEEE_DEL = 20, 21, 23, 27
DCB_ATTR_IFNAME, DCB_ATTR_IEEE, DCB_ATTR_DCBX = 1, 13, 14
DCB_ATTR_IEEE_ETS, DCB_ATTR_IEEE_PFC, DCB_ATTR_IEEE_APP_TABLE = 1, 2, 3
DCB_ATTR_DCB_BUFFER, DCB_ATTR_DCB_APP_TRUST_TABLE = 10, 11
DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP = 1, 2

IEEE_8021QAZ_MAX_TCS = 8
IEEE_8021QAZ_TSA_STRICT, IEEE_8021QAZ_TSA_CB_SHAPER, IEEE_8021QAZ_TSA_ETS, IEEE_8021QAZ_TSA_VENDOR = 0, 1, 2, 255
IEEE_8021QAZ_APP_SEL_ETHERTYPE, IEEE_8021QAZ_APP_SEL_STREAM, IEEE_8021QAZ_APP_SEL_DGRAM = 1, 2, 3
IEEE_8021QAZ_APP_SEL_ANY, IEEE_8021QAZ_APP_SEL_DSCP, DCB_APP_SEL_PCP = 4, 5, 255
DCB_CAP_DCBX_HOST, DCB_CAP_DCBX_LLD_MANAGED, DCB_CAP_DCBX_VER_CEE = 0x01, 0x02, 0x04
DCB_CAP_DCBX_VER_IEEE, DCB_CAP_DCBX_STATIC = 0x08, 0x10

EightInts = tuple[int, int, int, int, int, int, int, int]
"""One number for each priority, or for each traffic class."""

_MESSAGE = struct.Struct("=BBH")
_ETS = struct.Struct("=3B56B")
_PFC = struct.Struct("=3BxH2x8Q8Q")
_APP = struct.Struct("=BBH")
_BUFFER = struct.Struct("=8B8II")
_ZEROS: EightInts = (0, 0, 0, 0, 0, 0, 0, 0)
_ERRNO_BYTE = 0x100


@dataclass(frozen=True, slots=True)
class Ets:
    """Enhanced transmission selection (struct ieee_ets): shares in percent and algorithms by traffic class."""

    willing: bool
    """The port takes what its neighbour recommends over LLDP."""
    capacity: int
    """How many traffic classes the device has; the driver says it."""
    credit_based_shaper: bool
    tx_bandwidth: EightInts
    """Percent of each class; 100 together for the classes that have IEEE_8021QAZ_TSA_ETS."""
    rx_bandwidth: EightInts
    algorithms: EightInts
    """IEEE_8021QAZ_TSA_* of each class."""
    classes: EightInts
    """The traffic class of each priority."""
    recommended_bandwidth: EightInts = _ZEROS
    recommended_algorithms: EightInts = _ZEROS
    recommended_classes: EightInts = _ZEROS


@dataclass(frozen=True, slots=True)
class Pfc:
    """Priority flow control (struct ieee_pfc)."""

    capacity: int
    """How many priorities may have PFC at once; the driver says it."""
    priorities: frozenset[int]
    """0 to 7: those that are paused rather than dropped."""
    macsec_bypass: bool = False
    delay: int = 0
    """Allowance for the round trip of the cable, in bits."""
    requests: EightInts = _ZEROS
    """Pause frames sent, by priority."""
    indications: EightInts = _ZEROS
    """Pause frames received, by priority."""


@dataclass(frozen=True, slots=True, order=True)
class App:
    """One entry of the APP table (struct dcb_app): what `selector` says `protocol` is goes to `priority`, 0 to 7.

    `dscp(26, 3)`: the DSCP 26 has priority 3. EtherType 0 is the default priority of all that is not named.
    """

    selector: int
    protocol: int
    priority: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """The receive buffers of a port (struct dcbnl_buffer)."""

    buffer_by_priority: EightInts
    """The buffer of each priority, 0 to 7."""
    sizes_bytes: EightInts
    total_bytes: int = 0
    """The driver says it."""


@dataclass(frozen=True, slots=True)
class Dcb:
    """All that an interface tells; None where its driver does not have it."""

    ets: Ets | None
    pfc: Pfc | None
    apps: tuple[App, ...]
    buffer: Buffer | None
    trust: tuple[int, ...] | None
    """Selectors whose entries count, the first before the next; Linux 6.2 and a driver that has it, else None."""
    dcbx: int | None
    """DCB_CAP_DCBX_* together: who negotiates, and in which version."""


def build_dscp_app(codepoint: int, priority: int) -> App:
    """The entry that gives a DSCP (0 to 63) its priority."""
    return App(IEEE_8021QAZ_APP_SEL_DSCP, codepoint, priority)


def group_dscp_priorities(apps: Iterable[App]) -> dict[int, frozenset[int]]:
    """The priorities of each DSCP; one that has more than one takes the highest (IEEE 802.1Qaz D.2.8.7)."""
    found: dict[int, frozenset[int]] = {}
    for app in apps:
        if app.selector == IEEE_8021QAZ_APP_SEL_DSCP:
            found[app.protocol] = found.get(app.protocol, frozenset()) | {app.priority}
    return found


def build_dcb_request(name: str) -> Message:
    """The request behind `get_dcb`."""
    return Message(RTM_GETDCB, 0, _head(DCB_CMD_IEEE_GET, name))


def get_dcb(sock: Socket, name: str) -> Dcb:
    """What an interface tells; RefusedError: ENODEV if it is not there, EOPNOTSUPP if it has no DCB."""
    return parse_dcb(_answer(sock, build_dcb_request(name)))


def parse_dcb(body: bytes | memoryview) -> Dcb:
    """What an answer to DCB_CMD_IEEE_GET says (dcbnl_ieee_fill of net/dcb/dcbnl.c)."""
    codec.unpack_header(_MESSAGE, body)
    found = codec.parse_attributes(body, _MESSAGE.size)
    ieee = codec.parse_attributes(found.get(DCB_ATTR_IEEE, b""))
    dcbx = found.get(DCB_ATTR_DCBX)
    trust = ieee.get(DCB_ATTR_DCB_APP_TRUST_TABLE)
    return Dcb(
        ets=_ets(ieee[DCB_ATTR_IEEE_ETS]) if DCB_ATTR_IEEE_ETS in ieee else None,
        pfc=_pfc(ieee[DCB_ATTR_IEEE_PFC]) if DCB_ATTR_IEEE_PFC in ieee else None,
        apps=tuple(_apps(ieee.get(DCB_ATTR_IEEE_APP_TABLE, b""))),
        buffer=_buffer(ieee[DCB_ATTR_DCB_BUFFER]) if DCB_ATTR_DCB_BUFFER in ieee else None,
        trust=None if trust is None else tuple(_trusted(trust)),
        dcbx=None if dcbx is None else unpack_number(U8, dcbx, "DCB_ATTR_DCBX"),
    )


def _ets(value: memoryview) -> Ets:
    willing, capacity, shaper, *rest = unpack_exact(_ETS, value, "DCB_ATTR_IEEE_ETS")
    tables = [_eight(rest[at : at + 8]) for at in range(0, len(rest), 8)]
    return Ets(bool(willing), capacity, bool(shaper), *tables)


def _pfc(value: memoryview) -> Pfc:
    capacity, enabled, bypass, delay, *counters = unpack_exact(_PFC, value, "DCB_ATTR_IEEE_PFC")
    on = frozenset(priority for priority in range(IEEE_8021QAZ_MAX_TCS) if enabled >> priority & 1)
    return Pfc(capacity, on, bool(bypass), delay, _eight(counters[:8]), _eight(counters[8:]))


def _apps(table: bytes | memoryview) -> Iterator[App]:
    for kind, value in codec.iter_attributes(table):
        if kind in {DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP}:
            selector, priority, protocol = unpack_exact(_APP, value, "DCB_ATTR_IEEE_APP")
            yield App(selector, protocol, priority)


def _trusted(table: memoryview) -> Iterator[int]:
    for kind, value in codec.iter_attributes(table):
        if kind in {DCB_ATTR_IEEE_APP, DCB_ATTR_DCB_APP}:
            yield unpack_number(U8, value, "DCB_ATTR_DCB_APP_TRUST_TABLE")


def _buffer(value: memoryview) -> Buffer:
    *numbers, total = unpack_exact(_BUFFER, value, "DCB_ATTR_DCB_BUFFER")
    return Buffer(_eight(numbers[:8]), _eight(numbers[8:]), total)


def set_ets(name: str, ets: Ets) -> Message:
    """Set ETS whole; ValueError for a number that is no byte."""
    tables = (
        ets.tx_bandwidth,
        ets.rx_bandwidth,
        ets.algorithms,
        ets.classes,
        ets.recommended_bandwidth,
        ets.recommended_algorithms,
        ets.recommended_classes,
    )
    head = (int(ets.willing), ets.capacity, int(ets.credit_based_shaper))
    value = _packed(_ETS, *head, *(number_ for table in tables for number_ in table))
    return _set(name, codec.pack_attribute(DCB_ATTR_IEEE_ETS, value))


def set_pfc(name: str, pfc: Pfc) -> Message:
    """Set PFC whole; counters and capacity go along and are not looked at. ValueError for a priority out of 0 to 7."""
    enabled = sum(1 << priority for priority in pfc.priorities)
    head = (pfc.capacity, enabled, int(pfc.macsec_bypass), pfc.delay)
    value = _packed(_PFC, *head, *pfc.requests, *pfc.indications)
    return _set(name, codec.pack_attribute(DCB_ATTR_IEEE_PFC, value))


def add_apps(name: str, apps: Iterable[App]) -> Message:
    """Add entries; the kernel refuses (EEXIST) one that is there. What else is there for the same protocol stays."""
    return _set(name, _app_table(apps))


def delete_apps(name: str, apps: Iterable[App]) -> Message:
    """Delete entries; the kernel refuses (ENOENT) one that is not there."""
    return _set(name, _app_table(apps), DCB_CMD_IEEE_DEL)


def set_trust(name: str, selectors: Iterable[int]) -> Message:
    """Set which selectors count, in this order (Linux 6.2); EOPNOTSUPP where the driver has no such list."""
    parts = [codec.pack_u8(_kind(selector), selector) for selector in selectors]
    return _set(name, codec.pack_nested(DCB_ATTR_DCB_APP_TRUST_TABLE, *parts))


def set_buffer(name: str, buffer: Buffer) -> Message:
    """Set the receive buffers whole; the total goes along and is not looked at."""
    value = _packed(_BUFFER, *buffer.buffer_by_priority, *buffer.sizes_bytes, buffer.total_bytes)
    return _set(name, codec.pack_attribute(DCB_ATTR_DCB_BUFFER, value))


def set_dcbx(name: str, mode: int) -> Message:
    """Set who negotiates: DCB_CAP_DCBX_* together."""
    return Message(RTM_SETDCB, 0, _head(DCB_CMD_SDCBX, name) + codec.pack_u8(DCB_ATTR_DCBX, mode))


def apply_setting(sock: Socket, message: Message) -> None:
    """Send one of the setting messages above and read what became of it; RefusedError if the driver refuses."""
    refused = parse_failure(_answer(sock, message))
    if refused:
        raise RequestError(refused)


def parse_failure(body: bytes | memoryview) -> Failure | None:
    """What an answer to a setting says: None is done.

    The kernel puts a negative errno into one byte; SDCBX answers 1 for every refusal, which is told as EINVAL here.
    """
    codec.unpack_header(_MESSAGE, body)
    found = codec.parse_attributes(body, _MESSAGE.size)
    told = found.get(DCB_ATTR_IEEE, found.get(DCB_ATTR_DCBX))
    if told is None:
        msg = "an answer to a DCB setting that does not say what became of it"
        raise MalformedError(msg)
    byte = unpack_number(U8, told, "DCB_ATTR_IEEE")
    if byte == 0:
        return None
    if byte >= _ERRNO_BYTE // 2:
        return Failure(0, _ERRNO_BYTE - byte, "")
    return Failure(0, errno.EINVAL, f"the driver answered {byte}")


def _answer(sock: Socket, message: Message) -> memoryview:
    replies = sock.request(message)
    if len(replies) != 1:
        msg = f"{len(replies)} answers to one DCB request"
        raise MalformedError(msg)
    return replies[0].body


def _head(command: int, name: str) -> bytes:
    return _MESSAGE.pack(0, command, 0) + codec.pack_string(DCB_ATTR_IFNAME, name)


def _set(name: str, inner: bytes, command: int = DCB_CMD_IEEE_SET) -> Message:
    return Message(RTM_SETDCB, 0, _head(command, name) + codec.pack_nested(DCB_ATTR_IEEE, inner))


def _app_table(apps: Iterable[App]) -> bytes:
    parts = [
        codec.pack_attribute(_kind(app.selector), _packed(_APP, app.selector, app.priority, app.protocol))
        for app in apps
    ]
    return codec.pack_nested(DCB_ATTR_IEEE_APP_TABLE, *parts)


def _kind(selector: int) -> int:
    """The attribute of a selector: the standard's own have one, those of Linux the other."""
    return DCB_ATTR_DCB_APP if selector == DCB_APP_SEL_PCP else DCB_ATTR_IEEE_APP


def _eight(numbers: list[int]) -> EightInts:
    first, second, third, fourth, fifth, sixth, seventh, eighth = numbers
    return first, second, third, fourth, fifth, sixth, seventh, eighth


def _packed(layout: struct.Struct, *numbers: int) -> bytes:
    try:
        return layout.pack(*numbers)
    except struct.error as error:
        msg = f"{numbers} does not fit: {error}"
        raise ValueError(msg) from error
