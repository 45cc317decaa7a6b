"""Derivation of slots from addresses, and comparison of the imported Fabric's plan with the files."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from trackbed.fabric.importers.inference.site import RailSite
from trackbed.fabric.importers.interface import Interface
from trackbed.fabric.importers.result import HostProblem
from trackbed.fabric.model.fabric import FabricSpec
from trackbed.fabric.model.problems import Place
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import build_layouts
from trackbed.fabric.plan.plan import AddressPlan, Plan, PortPlan
from trackbed.fabric.plan.schemes.layout import RangeLayout


class Slots(NamedTuple):
    """Slots by host, in order of slot; `duplicates` maps a host to an earlier host with the same slot."""

    by_host: Mapping[str, int]
    duplicates: Mapping[str, str]


def find_slots(site: RailSite, spec: FabricSpec) -> Slots:
    """Return the slot of each host: the slot that most of its addresses belong to.

    Hosts without an address of any slot are left out.
    """
    layouts = {ip_version: [layout for _, layout in build_layouts(spec, ip_version)] for ip_version in site.ranges}
    owner: dict[int, str] = {}
    duplicates = {}
    for host, ports in site.ports.items():
        votes = Counter(
            slot
            for ip_version in layouts
            for rail in ports
            for slot in _iter_slots(site, host, rail, ip_version, layouts)
        )
        if not votes:
            continue
        slot = votes.most_common(1)[0][0]
        if owner.setdefault(slot, host) != host:
            duplicates[host] = owner[slot]
    return Slots({host: slot for slot, host in sorted(owner.items())}, duplicates)


def _iter_slots(
    site: RailSite, host: str, rail: int, ip_version: int, layouts: Mapping[int, list[RangeLayout | None]]
) -> Iterator[int]:
    """Yield the slot to which the layout assigns the address of a port, if there is one."""
    address, layout = site.find_address(host, rail, ip_version), layouts[ip_version][rail]
    if address is None or layout is None:
        return
    slot = _find_slot(layout, address.number)
    if slot < layout.slots and layout.compute_address(slot).address == address.number:
        yield slot


def find_nearest(layout: RangeLayout, number: int) -> AddressPlan | None:
    """Return the port's address that a layout gives closest above an address, or its last; None without slots."""
    return layout.compute_address(min(_find_slot(layout, number), layout.slots - 1)) if layout.slots else None


def _find_slot(layout: RangeLayout, number: int) -> int:
    """Return the first slot whose port has an address from `number` on; `layout.slots` if there is none.

    Uses bisection, since the addresses of a layout increase with the slot.
    """
    low, high = 0, layout.slots
    while low < high:
        middle = (low + high) // 2
        if layout.compute_address(middle).address < number:
            low = middle + 1
        else:
            high = middle
    return low


def iter_deviations(site: RailSite, plan: Plan) -> Iterator[HostProblem]:
    """Yield every address and gateway of the files that differs from the plan."""
    for node in plan.nodes:
        for port in node.ports:
            for ip_version in site.ranges:
                yield from _compare_port(site, node.name, port, ip_version)


def _compare_port(site: RailSite, host: str, port: PortPlan, ip_version: int) -> Iterator[HostProblem]:
    interface, current = site.ports[host][port.rail], site.find_address(host, port.rail, ip_version)
    planned = port.v4 if ip_version == 4 else port.v6  # noqa: PLR2004 - IP version
    label = f"{host} rail {port.rail} ({interface.label})"
    if current is None:
        message = f"{label}: the file has no IPv{ip_version} address, the plan gives it {planned}"
        yield HostProblem("no-address", message, host, interface.addresses[0].place)
        return
    yield from _iter_extra_addresses(interface, label, str(current), ip_version)
    if str(planned) != str(current):
        message = f"{label}: the file has {current}, the plan {planned}; correct the file, or the port is renumbered"
        yield HostProblem("off-plan", message, host, current.place, "error")
        return
    gateway = site.find_gateway(host, port.rail, ip_version)
    planned_gateway = planned.gateway if planned else 0
    if gateway is not None and gateway != planned_gateway:
        shown_gateway = format_address(ip_version, planned_gateway) if planned_gateway else "none"
        message = f"{label}: the file's gateway is {format_address(ip_version, gateway)}, the plan's {shown_gateway}"
        yield HostProblem("off-plan", message, host, _find_gateway_place(interface, gateway), "error")


def _iter_extra_addresses(interface: Interface, label: str, current: str, ip_version: int) -> Iterator[HostProblem]:
    for address in interface.addresses:
        if address.version == ip_version and str(address) != current:
            message = f"{label}: {address} is an additional address; the plan has {current} only"
            yield HostProblem("second-address", message, interface.host, address.place)


def _find_gateway_place(interface: Interface, gateway: int) -> Place | None:
    return next((hop.place for hop in interface.routes if hop.via == gateway), None)
