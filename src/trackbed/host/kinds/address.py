"""Kind address: a port has the planned address with the planned prefix length.

Trackbed marks its addresses (IFA_PROTO), so one that it set and that is no longer planned is removed; an address that
another program put on a port is kept. The planned address with another prefix length is replaced.

IPv6 addresses are set without duplicate detection (RFC 4862 5.4 allows it for addresses managed otherwise): while the
detection runs, and for ever on a port without carrier, the kernel refuses routes that use the address as their source.
The plan gives every address once; `trackbed doctor` looks for duplicates.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.host.change import NOTHING, Change, Skipped, fulfil, remove
from trackbed.host.kinds.entries import KernelTable, encode_body, restore_entries
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.addresses import (
    FAMILY,
    IFA_F_DADFAILED,
    IFA_F_NODAD,
    RTM_DELADDR,
    Address,
    add_address,
    delete_address,
    identify_address,
    list_addresses,
    restore_address,
)
from trackbed.kernel.netlink.codec import Message

_TABLE = KernelTable("addresses", list_addresses, identify_address, RTM_DELADDR, (restore_address,))


class Want(NamedTuple):
    """Interface `netdev` has this address."""

    netdev: str
    address: AddressPlan

    @property
    def version(self) -> int:
        """The IP version."""
        return self.address.version

    def __str__(self) -> str:
        return f"address {self.address} of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of an address that is missing, or has the wrong prefix length."""
    planned, link = want.address, view.ports[want.netdev]
    family, subject = FAMILY[planned.version], f"IPv{planned.version} address of {want.netdev}"
    present = [a for a in view.state.find_addresses(link) if (a.family, a.address) == (family, planned.address)]
    right = [address for address in present if address.prefix == planned.prefix]
    if any(address.flags & IFA_F_DADFAILED for address in right):
        return Skipped(setting, subject, f"another machine has {planned} (duplicate address detection failed)")
    wrong = [address for address in present if address.prefix != planned.prefix]
    if right and not wrong:
        return None
    new = () if right else (_build_address(planned, link.index),)
    old = tuple(delete_address(address) for address in wrong)
    # With the new one in place first, IPv4 keeps the routes that use the address; IPv6 allows an address only once.
    do = (*new, *old) if family == socket.AF_INET else (*old, *new)
    return fulfil(setting, subject, ", ".join(map(_to_text, wrong)) or NOTHING, str(planned), do)


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of addresses that Trackbed has set and that are no longer planned."""
    wants = [want for want in view.list_wants(Want) if want.netdev in view.ports]
    planned = {(view.ports[want.netdev].index, FAMILY[want.version], want.address.address) for want in wants}
    for address in view.state.addresses:
        if address.protocol == PROTOCOL and (address.index, address.family, address.address) not in planned:
            subject = f"old address of {view.state.find_name(address.index)}"
            do = (delete_address(address),)
            yield remove("addresses", view.find_rail(address.index), subject, _to_text(address), do)


def keep(view: View) -> Kept:
    """Return the addresses of ports, and all of Trackbed's, as the kernel lists them; null where one is only planned.

    Kernels before 5.18 keep no mark on addresses: those that the apply is about to add are known by these keys.
    """
    wants = [want for want in view.list_wants(Want) if want.netdev in view.ports]
    planned = {f"{view.ports[want.netdev].index} {want.address}": None for want in wants}
    present = [a for a in view.state.addresses if a.index in view.indexes or a.protocol == PROTOCOL]
    return planned | {_to_key(address): encode_body(address) for address in present}


def restore(machine: Machine, kept: Kept) -> Iterable[str]:
    """Restore the addresses."""
    planned = {key for key, body in kept.items() if body is None}
    return restore_entries(machine, _TABLE, filter(None, kept.values()), lambda address: _to_key(address) in planned)


def _to_key(address: Address) -> str:
    return f"{address.index} {_to_text(address)}"


def _build_address(planned: AddressPlan, index: int) -> Message:
    family = FAMILY[planned.version]
    flags = IFA_F_NODAD if family == socket.AF_INET6 else 0
    return add_address(Address(index, family, planned.address, planned.prefix, flags=flags, protocol=PROTOCOL))


def _to_text(address: Address) -> str:
    return f"{format_address(4 if address.family == socket.AF_INET else 6, address.address)}/{address.prefix}"


KIND = Kind("address", (Want,), compare, find_stale, keep, restore, is_grouped=False)
