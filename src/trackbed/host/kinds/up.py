"""Kind up: a port is administratively up. Whether it has a carrier is not a setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trackbed.host.change import Change, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.links import restore_links
from trackbed.kernel.netlink.links import set_link

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting


@dataclass(frozen=True, slots=True)
class Want:
    """Interface `netdev` is administratively up."""

    netdev: str


def describe(want: Want) -> str:
    """Name the setting."""
    return f"state of {want.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the change of a port that is down."""
    link = view.ports[want.netdev]
    return None if link.up else fulfil(setting, describe(want), "down", "up", (set_link(link.index, up=True),))


def keep(view: View) -> Kept:
    """Return whether each port is up, by interface index."""
    return {str(link.index): link.up for link in view.ports.values()}


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Set the state of all ports."""
    return restore_links(
        machine, kept, "state of an interface", lambda links: [set_link(link.index, up=up) for link, up in links]
    )


KIND = Kind("up", (Want,), describe, compare, keep=keep, restore=restore, is_grouped=False)
