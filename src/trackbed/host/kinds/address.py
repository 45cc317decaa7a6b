"""Kind address: a port has the planned address with the planned prefix length.

Trackbed marks its addresses (IFA_PROTO). A marked address that is no longer planned is removed; addresses of other
programs are kept. The planned address with another prefix length is replaced.

IPv6 addresses are set without duplicate detection (RFC 4862 5.4 allows it for addresses managed otherwise): while the
detection runs, and forever on a port without carrier, the kernel refuses routes that use the address as their source.
Addresses are unique in the plan, and `trackbed doctor` looks for duplicates on the network.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.plan import AddressPlan
from trackbed.host.change import ABSENT_VALUE, Change, Skipped, build_change, build_removal
from trackbed.host.kinds.entries import KernelTable, restore_entries
from trackbed.host.kinds.kind import Kind, UndoData, keep_pods
from trackbed.host.kinds.planned_entries import to_address
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_connection_managers
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.kernel.netlink.addresses import (
    FAMILY,
    IFA_F_DADFAILED,
    RTM_DELADDR,
    Address,
    build_add_address,
    build_delete_address,
    build_restore_address,
    identify_address,
    list_addresses,
)
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK

_TABLE = KernelTable("addresses", list_addresses, identify_address, RTM_DELADDR, (build_restore_address,))


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
    """Return the change of an address that is missing or has another prefix length."""
    planned, link = want.address, view.ports[want.netdev]
    family, subject = FAMILY[planned.version], f"IPv{planned.version} address of {want.netdev}"
    key = link.index, family, planned.address
    present = [address for address in view.state.addresses if (address.index, address.family, address.address) == key]
    right = [address for address in present if address.prefix == planned.prefix]
    if any(address.flags & IFA_F_DADFAILED for address in right):
        return Skipped(setting, subject, f"another machine has {planned} (duplicate address detection failed)")
    wrong = [address for address in present if address.prefix != planned.prefix]
    if right and not wrong:
        return None
    new = () if right else (build_add_address(to_address(planned, link.index, PROTOCOL)),)
    old = tuple(build_delete_address(address) for address in wrong)
    # For IPv4 the new address is added first, which keeps the routes that use it; IPv6 allows an address only once.
    do = (*new, *old) if family == socket.AF_INET else (*old, *new)
    return build_change(setting, subject, ", ".join(map(_format_address, wrong)) or ABSENT_VALUE, str(planned), do)


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of addresses that Trackbed has set and that are no longer planned."""
    wants = [want for want in view.list_wants(Want) if want.netdev in view.ports]
    planned = {(view.ports[want.netdev].index, FAMILY[want.version], want.address.address) for want in wants}
    for address in view.state.addresses:
        if address.protocol == PROTOCOL and (address.index, address.family, address.address) not in planned:
            subject = f"old address of {view.state.find_name(address.index)}"
            do = (build_delete_address(address),)
            yield build_removal("addresses", view.find_rail(address.index), subject, _format_address(address), do)


def count_entries(view: View) -> int:
    """Return the number of addresses on ports or with Trackbed's mark, without those of link scope."""
    present = [address for address in view.state.addresses if address.scope != RT_SCOPE_LINK]
    return sum(address.index in view.indexes or address.protocol == PROTOCOL for address in present)


def read_undo_data(view: View) -> UndoData:
    """Return addresses on ports or with Trackbed's mark as kernel messages; None stands for an address to be added.

    Kernels before 5.18 store no mark on addresses, so restore removes the addresses whose value is None.
    """
    wants = [want for want in view.list_wants(Want) if want.netdev in view.ports]
    planned = {f"{view.ports[want.netdev].index} {want.address}": None for want in wants}
    present = [a for a in view.state.addresses if a.index in view.indexes or a.protocol == PROTOCOL]
    return planned | {_format_undo_key(address): address.body for address in present}


def restore(machine: Machine, undo_data: UndoData) -> Iterable[str]:
    """Restore the addresses that `read_undo_data` returned; yield failures as text."""
    planned = {key for key, body in undo_data.items() if body is None}
    return restore_entries(
        machine, _TABLE, filter(None, undo_data.values()), lambda address: _format_undo_key(address) in planned
    )


def _format_undo_key(address: Address) -> str:
    return f"{address.index} {_format_address(address)}"


def _format_address(address: Address) -> str:
    return f"{format_address(4 if address.family == socket.AF_INET else 6, address.address)}/{address.prefix}"


KIND = Kind(
    "address",
    (Want,),
    compare,
    find_stale,
    read_undo_data,
    restore,
    undo_data_type=dict[str, Optional[bytes]],
    count_entries=count_entries,
    disrupts_pods=keep_pods,
    find_writers=lambda want, view: find_connection_managers(view, want.netdev),
    is_grouped=False,
)
