"""A token bucket filter as root qdisc of an interface: tc-tbf(8), include/uapi/linux/pkt_sched.h."""

import struct

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_REPLACE, Message

BURST_BYTES = 20_000
"""Largest burst: two frames of 9,216 bytes."""
LIMIT_BYTES = 64_000
"""Bytes that wait; what comes beyond them is dropped. With much more, a stream takes seconds to fill a slow port."""

_RTM_NEWQDISC = 36
_TC_H_ROOT = 0xFFFFFFFF
_TCA_KIND, _TCA_OPTIONS = 1, 2
_TCA_TBF_PARMS, _TCA_TBF_BURST = 1, 6
_TC_LINKLAYER_ETHERNET = 1
_TCMSG = struct.Struct("=BxxxiIII")
_RATE = struct.Struct("=BBHhHI")
_LIMITS = struct.Struct("=III")


def build_set_rate(index: int, bytes_per_second: int) -> Message:
    """Return the message that limits what an interface sends; it replaces an earlier limit."""
    rate = _RATE.pack(0, _TC_LINKLAYER_ETHERNET, 0, 0, 0, bytes_per_second)
    parameters = rate + _RATE.pack(0, 0, 0, 0, 0, 0) + _LIMITS.pack(LIMIT_BYTES, 0, 0)
    options = codec.pack_nested(
        _TCA_OPTIONS,
        codec.pack_attribute(_TCA_TBF_PARMS, parameters),
        codec.pack_u32(_TCA_TBF_BURST, BURST_BYTES),
    )
    body = _TCMSG.pack(0, index, 0, _TC_H_ROOT, 0) + codec.pack_string(_TCA_KIND, "tbf") + options
    return Message(_RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body)
