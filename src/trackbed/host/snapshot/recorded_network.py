"""Interfaces, addresses and VFs in the recorded output of `ip -j`, as iproute2 4.14 and later print it.

Whoever sent an archive may have written anything, so malformed output is output that was not recorded.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TypeVar

import msgspec

from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.kernel.netlink.addresses import Address
from trackbed.kernel.netlink.links import IFF_RUNNING, IFF_UP, Link
from trackbed.kernel.netlink.vfs import Vf, VfListing

LINKS = ("ip", "-j", "-d", "-s", "link", "show")
ADDRESSES = ("ip", "-j", "addr", "show")
_FAMILIES = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}
_SCOPES = {"global": 0, "site": 200, "link": 253, "host": 254}

READS = Wanted(commands=(LINKS, ADDRESSES))


class _IpVf(msgspec.Struct):
    vf: int = -1
    address: str = ""
    mac: str = ""
    """The name of `address` before iproute2 5.3."""


class _IpLink(msgspec.Struct):
    ifindex: int = 0
    ifname: str = ""
    mtu: int = 0
    flags: tuple[str, ...] = ()
    operstate: str = ""
    address: str = ""
    permaddr: str | None = None
    vfinfo_list: tuple[_IpVf, ...] = ()


class _IpAddress(msgspec.Struct):
    family: str = ""
    local: str = ""
    prefixlen: int = 0
    scope: str = "global"


class _IpAddresses(msgspec.Struct):
    ifindex: int = 0
    addr_info: tuple[_IpAddress, ...] = ()


@dataclass(frozen=True)
class RecordedNetwork:
    """Interfaces, addresses and the VFs of each interface."""

    links: tuple[Link, ...]
    addresses: tuple[Address, ...]
    vfs: dict[str, VfListing]


def parse_network(snapshot: Snapshot) -> RecordedNetwork | None:
    """Return the recorded network; None unless both outputs are there and well-formed."""
    links = _decode(snapshot.get_output(*LINKS), _IpLink)
    holders = _decode(snapshot.get_output(*ADDRESSES), _IpAddresses)
    if not links or holders is None:
        return None
    try:
        addresses = tuple(
            _to_address(holder.ifindex, address)
            for holder in holders
            for address in holder.addr_info
            if address.family in _FAMILIES
        )
    except ValueError:
        return None
    vfs = {link.ifname: VfListing(len(link.vfinfo_list), _list_vfs(link)) for link in links if link.vfinfo_list}
    return RecordedNetwork(tuple(map(_to_link, links)), addresses, vfs)


_T = TypeVar("_T", _IpLink, _IpAddresses)


def _decode(text: str | None, item: type[_T]) -> list[_T] | None:
    try:
        return msgspec.json.decode(text or "", type=list[item])  # type: ignore[valid-type] # a type at run time
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _to_link(link: _IpLink) -> Link:
    is_up, has_carrier = "UP" in link.flags, "LOWER_UP" in link.flags
    return Link(
        index=link.ifindex,
        name=link.ifname,
        kind="",
        mtu=link.mtu,
        flags=(IFF_UP if is_up else 0) | (IFF_RUNNING if has_carrier else 0),
        operstate=link.operstate.lower(),
        carrier=has_carrier,
        carrier_up_count=0,
        carrier_down_count=0,
        mac=link.address,
        permanent_mac=link.permaddr,
        master=0,
        parent=0,
        group=0,
        altnames=(),
        parent_device=None,
    )


def _list_vfs(link: _IpLink) -> tuple[Vf, ...]:
    return tuple(Vf(vf.vf, vf.address or vf.mac) for vf in link.vfinfo_list)


def _to_address(index: int, address: _IpAddress) -> Address:
    """Convert an address. Raises ValueError where it is none."""
    number = int(ip_address(address.local))
    return Address(index, _FAMILIES[address.family], number, address.prefixlen, _SCOPES.get(address.scope, 0))
