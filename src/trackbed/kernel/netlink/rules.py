"""Policy routing rules (include/uapi/linux/fib_rules.h). Addresses are ints; prefix 0 matches any."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import pack_address
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, Identity, Message
from trackbed.kernel.netlink.sockets import Socket

RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK = 1, 2, 3, 6, 10
FRA_TABLE, FRA_FWMASK, FRA_OIFNAME, FRA_PROTOCOL = 15, 16, 17, 21
FR_ACT_TO_TBL = 1
FIB_RULE_INVERT = 2
_HIGHEST_SMALL_TABLE = 255
_ALL_BITS = 0xFFFFFFFF

_INFO = struct.Struct("=BBBBBBBBI")


@dataclass(frozen=True)
class PolicyRule:
    """A rule: its selectors, and the table to look up (`action` 1)."""

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
    """Bits of the packet's mark that must equal `fwmark`. The default with `fwmark` 0 matches any mark."""
    body: bytes = field(default=b"", compare=False, repr=False)
    """Set on listed rules only: the kernel's message."""


def list_rules(sock: Socket, family: int = 0) -> tuple[PolicyRule, ...]:
    """Return the rules of a family (0: both), in order of priority."""
    rules = []
    for address_family in (family,) if family else (socket.AF_INET, socket.AF_INET6):
        rules += [
            _parse_rule(reply.body)
            for reply in sock.dump(Message(RTM_GETRULE, 0, _INFO.pack(address_family, 0, 0, 0, 0, 0, 0, 0, 0)))
        ]
    return tuple(rules)


def _parse_rule(body: memoryview) -> PolicyRule:
    family, dst_prefix, src_prefix, _, small_table, _, _, action, flags = codec.unpack_header(_INFO, body)
    attributes = codec.parse_attributes(body, _INFO.size)
    return PolicyRule(
        family=family,
        priority=codec.as_int(attributes.get(FRA_PRIORITY)),
        table=codec.as_int(attributes.get(FRA_TABLE), small_table),
        src=int.from_bytes(attributes.get(FRA_SRC, b""), "big"),
        src_prefix=src_prefix,
        dst=int.from_bytes(attributes.get(FRA_DST, b""), "big"),
        dst_prefix=dst_prefix,
        invert=bool(flags & FIB_RULE_INVERT),
        action=action,
        protocol=codec.as_int(attributes.get(FRA_PROTOCOL)),
        iif=codec.as_text(attributes.get(FRA_IIFNAME)),
        oif=codec.as_text(attributes.get(FRA_OIFNAME)),
        fwmark=codec.as_int(attributes.get(FRA_FWMARK)),
        body=bytes(body),
        fwmask=codec.as_int(attributes.get(FRA_FWMASK), _ALL_BITS),
    )


def _build_message(message_type: int, flags: int, rule: PolicyRule) -> Message:
    family = rule.family
    small = rule.table if rule.table <= _HIGHEST_SMALL_TABLE else 0
    header = (family, rule.dst_prefix, rule.src_prefix, 0, small, 0, 0, rule.action)
    parts = [_INFO.pack(*header, FIB_RULE_INVERT if rule.invert else 0)]
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
    return Message(message_type, flags, b"".join(parts))


def build_add_rule(rule: PolicyRule) -> Message:
    """Return the message that adds a rule; the kernel rejects a duplicate (EEXIST)."""
    return _build_message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule)


def build_delete_rule(rule: PolicyRule) -> Message:
    """Return the message that deletes the first rule that matches in every field that is set.

    A listed rule is deleted by its own message, which also has what PolicyRule has no field for.
    """
    return Message(RTM_DELRULE, 0, rule.body) if rule.body else _build_message(RTM_DELRULE, 0, rule)


def identify_rule(body: bytes) -> Identity:
    """Return the identity of a listed rule."""
    return codec.identify(body[: _INFO.size], body, _INFO.size)
