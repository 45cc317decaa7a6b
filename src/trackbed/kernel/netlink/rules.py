"""Policy rules (include/uapi/linux/fib_rules.h). Addresses are ints; prefix 0 means any."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import pack_address
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, Message

if TYPE_CHECKING:
    from trackbed.kernel.netlink.sockets import Socket

RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK = 1, 2, 3, 6, 10
FRA_TABLE, FRA_FWMASK, FRA_OIFNAME, FRA_PROTOCOL = 15, 16, 17, 21
FR_ACT_TO_TBL = 1
FIB_RULE_INVERT = 2
_HIGHEST_SMALL_TABLE = 255
_ALL_BITS = 0xFFFFFFFF

_INFO = struct.Struct("=BBBBBBBBI")


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule: what it matches, and the table it looks up (`action` 1)."""

    family: int
    priority: int
    table: int = 0
    src: int = 0
    src_prefix: int = 0
    dst: int = 0
    dst_prefix: int = 0
    invert: bool = False
    action: int = FR_ACT_TO_TBL
    protocol: int = 0
    iif: str = ""
    oif: str = ""
    fwmark: int = 0
    fwmask: int = _ALL_BITS
    """The bits of the packet's mark that must equal `fwmark`; all of them and 0 match any mark."""


def list_rules(sock: Socket, family: int = 0) -> tuple[PolicyRule, ...]:
    """All rules of a family (0: both), in the kernel's order, that is by priority."""
    found = []
    for one in (family,) if family else (socket.AF_INET, socket.AF_INET6):
        found += [_rule(r.body) for r in sock.dump(Message(RTM_GETRULE, 0, _INFO.pack(one, 0, 0, 0, 0, 0, 0, 0, 0)))]
    return tuple(found)


def _rule(body: memoryview) -> PolicyRule:
    family, dst_prefix, src_prefix, _, small_table, _, _, action, flags = codec.unpack_header(_INFO, body)
    found = codec.parse_attributes(body, _INFO.size)
    return PolicyRule(
        family=family,
        priority=codec.as_int(found.get(FRA_PRIORITY)),
        table=codec.as_int(found.get(FRA_TABLE), small_table),
        src=int.from_bytes(found.get(FRA_SRC, b""), "big"),
        src_prefix=src_prefix,
        dst=int.from_bytes(found.get(FRA_DST, b""), "big"),
        dst_prefix=dst_prefix,
        invert=bool(flags & FIB_RULE_INVERT),
        action=action,
        protocol=codec.as_int(found.get(FRA_PROTOCOL)),
        iif=codec.as_text(found.get(FRA_IIFNAME)),
        oif=codec.as_text(found.get(FRA_OIFNAME)),
        fwmark=codec.as_int(found.get(FRA_FWMARK)),
        fwmask=codec.as_int(found.get(FRA_FWMASK), _ALL_BITS),
    )


def _message(kind: int, flags: int, rule: PolicyRule) -> Message:
    family = rule.family
    small = rule.table if rule.table <= _HIGHEST_SMALL_TABLE else 0
    head = (family, rule.dst_prefix, rule.src_prefix, 0, small, 0, 0, rule.action)
    parts = [_INFO.pack(*head, FIB_RULE_INVERT if rule.invert else 0)]
    parts += [codec.pack_u32(FRA_TABLE, rule.table), codec.pack_u32(FRA_PRIORITY, rule.priority)]
    if rule.src_prefix:
        parts.append(codec.pack_attribute(FRA_SRC, pack_address(family, rule.src)))
    if rule.dst_prefix:
        parts.append(codec.pack_attribute(FRA_DST, pack_address(family, rule.dst)))
    if rule.protocol:
        parts.append(codec.pack_u8(FRA_PROTOCOL, rule.protocol))
    if rule.iif:
        parts.append(codec.pack_string(FRA_IIFNAME, rule.iif))
    if rule.oif:
        parts.append(codec.pack_string(FRA_OIFNAME, rule.oif))
    if rule.fwmark or rule.fwmask != _ALL_BITS:
        parts += [codec.pack_u32(FRA_FWMARK, rule.fwmark), codec.pack_u32(FRA_FWMASK, rule.fwmask)]
    return Message(kind, flags, b"".join(parts))


def add_rule(rule: PolicyRule) -> Message:
    """Add a rule; refused (EEXIST) if the very same is there."""
    return _message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule)


def delete_rule(rule: PolicyRule) -> Message:
    """Delete the first rule that matches in all that is given."""
    return _message(RTM_DELRULE, 0, rule)
