"""Addresses and MACs that stand at two ports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.fabric.importers.imported import HostProblem
from trackbed.fabric.model.ranges import text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.fabric.importers.netplan.interfaces import Interface
    from trackbed.fabric.model.problems import Place


def iter_duplicate_addresses(interfaces: Iterable[Interface]) -> Iterator[HostProblem]:
    """Static addresses given to two interfaces, each with both places."""
    seen: dict[tuple[int, int], tuple[str, Place]] = {}
    for interface in interfaces:
        for address in interface.addresses:
            mine = (f"{interface.host} {interface.name}", address.place)
            who, place = seen.setdefault((address.version, address.number), mine)
            if place != address.place:
                shown = text(address.version, address.number)
                message = f"{mine[0]} has {shown}, which is already at {who} ({place}); an address belongs to one port"
                yield HostProblem("duplicate-address", message, interface.host, address.place, "error")


def drop_duplicate_macs(interfaces: Iterable[Interface]) -> tuple[dict[int, str], list[HostProblem]]:
    """MAC addresses that count, by id of the interface; of two ports with one MAC the first keeps it."""
    owner: dict[str, Interface] = {}
    kept: dict[int, str] = {}
    remarks = []
    for interface in interfaces:
        if interface.mac is None:
            continue
        first = owner.setdefault(interface.mac, interface)
        if first is interface:
            kept[id(interface)] = interface.mac
            continue
        message = (
            f"{interface.host} {interface.name} has MAC address {interface.mac}, which is already at "
            f"{first.host} {first.name}; it is taken for that one only"
        )
        place = interface.addresses[0].place if interface.addresses else None
        remarks.append(HostProblem("duplicate-mac", message, interface.host, place, "error"))
    return kept, remarks
