"""Kind name: the port that is identified by its hardware has the planned name.

A port is identified by PCI address, else by permanent MAC, else by MAC, else by the kernel's name or an alternative
name. An interface that already has the planned name is the port unless its hardware contradicts (a veth of the lab has
no hardware).

Ports that exchange their names get a temporary name first: `trackbed<index>`. Since 6.2, Linux renames interfaces that
are up; before, they are set down for the rename.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from socket import AF_INET, AF_INET6
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, build_change, build_manual_change
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.links import build_undo_reader, restore_links
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.moved_ports import MovedPort, read_moved_ports
from trackbed.host.setting import PROTOCOL, Setting
from trackbed.host.state import HostState
from trackbed.kernel.netlink.addresses import IFA_F_PERMANENT, build_restore_address
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_REPLACE, Message
from trackbed.kernel.netlink.links import Link, build_delete_altname, build_set_link, list_links
from trackbed.kernel.netlink.routes import RT_SCOPE_UNIVERSE, RTM_NEWROUTE, RTPROT_KERNEL, RTPROT_RA
from trackbed.kernel.release import LIVE_RENAME, PARENT_DEVICE, explain_old_kernel, parse_release

_PORT_LINK_KINDS = ("", "ipoib", "veth")
"""Kinds of link that can be a port (Ethernet NICs have no kind). VLANs, bonds and macvlans copy the MAC of a port."""
_REPRESENTOR = re.compile(r"pf\d")
"""In the port name of a representor: pf0vf1, c1pf0, pf0sf7 (__devlink_port_phys_port_name_get, net/devlink/port.c)."""


class Want(NamedTuple):
    """The port identified by `pci`, `mac` or `kernel_name` is called `netdev`."""

    netdev: str
    pci: str | None = None
    mac: str | None = None
    kernel_name: str | None = None

    def __str__(self) -> str:
        return f"name {self.netdev}"


def find_ports(state: HostState, settings: Iterable[Setting]) -> Mapping[str, Link]:
    """Return the interface of each planned netdev that exists.

    Ports without a setting of this kind (if only some steps are compared) are found by name.
    """
    wants = {setting.netdev: Want(setting.netdev) for setting in settings if setting.netdev}
    wants |= {setting.want.netdev: setting.want for setting in settings if isinstance(setting.want, Want)}
    ports = {netdev: find_port(state, want) for netdev, want in wants.items()}
    return {netdev: link for netdev, link in ports.items() if link}


def find_port(state: HostState, want: Want) -> Link | None:
    """Return the interface of a planned port; None if the machine lacks it."""
    candidates = [link for link in state.links if can_be_port(link)]
    right = next((link for link in candidates if link.name == want.netdev), None)
    if want.pci:
        matches = [link for link in candidates if link.parent_device == want.pci]
    elif want.mac:
        matches = [link for link in candidates if link.permanent_mac == want.mac]
        matches = matches or [link for link in candidates if link.mac == want.mac and not link.permanent_mac]
    else:
        known = want.kernel_name
        return right or next((link for link in candidates if known and known in (link.name, *link.altnames)), None)
    return _choose_link(matches, want) or _reject_contradicted_link(right, want)


def can_be_port(link: Link) -> bool:
    """Return whether an interface may be a port: its kind allows it, and it is no representor of a switch's port."""
    return link.kind in _PORT_LINK_KINDS and not _REPRESENTOR.search(link.port_name)


def _choose_link(matches: list[Link], want: Want) -> Link | None:
    """Return the interface with the planned name, else the oldest one: several may share a port's PCI address."""
    return next(
        (link for link in matches if link.name == want.netdev), min(matches, key=lambda link: link.index, default=None)
    )


def _reject_contradicted_link(link: Link | None, want: Want) -> Link | None:
    if link is None or (want.pci and link.parent_device and link.parent_device != want.pci):
        return None
    return None if want.mac and link.permanent_mac and link.permanent_mac != want.mac else link


def find_pod(view: View, want: Want) -> str:
    """Return the pod that has an absent port; empty if the port is here, or no pod has it.

    A port of another PCI address or MAC is another port, whatever its name.
    """
    moved = None if want.netdev in view.ports else view.read_once(_read_moved_ports).get(want.netdev)
    if moved is None or (want.mac and want.mac.lower() != moved.mac.lower()):
        return ""
    is_here = not want.pci or view.machine.locate(f"/sys/bus/pci/devices/{want.pci}").is_dir()
    return moved.pod if is_here else ""


