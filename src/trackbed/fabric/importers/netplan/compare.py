"""Slots derived from addresses, and the plan of the imported Fabric compared with the files."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trackbed.fabric.importers.netplan.interfaces import Interface
from trackbed.fabric.importers.netplan.site import NetplanSite
from trackbed.fabric.importers.result import HostProblem
from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import build_layouts
from trackbed.fabric.plan.plan import Plan, PortPlan
from trackbed.fabric.plan.schemes.layout import RangeLayout


class Slots(NamedTuple):
    """Slots by host, in order of slot; `duplicates` maps a host to the other host that has its addresses."""

    by_host: Mapping[str, int]
    duplicates: Mapping[str, str]


def find_slots(site: NetplanSite, spec: FabricSpec) -> Slots:
    """Return the slot that most addresses of each host correspond to; a host without any has no slot."""
    layouts = {version: [layout for _, layout in build_layouts(spec, version)] for version in site.ranges}
    owner: dict[int, str] = {}
    duplicates = {}
    for host, ports in site.ports.items():
        votes = Counter(
            slot for version in layouts for rail in ports for slot in _find_slot(site, host, rail, version, layouts)
        )
        if not votes:
            continue
        slot = votes.most_common(1)[0][0]
        if owner.setdefault(slot, host) != host:
            duplicates[host] = owner[slot]
    return Slots({host: slot for slot, host in sorted(owner.items())}, duplicates)


def _find_slot(
    site: NetplanSite, host: str, rail: int, version: int, layouts: Mapping[int, list[RangeLayout | None]]
) -> Iterator[int]:
    """Yield the slot of an address if the layout assigns it to a port.

    Uses bisection, since the addresses of a layout increase with the slot.
    """
    address, layout = site.find_address(host, rail, version), layouts[version][rail]
    if address is None or layout is None:
        return
    low, high = 0, layout.slots
    while low < high:
        middle = (low + high) // 2
        if layout.compute_address(middle).address < address.number:
            low = middle + 1
        else:
            high = middle
    if low < layout.slots and layout.compute_address(low).address == address.number:
        yield low


def iter_deviations(site: NetplanSite, plan: Plan) -> Iterator[HostProblem]:
    """Yield every address and gateway of the files that differs from the plan."""
    for node in plan.nodes:
        for port in node.ports:
            for version in site.ranges:
                yield from _compare_port(site, node.name, port, version)


def _compare_port(site: NetplanSite, host: str, port: PortPlan, version: int) -> Iterator[HostProblem]:
    interface, current = site.ports[host][port.rail], site.find_address(host, port.rail, version)
    planned = port.v4 if version == 4 else port.v6  # noqa: PLR2004 - IP version
    label = f"{host} rail {port.rail} ({interface.name})"
    if current is None:
        message = f"{label}: the file has no IPv{version} address, the plan gives it {planned}"
        yield HostProblem("no-address", message, host, interface.addresses[0].place)
        return
    if str(planned) != str(current):
        message = f"{label}: the file has {current}, the plan {planned}; correct the file, or the port is renumbered"
        yield HostProblem("off-plan", message, host, current.place, "error")
        return
    yield from _iter_extra_addresses(interface, label, str(current), version)
    gateway = site.find_gateway(host, port.rail, version)
    planned_gateway = planned.gateway if planned else 0
    if gateway is not None and gateway != planned_gateway:
        shown_gateway = format_address(version, planned_gateway) if planned_gateway else "none"
        message = f"{label}: the file's gateway is {format_address(version, gateway)}, the plan's {shown_gateway}"
        yield HostProblem("off-plan", message, host, _find_place(interface, gateway), "error")


def _iter_extra_addresses(interface: Interface, label: str, current: str, version: int) -> Iterator[HostProblem]:
    for address in interface.addresses:
        if address.version == version and str(address) != current:
            message = f"{label}: {address} is an additional address; the plan has {current} only"
            yield HostProblem("second-address", message, interface.host, address.place)


def _find_place(interface: Interface, gateway: int) -> Place | None:
    return next((hop.place for hop in interface.routes if hop.via == gateway), None)
