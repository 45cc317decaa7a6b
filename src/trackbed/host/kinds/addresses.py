"""Kind address: the port has the planned address with the planned prefix length.

Trackbed marks its addresses (IFA_PROTO), so one that it set and that is planned no more is removed; an address that
somebody else put on a port stays. The planned address with another prefix length is replaced.

IPv6 addresses are set without duplicate detection (RFC 4862 5.4 allows it for addresses managed otherwise): while the
detection runs, and for ever on a port without carrier, the kernel refuses routes that use the address as their source.
The plan gives every address once; `trackbed doctor` looks for strangers.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import text
from trackbed.host.change import NOTHING, Change, Skipped, stale, wanted
from trackbed.host.kinds.view import View
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.host.setting import Address as Want
from trackbed.host.state import IFA_PROTO
from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import FAMILY, IFA_F_DADFAILED, IFA_F_NODAD, Address, add_address, delete_address

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.kernel.netlink.codec import Message


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """The address that is missing, or has the wrong prefix length."""
    own, link = want.own, view.ports[want.netdev]
    family, what = FAMILY[own.version], f"IPv{own.version} address of {want.netdev}"
    same = [a for a in view.state.addresses_on(link) if a.family == family and a.address == own.address]
    right = [a for a in same if a.prefix == own.prefix]
    if any(a.flags & IFA_F_DADFAILED for a in right):
        return Skipped(setting, what, f"another machine has {own} (duplicate address detection failed)")
    wrong = [a for a in same if a.prefix != own.prefix]
    if right and not wrong:
        return None
    new = () if right else (_add(family, own.address, own.prefix, link.index),)
    remove = tuple(delete_address(a) for a in wrong)
    # With the new one in place first, IPv4 keeps the routes that use the address; IPv6 allows an address only once.
    do = (*new, *remove) if family == socket.AF_INET else (*remove, *new)
    return wanted(setting, what, ", ".join(map(_text, wrong)) or NOTHING, str(own), do)


def unplanned(view: View) -> Iterator[Change]:
    """Addresses that Trackbed has set and that are planned no more."""
    planned = {
        (view.ports[w.netdev].index, FAMILY[w.own.version], w.own.address)
        for s in view.settings
        if isinstance(w := s.want, Want) and w.netdev in view.ports
    }
    for own in view.state.addresses:
        key = (own.index, own.family, own.address)
        if key in view.state.ours and key not in planned:
            what = f"old address of {view.state.named(own.index)}"
            yield stale("addresses", view.rail_of(own.index), what, _text(own), (delete_address(own),))


def _add(family: int, address: int, prefix: int, index: int) -> Message:
    flags = IFA_F_NODAD if family == socket.AF_INET6 else 0
    message = add_address(Address(index, family, address, prefix, flags=flags))
    return message._replace(body=message.body + codec.pack_u8(IFA_PROTO, PROTOCOL))


def _text(own: Address) -> str:
    return f"{text(4 if own.family == socket.AF_INET else 6, own.address)}/{own.prefix}"
