"""What the kernel lists of an address, route or rule beyond the fields of Address, Route and PolicyRule.

An entry that this package adds has none of it, so that two entries with equal fields are equal if both have no extras.
Values are text for messages, by the name that `ip` uses, or `attribute N` for one without a name here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import (
    IFA_ADDRESS,
    IFA_CACHEINFO,
    IFA_FLAGS,
    IFA_LABEL,
    IFA_LOCAL,
    IFA_PROTO,
)
from trackbed.kernel.netlink.routes import (
    RTA_CACHEINFO,
    RTA_DST,
    RTA_GATEWAY,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_PREFSRC,
    RTA_PRIORITY,
    RTA_TABLE,
)
from trackbed.kernel.netlink.rules import (
    FIB_RULE_INVERT,
    FRA_DST,
    FRA_FWMARK,
    FRA_FWMASK,
    FRA_IIFNAME,
    FRA_OIFNAME,
    FRA_PRIORITY,
    FRA_PROTOCOL,
    FRA_SRC,
    FRA_TABLE,
)

_RTA_METRICS, _RTA_PREF = 8, 20
_FRA_SUPPRESS_PREFIXLEN = 14
_UNLIMITED = b"\xff" * 4
"""A suppressor that is off, and a lifetime without end."""

_ADDRESS_FIELDS = {IFA_ADDRESS, IFA_LOCAL, IFA_LABEL, IFA_CACHEINFO, IFA_FLAGS, IFA_PROTO}
_ADDRESS_NAMES = {4: "broadcast", 5: "anycast", 9: "metric", 10: "target namespace"}
_ROUTE_FIELDS = {
    *(RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC),
    *(RTA_MULTIPATH, RTA_TABLE, RTA_CACHEINFO, _RTA_METRICS),
}
_ROUTE_NAMES = {2: "from", 11: "realm", 18: "via", _RTA_PREF: "pref", 21: "encap type", 22: "encap", 30: "nhid"}
_METRIC_NAMES = {1: "lock", 2: "mtu", 3: "window", 4: "rtt", 7: "cwnd", 8: "advmss", 10: "hoplimit", 11: "initcwnd"}
"""RTAX_* of include/uapi/linux/rtnetlink.h."""
_RULE_FIELDS = {
    *(FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK),
    *(FRA_TABLE, FRA_FWMASK, FRA_OIFNAME, FRA_PROTOCOL),
}
_RULE_NAMES = {
    4: "goto",
    11: "realms",
    12: "tun_id",
    13: "suppress_ifgroup",
    _FRA_SUPPRESS_PREFIXLEN: "suppress_prefixlength",
    19: "l3mdev",
    20: "uidrange",
    22: "ipproto",
    23: "sport",
    24: "dport",
    25: "dscp",
}


def read_address_extras(body: bytes) -> dict[str, str]:
    """Return the extras of a listed address, from its message: peer, broadcast, metric, finite lifetimes."""
    attributes = codec.parse_attributes(body, struct.calcsize("=BBBBI")) if body else {}
    peer, local = attributes.get(IFA_ADDRESS), attributes.get(IFA_LOCAL)
    extras = {"peer": _format(peer)} if peer is not None and local is not None and peer != local else {}
    lifetimes = bytes(attributes.get(IFA_CACHEINFO, b""))
    for name, value in (("preferred_lft", lifetimes[:4]), ("valid_lft", lifetimes[4:8])):
        if value not in {b"", _UNLIMITED}:
            extras[name] = str(codec.as_int(value))
    return extras | dict(_iter_named(attributes, _ADDRESS_FIELDS, _ADDRESS_NAMES))


def read_route_extras(body: bytes) -> dict[str, str]:
    """Return the extras of a listed route, from its message: tos, source prefix, metrics, preference, expiry, ..."""
    if not body:
        return {}
    _, _, src_prefix, tos, *_ = codec.unpack_header(struct.Struct("=BBBBBBBBI"), body)
    attributes = codec.parse_attributes(body, 12)
    extras = {name: str(value) for name, value in (("tos", tos), ("from prefix", src_prefix)) if value}
    for number, value in codec.iter_attributes(attributes.get(_RTA_METRICS, b"")):
        extras[_METRIC_NAMES.get(number, f"metric {number}")] = str(codec.as_int(value))
    if any(attributes.get(RTA_CACHEINFO, b"")[8:12]):  # rta_expires of struct rta_cacheinfo
        extras["expires"] = "set"
    return extras | {
        name: value
        for name, value in _iter_named(attributes, _ROUTE_FIELDS, _ROUTE_NAMES)
        if (name, value) != ("pref", "0")  # ICMPV6_ROUTER_PREF_MEDIUM, which the kernel lists of each IPv6 route
    }


def read_rule_extras(body: bytes) -> dict[str, str]:
    """Return the extras of a listed rule, from its message: tos, flags, suppressors, further selectors, ..."""
    if not body:
        return {}
    _, _, _, tos, _, _, _, _, flags = codec.unpack_header(struct.Struct("=BBBBBBBBI"), body)
    attributes = codec.parse_attributes(body, 12)
    extras = {name: str(value) for name, value in (("tos", tos), ("flags", flags & ~FIB_RULE_INVERT)) if value}
    if FRA_FWMASK in attributes and FRA_FWMARK not in attributes:
        extras["fwmark"] = f"0/{codec.as_int(attributes[FRA_FWMASK]):#x}"
    if bytes(attributes.get(_FRA_SUPPRESS_PREFIXLEN, b"")) == _UNLIMITED:
        del attributes[_FRA_SUPPRESS_PREFIXLEN]
    return extras | dict(_iter_named(attributes, _RULE_FIELDS, _RULE_NAMES))


def _iter_named(
    attributes: Mapping[int, memoryview], fields: set[int], names: Mapping[int, str]
) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each attribute that is none of `fields`."""
    for number, value in attributes.items():
        if number not in fields:
            yield names.get(number, f"attribute {number}"), _format(value)


def _format(value: memoryview) -> str:
    """Return a small number as such, and anything else as hexadecimal bytes."""
    return str(codec.as_int(value)) if len(value) in {1, 2} else bytes(value).hex()
