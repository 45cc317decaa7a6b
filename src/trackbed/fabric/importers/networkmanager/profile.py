"""Profiles: what a keyfile or an ifcfg file configures, and which of them make a port."""

from collections.abc import Iterable
from typing import NamedTuple

from trackbed.fabric.importers.interface import Interface, describe_addresses
from trackbed.fabric.importers.result import NOTE
from trackbed.fabric.importers.values import ValueParser
from trackbed.fabric.model.problems import Place

LINK_TYPES = ("ethernet", "infiniband")
"""Kinds of profiles whose interface can be a rail."""


class Profile(NamedTuple):
    """The configuration of one interface."""

    interface: Interface
    kind: str
    """ethernet, bond, vlan ..."""
    owner: str
    """The bond or bridge that the interface is part of; empty without one."""
    starts_at_boot: bool
    priority: int
    """Of several profiles for an interface, NetworkManager connects the one with the highest."""
    place: Place


def select_interfaces(profiles: Iterable[Profile], values: ValueParser) -> list[Interface]:
    """Return the Ethernet interfaces that are no part of a bond or bridge; report the others."""
    chosen: dict[str, Profile] = {}
    for profile in sorted(profiles, key=lambda profile: (not profile.starts_at_boot, -profile.priority)):
        interface = profile.interface
        label = interface.name or interface.mac or str(profile.place)
        first = chosen.setdefault(label, profile)
        if first is not profile and interface.addresses:
            message = f"{label} has a second profile at {first.place}, which connects instead of this one"
            values.add_problem("second-profile", message, profile.place)
    return [profile.interface for profile in chosen.values() if _is_port(profile, values)]


def _is_port(profile: Profile, values: ValueParser) -> bool:
    """Return whether a profile makes a port; report why it does not."""
    interface = profile.interface
    name = interface.name or interface.mac or "the interface"
    addresses = describe_addresses(interface.addresses)
    if profile.kind not in LINK_TYPES:
        message = f"{profile.kind} {name} is no rail: rails are Ethernet ports{addresses}"
        values.add_problem("set-aside", message, profile.place, NOTE)
    elif profile.owner:
        message = f"{name} is no rail: it belongs to {profile.owner}{addresses}"
        values.add_problem("set-aside", message, profile.place, NOTE)
    elif not profile.starts_at_boot and interface.addresses:
        message = f"{name} is left out: it is not connected at boot{addresses}"
        values.add_problem("not-at-boot", message, profile.place)
    elif not (interface.name or interface.mac) and interface.addresses:
        message = f"the profile names no port; give it an interface name or a MAC address{addresses}"
        values.add_problem("vague-match", message, profile.place)
    else:
        return True
    return False