def _read_moved_ports(view: View) -> Mapping[str, MovedPort]:
    return read_moved_ports(view.machine)


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the rename of a port with another name, or advice if there is no such port. A pod may have it."""
    link, subject = view.ports.get(want.netdev), f"name of {want.pci or want.mac or want.kernel_name or want.netdev}"
    if pod := find_pod(view, want):
        return Skipped(setting, subject, f"pod {pod} has it")
    if link is None:
        advice = _explain_hidden_addresses(want, view) or _explain_absence(want, view.state.find_link(want.netdev))
        return build_manual_change(setting, subject, "no such port", want.netdev, advice)
    if link.name == want.netdev:
        return None
    if holder := view.find_name_holder(want.netdev):
        advice = f"another interface is called {want.netdev} ({_get_hardware_id(holder)}); rename that one first"
        return build_manual_change(setting, subject, link.name, want.netdev, advice)
    pairs = [(port, name) for name, port in view.ports.items() if port.name != name]
    first = min(pairs, key=lambda pair: pair[0].index)[0] == link
    live = can_rename_live(view.machine)
    ahead = _build_temporary_renames(pairs, live=live) if first else []
    rename = _build_rename(link, want.netdev, live=live)
    lost = () if live or not link.is_up else _iter_lost_entries(link, view.state)
    return build_change(setting, subject, link.name, want.netdev, (*ahead, *rename, *lost))


def _iter_lost_entries(link: Link, state: HostState) -> Iterator[Message]:
    """Yield messages that restore what others have set on a port, and the kernel drops while the port is down.

    Trackbed's own entries are set by the next round, and those of the kernel and of router advertisements return by
    themselves (addrconf_ifdown of net/ipv6/addrconf.c, fib_disable_ip of net/ipv4/fib_frontend.c).
    """
    for address in state.addresses:
        is_kept = address.flags & IFA_F_PERMANENT and address.scope == RT_SCOPE_UNIVERSE
        if (address.index, address.family) == (link.index, AF_INET6) and is_kept and address.protocol != PROTOCOL:
            yield build_restore_address(address.body)
    for route in state.routes:
        if link.index in {route.oif, *route.hops} and route.protocol not in {RTPROT_KERNEL, RTPROT_RA, PROTOCOL}:
            replaces = NLM_F_REPLACE if route.family == AF_INET else 0  # of IPv6, it would replace another port's
            yield Message(RTM_NEWROUTE, NLM_F_CREATE | replaces, route.body)


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the names of ports; yield failures and missing ports as text."""
    with machine.open_socket() as sock:
        indexes = {str(link.index) for link in list_links(sock)}
    yield from (f"interface {name} is gone" for index, name in undo_data.items() if index not in indexes)
    yield from restore_links(
        "name", lambda pairs: build_renames(pairs, live=can_rename_live(machine)), machine, undo_data
    )


def build_renames(pairs: Iterable[tuple[Link, str]], *, live: bool) -> list[Message]:
    """Build the messages that rename interfaces, which may exchange names; `live` leaves the interfaces up."""
    listed = [(link, name) for link, name in pairs if link.name != name]
    return [
        *_build_temporary_renames(listed, live=live),
        *(message for link, name in listed for message in _build_rename(link, name, live=live)),
    ]


def can_rename_live(machine: Machine) -> bool:
    """Return whether the kernel renames interfaces that are up."""
    return parse_release(_read_release(machine)) >= LIVE_RENAME


def _read_release(machine: Machine) -> str:
    release = machine.read_sysctl("kernel/osrelease")
    return release if isinstance(release, str) else ""


def _build_temporary_renames(pairs: list[tuple[Link, str]], *, live: bool) -> list[Message]:
    targets = {name for _, name in pairs}
    moving = [link for link, _ in pairs if link.name in targets]
    return [message for link in moving for message in _build_rename(link, f"trackbed{link.index}", live=live)]


def _build_rename(link: Link, name: str, *, live: bool) -> tuple[Message, ...]:
    rename: tuple[Message, ...] = (build_set_link(link.index, name=name),)
    if name in link.altnames:  # udev gives a renamed port its former name so; the kernel refuses a name in use
        rename = (build_delete_altname(link.index, name), *rename)
    if live or not link.is_up:
        return rename
    return (build_set_link(link.index, up=False), *rename, build_set_link(link.index, up=True))


def _explain_hidden_addresses(want: Want, view: View) -> str:
    """Return that this kernel does not show PCI addresses; empty if it does, also by a distribution's backport."""
    if want.pci is None or any(link.parent_device for link in view.state.links):
        return ""
    reason = explain_old_kernel(_read_release(view.machine), PARENT_DEVICE, "finding an interface by its PCI address")
    return reason and f"{reason}; name the ports by mac or netdev in the Fabric, or install a newer kernel"


def _explain_absence(want: Want, holder: Link | None) -> str:
    known = f"PCI address {want.pci}" if want.pci else f"MAC {want.mac}" if want.mac else f"name {want.kernel_name}"
    if holder:
        card = _get_hardware_id(holder)
        return f"{want.netdev} is another card ({card}), none has {known}; was a card swapped or moved?"
    if not (want.pci or want.mac or want.kernel_name):
        return f"no interface is called {want.netdev}; is its driver loaded, or does a pod have it?"
    return f"no interface has {known}; is its driver loaded, or does a pod have it?"


def _get_hardware_id(link: Link) -> str:
    return link.parent_device or link.permanent_mac or link.mac


KIND = Kind(
    "name",
    (Want,),
    compare,
    read_undo_data=build_undo_reader(attrgetter("name")),
    restore=restore,
    needs_port=False,
    is_grouped=False,
    holds_names=True,
)
