"""Kind MTU: a port has the planned MTU, in bytes."""

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
    """Interface `netdev` has this MTU."""

    netdev: str
    mtu_bytes: int

    def __str__(self) -> str:
        return f"MTU of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the change of an MTU that differs."""
    link = view.ports[want.netdev]
    if link.mtu == want.mtu_bytes:
        return None
    do = (set_link(link.index, mtu=want.mtu_bytes),)
    return fulfil(setting, str(want), str(link.mtu), str(want.mtu_bytes), do)


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Set the MTUs that differ."""
    return restore_links(
        machine, kept, "MTU", lambda links: [set_link(link.index, mtu=mtu) for link, mtu in links if link.mtu != mtu]
    )


KIND = Kind("mtu", (Want,), compare, keep=keep_links(attrgetter("mtu")), restore=restore, is_grouped=False)
