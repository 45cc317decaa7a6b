"""Slots from addresses, and the proof: the plan of the imported Fabric beside what the files say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from trackbed.fabric.importers.imported import HostProblem
from trackbed.fabric.model.ranges import text
from trackbed.fabric.plan.compute import build_layouts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trackbed.fabric.importers.netplan.interfaces import Interface
    from trackbed.fabric.importers.netplan.site import NetplanSite
    from trackbed.fabric.model.fabric import FabricSpec
    from trackbed.fabric.model.problems import Place
    from trackbed.fabric.plan.plan import Plan, PortPlan
    from trackbed.fabric.plan.schemes import RangeLayout


class Slots(NamedTuple):
    """Slots by host, in order of slot; `doubled` names hosts whose addresses are another's (host -> the other)."""

    by_host: Mapping[str, int]
    duplicates: Mapping[str, str]


def find_slots(site: NetplanSite, spec: FabricSpec) -> Slots:
    """The slot that most of a host's addresses stand for; a host whose addresses fit nowhere has none."""
    layouts = {version: [layout for _, layout in build_layouts(spec, version)] for version in site.ranges}
    owner: dict[int, str] = {}
    doubled = {}
    for host, own in site.ports.items():
        votes = Counter(
            slot for version in layouts for rail in own for slot in _slot(site, host, rail, version, layouts)
        )
        if not votes:
            continue
        slot = votes.most_common(1)[0][0]
        if owner.setdefault(slot, host) != host:
            doubled[host] = owner[slot]
    return Slots({host: slot for slot, host in sorted(owner.items())}, doubled)


def _slot(
    site: NetplanSite, host: str, rail: int, version: int, layouts: Mapping[int, list[RangeLayout | None]]
) -> Iterator[int]:
    """The slot of one address, if the layout gives it to a port: bisection, since layouts rise with the slot."""
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
    """Every address and gateway of the files that the plan gives otherwise."""
    for node in plan.nodes:
        for port in node.ports:
            for version in site.ranges:
                yield from _of_port(site, node.name, port, version)


def _of_port(site: NetplanSite, host: str, port: PortPlan, version: int) -> Iterator[HostProblem]:
    interface, written = site.ports[host][port.rail], site.find_address(host, port.rail, version)
    planned = port.v4 if version == 4 else port.v6  # noqa: PLR2004 - IP version
    where = f"{host} rail {port.rail} ({interface.name})"
    if written is None:
        message = f"{where}: the file has no IPv{version} address, the plan gives it {planned}"
        yield HostProblem("no-address", message, host, interface.addresses[0].place)
        return
    if str(planned) != str(written):
        message = f"{where}: the file has {written}, the plan {planned}; correct the file, or the port is renumbered"
        yield HostProblem("off-plan", message, host, written.place, "error")
        return
    yield from _more(interface, where, str(written), version)
    gateway = site.find_gateway(host, port.rail, version)
    wanted = planned.gateway if planned else 0
    if gateway is not None and gateway != wanted:
        other = text(version, wanted) if wanted else "none"
        message = f"{where}: the file's gateway is {text(version, gateway)}, the plan's {other}"
        yield HostProblem("off-plan", message, host, _place_of(interface, gateway), "error")


def _more(interface: Interface, where: str, written: str, version: int) -> Iterator[HostProblem]:
    for address in interface.addresses:
        if address.version == version and str(address) != written:
            message = f"{where}: {address} is one address more; the plan has {written} only"
            yield HostProblem("second-address", message, interface.host, address.place)


def _place_of(interface: Interface, gateway: int) -> Place | None:
    return next((hop.place for hop in interface.routes if hop.via == gateway), None)
