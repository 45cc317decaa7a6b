"""Kind name: the port that is identified by its hardware has the planned name.

A port is looked for by PCI address, else by permanent MAC, else by MAC, else by the kernel's name or one of its further
names. An interface that already has the right name is the port unless its hardware says otherwise (a veth of the lab
has none).

Two ports that must exchange their names go by a third one: `trackbed<index>`. Linux renames an interface that is up
since 6.2; before, it must be down for the moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from trackbed.host.change import Change, advise, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.links import keep_links, restore_links
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.host.state import HostState
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import Link, list_links, set_link

_HARDWARE = ("", "ipoib", "veth")
"""Kinds that can be a port (Ethernet NICs have none); VLANs, bonds and macvlans borrow the MAC of the port below."""
_LIVE_RENAME = (6, 2)


class Want(NamedTuple):
    """The port identified by PCI address, MAC or kernel name is called `netdev`."""

    netdev: str
    pci: str | None = None
    mac: str | None = None
    kernel_name: str | None = None

    def __str__(self) -> str:
        return f"name {self.netdev}"


def find_ports(state: HostState, settings: Iterable[Setting]) -> Mapping[str, Link]:
    """Return the interface of each planned netdev that is there.

    Where settings name no port (only some steps were asked for), interfaces are found by name.
    """
    wants = {setting.netdev: Want(setting.netdev) for setting in settings if setting.netdev}
    wants |= {setting.want.netdev: setting.want for setting in settings if isinstance(setting.want, Want)}
    ports = {netdev: find_port(state, want) for netdev, want in wants.items()}
    return {netdev: link for netdev, link in ports.items() if link}


def find_port(state: HostState, name: Want) -> Link | None:
    """Return the interface of this port, or None."""
    candidates = [link for link in state.links if link.kind in _HARDWARE]
    right = next((link for link in candidates if link.name == name.netdev), None)
    if name.pci:
        matches = [link for link in candidates if link.parent_device == name.pci]
        return _choose(matches, name) or _keep_unless_contradicted(right, name)
    if name.mac:
        matches = [link for link in candidates if link.permanent_mac == name.mac]
        matches = matches or [link for link in candidates if link.mac == name.mac and not link.permanent_mac]
        return _choose(matches, name) or _keep_unless_contradicted(right, name)
    known = name.kernel_name
    return right or next((link for link in candidates if known and known in (link.name, *link.altnames)), None)


def _choose(matches: list[Link], name: Want) -> Link | None:
    """Return the interface with the planned name, else the oldest: with representors, several share a PCI address."""
    return next(
        (link for link in matches if link.name == name.netdev), min(matches, key=lambda link: link.index, default=None)
    )


def _keep_unless_contradicted(link: Link | None, name: Want) -> Link | None:
    if link is None or (name.pci and link.parent_device and link.parent_device != name.pci):
        return None
    return None if name.mac and link.permanent_mac and link.permanent_mac != name.mac else link


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the rename that a port needs, or the advice where there is no such port."""
    link, subject = view.ports.get(want.netdev), f"name of {want.pci or want.mac or want.kernel_name or want.netdev}"
    if link is None:
        return advise(
            setting, subject, "no such port", want.netdev, _explain_absence(want, view.state.find_link(want.netdev))
        )
    if link.name == want.netdev:
        return None
    if holder := view.find_stranger(want.netdev):
        advice = f"another interface is called {want.netdev} ({_get_hardware(holder)}); rename that one first"
        return advise(setting, subject, link.name, want.netdev, advice)
    pairs = [(port, name) for name, port in view.ports.items() if port.name != name]
    first = min(pairs, key=lambda pair: pair[0].index)[0] == link
    live = renames_live(view.machine)
    ahead = _move_aside(pairs, live=live) if first else []
    return fulfil(setting, subject, link.name, want.netdev, (*ahead, *_build_rename(link, want.netdev, live=live)))


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Restore the names of ports; yield the ports that are gone."""
    with machine.open_socket() as sock:
        indexes = {str(link.index) for link in list_links(sock)}
    yield from (f"interface {name} is gone" for index, name in kept.items() if index not in indexes)
    yield from restore_links(machine, kept, "name", lambda pairs: rename(pairs, live=renames_live(machine)))


def rename(pairs: Iterable[tuple[Link, str]], *, live: bool) -> list[Message]:
    """Build the messages that give each interface its name, exchanges included."""
    listed = [(link, name) for link, name in pairs if link.name != name]
    return [
        *_move_aside(listed, live=live),
        *(message for link, name in listed for message in _build_rename(link, name, live=live)),
    ]


def renames_live(machine: Machine) -> bool:
    """Return whether the kernel renames interfaces that are up."""
    release = str(machine.read_sysctl("kernel/osrelease")).split(".")
    numbers = tuple(int(part) for part in release[:2] if part.isdigit())
    return numbers >= _LIVE_RENAME


def _move_aside(pairs: list[tuple[Link, str]], *, live: bool) -> list[Message]:
    targets = {name for _, name in pairs}
    moving = [link for link, _ in pairs if link.name in targets]
    return [message for link in moving for message in _build_rename(link, f"trackbed{link.index}", live=live)]


def _build_rename(link: Link, name: str, *, live: bool) -> tuple[Message, ...]:
    rename = set_link(link.index, name=name)
    if live or not link.up:
        return (rename,)
    return (set_link(link.index, up=False), rename, set_link(link.index, up=True))


def _explain_absence(want: Want, holder: Link | None) -> str:
    known = f"PCI address {want.pci}" if want.pci else f"MAC {want.mac}" if want.mac else f"name {want.kernel_name}"
    if holder:
        return (
            f"{want.netdev} is another card ({_get_hardware(holder)}), none has {known}; was a card swapped or moved?"
        )
    if not (want.pci or want.mac or want.kernel_name):
        return f"no interface is called {want.netdev}; is its driver loaded, or does a pod have it?"
    return f"no interface has {known}; is its driver loaded, or does a pod have it?"


def _get_hardware(link: Link) -> str:
    return link.parent_device or link.permanent_mac or link.mac


KIND = Kind(
    "name",
    (Want,),
    compare,
    keep=keep_links(attrgetter("name")),
    restore=restore,
    needs_port=False,
    is_grouped=False,
    keeps_names=True,
)
