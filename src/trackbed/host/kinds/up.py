"""Kind up: a port is administratively up. Whether it has a carrier is not a setting."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from trackbed.host.change import Change, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.links import keep_links, restore_links
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.links import set_link


class Want(NamedTuple):
    """Interface `netdev` is administratively up."""

    netdev: str

    def __str__(self) -> str:
        return f"state of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the change of a port that is down."""
    link = view.ports[want.netdev]
    return None if link.up else fulfil(setting, str(want), "down", "up", (set_link(link.index, up=True),))


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Set the state of all ports."""
    return restore_links(
        machine, kept, "state of an interface", lambda links: [set_link(link.index, up=up) for link, up in links]
    )


KIND = Kind("up", (Want,), compare, keep=keep_links(attrgetter("up")), restore=restore, is_grouped=False)
