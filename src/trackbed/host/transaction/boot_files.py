"""The network's files that a machine needs for its next boot: those of the plan in the format of its network manager.

What would leave the machine unreachable, or its ports without their plan, is refused before anything is changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple, cast

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.formats import IFUPDOWN_FILE, Format
from trackbed.host.kinds import name
from trackbed.host.machine import Machine
from trackbed.host.network_manager import ManagerError, find_format
from trackbed.host.state import HostState, read_host_state
from trackbed.host.steps import names
from trackbed.host.transaction import netplan_entries
from trackbed.host.transaction.earlier_units import iter_earlier_units
from trackbed.host.transaction.files import list_foreign_mentions
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.routes import RT_TABLE_MAIN, RTN_UNICAST, RTPROT_RA

_INTERFACES = "/etc/network/interfaces"


class BootFiles(NamedTuple):
    """Trackbed's files by path (None: no file is written or deleted), and warnings about files of others."""

    files: dict[str, str] | None
    warnings: tuple[str, ...] = ()


def select_files(
    machine: Machine, node: NodePlan, persist: str, render: Callable[[Format], Mapping[str, str]]
) -> BootFiles:
    """Return the files of a node; `render` returns those of one format.

    `persist` is a format, `auto` for that of the machine's network manager, or `none`. Raises ManagerError if there
    are no files with which the ports will be as planned, or NetlinkError or OSError if the machine cannot be read.
    """
    if persist == "none":
        return BootFiles(None)
    state = read_host_state(machine)
    ports = name.find_ports(state, tuple(names.iter_settings(node)))
    chosen = find_format(machine, ports.values(), state.links) if persist == "auto" else cast("Format", persist)
    _check_masters(state, ports)
    _check_default_route(state, ports)
    if chosen == "ifupdown":
        _check_sources(machine)
    planned = frozenset(port.netdev for port in node.ports)
    overrides = netplan_entries.render_overrides(machine, ports, planned) if chosen == "netplan" else {}
    files = {**render(chosen), **overrides}
    warnings = tuple(_iter_warnings(machine, node, ports, overrides))
    mentioned = {warning.partition(":")[0] for warning in warnings}
    handled = netplan_entries.list_generated_files(machine) if chosen == "netplan" else frozenset()
    return BootFiles(files, (*warnings, *_iter_unit_warnings(machine, ports, files, mentioned | handled)))


def _check_masters(state: HostState, ports: Mapping[str, Link]) -> None:
    """Raise ManagerError if a planned port is a part of a bond, bridge or switch, which the files would take it from.

    A VRF is none of these: its ports keep their addresses.
    """
    masters = {link.index: link for link in state.links if link.kind != "vrf"}
    for netdev, port in ports.items():
        if master := masters.get(port.master):
            raise ManagerError(
                f"{port.name}, which is {netdev} of the plan, is a part of {master.name} ({master.kind}), and at the"
                f" next boot it would be missing there. Take it out of {master.name} first, or out of the Fabric"
            )


def _check_default_route(state: HostState, ports: Mapping[str, Link]) -> None:
    """Raise ManagerError if all default routes of the machine leave by planned ports: no file will keep them.

    Routes of router advertisements do not count, because the plan refuses these on its ports.
    """
    unicast = [route for route in state.routes if route.table == RT_TABLE_MAIN and route.type == RTN_UNICAST]
    defaults = [route for route in unicast if not route.prefix and route.protocol != RTPROT_RA]
    netdevs = _find_carried_links(state.links, ports)
    if defaults and all(route.oif in netdevs for route in defaults):
        index = defaults[0].oif
        by, netdev = state.find_name(index), netdevs[index]
        which = f"which is {netdev} of the plan" if ports[netdev].index == index else f"on {netdev}"
        raise ManagerError(
            f"this machine's default route leaves by {by}, {which};"
            " at the next boot it would be gone and the machine unreachable. Route it by another port first, or take"
            " this one out of the Fabric"
        )


def _find_carried_links(links: Sequence[Link], ports: Mapping[str, Link]) -> dict[int, str]:
    """Return the indexes of ports, and of what lies on ports alone (a VLAN, a bridge of VLANs), with a port of each."""
    carried = {link.index: netdev for netdev, link in ports.items()}
    lower: dict[int, list[int]] = defaultdict(list)
    for link in links:
        if link.parent and link.link_netnsid is None and link.kind != "veth":  # the parent of a veth is its peer
            lower[link.index].append(link.parent)
        if link.master:
            lower[link.master].append(link.index)
    while higher := {
        index: carried[parts[0]]
        for index, parts in lower.items()
        if index not in carried and all(part in carried for part in parts)
    }:
        carried |= higher
    return carried


def _check_sources(machine: Machine) -> None:
    """Raise ManagerError if ifupdown does not read Trackbed's file (interfaces(5), "INCLUDING OTHER FILES")."""
    for line in machine.read_lines(_INTERFACES):
        keyword, _, pattern = line.strip().partition(" ")
        path = pattern.strip() if pattern.strip().startswith("/") else f"/etc/network/{pattern.strip()}"
        if keyword == "source-directory" and fnmatchcase(IFUPDOWN_FILE.rpartition("/")[0], path.rstrip("/")):
            return
        if keyword == "source" and fnmatchcase(IFUPDOWN_FILE, path):
            return
    raise ManagerError(
        f"ifupdown configures the network of this machine, and {_INTERFACES} does not read {IFUPDOWN_FILE};"
        f" add the line `source {IFUPDOWN_FILE}` to it, then apply again"
    )


def _iter_warnings(
    machine: Machine, node: NodePlan, ports: Mapping[str, Link], overrides: Mapping[str, str]
) -> Iterator[str]:
    """Yield warnings about files of others that name or configure a port, by its plan or by what it is now.

    Of netplan's files, only those lines are in the way that are about no entry that is overridden.
    """
    known = {text for port in node.ports for text in (port.netdev, port.pci, port.mac, port.kernel_name) if text}
    known |= {text for link in ports.values() for text in (link.name, link.mac, link.permanent_mac) if text}
    for place in list_foreign_mentions(machine, frozenset(text.lower() for text in known)):
        if overrides and place.startswith("/etc/netplan/"):
            yield f"{place}: this entry is for a rail; {netplan_entries.FILE} overrides it until --undo"
        else:
            yield f"{place}: this configures or names a rail, too; take the rail out of that file"


def _iter_unit_warnings(
    machine: Machine, ports: Mapping[str, Link], files: Iterable[str], handled: Collection[str]
) -> Iterator[str]:
    """Yield warnings about units of others that match ports first, without those that are `handled` otherwise."""
    for path, matched in iter_earlier_units(machine, ports, files):
        if path not in handled:
            yield (
                f"{path}: its [Match] fits {', '.join(matched)} before Trackbed's file does, which has no effect then;"
                " let it match its own ports only"
            )
