"""Detection of addresses and MACs that two ports share."""

from collections.abc import Iterable, Iterator

from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.result import HostProblem
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import format_address


def iter_duplicate_addresses(interfaces: Iterable[Interface]) -> Iterator[HostProblem]:
    """Yield a problem for each static address that two interfaces share, with both places."""
    owners: dict[tuple[int, int], tuple[str, Place]] = {}
    for interface in interfaces:
        for address in interface.addresses:
            owner = (f"{interface.host} {interface.label}", address.place)
            first_owner, first_place = owners.setdefault((address.version, address.number), owner)
            if first_place != address.place:
                shown = format_address(address.version, address.number)
                message = (
                    f"{owner[0]} has {shown}, which is already at {first_owner} ({first_place}); an address belongs to "
                    "one port"
                )
                yield HostProblem("duplicate-address", message, interface.host, address.place, "error")


def drop_duplicate_macs(interfaces: Iterable[Interface]) -> tuple[dict[int, str], list[HostProblem]]:
    """Return the MAC addresses by id(interface), and the duplicates; the first port with a MAC keeps it."""
    owners: dict[str, Interface] = {}
    kept: dict[int, str] = {}
    host_problems = []
    for interface in interfaces:
        if interface.mac is None:
            continue
        first = owners.setdefault(interface.mac, interface)
        if first is interface:
            kept[id(interface)] = interface.mac
            continue
        message = (
            f"{interface.host} {interface.label} has MAC address {interface.mac}, which is already at "
            f"{first.host} {first.label}; it is used for that port only"
        )
        place = interface.addresses[0].place if interface.addresses else None
        host_problems.append(HostProblem("duplicate-mac", message, interface.host, place, "error"))
    return kept, host_problems
