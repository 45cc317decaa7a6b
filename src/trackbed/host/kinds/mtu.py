"""Kind MTU: a port has the planned MTU, in bytes.

A larger MTU disrupts no pod. A smaller one does: packets and RDMA path MTUs of running pods no longer fit.
"""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import NamedTuple

from trackbed.host.change import Change, build_change
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.links import build_undo_reader, restore_links
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_connection_managers
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.links import build_set_link


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
    do = (build_set_link(link.index, mtu=want.mtu_bytes),)
    return build_change(setting, str(want), str(link.mtu), str(want.mtu_bytes), do)


KIND = Kind(
    "mtu",
    (Want,),
    compare,
    read_undo_data=build_undo_reader(attrgetter("mtu")),
    restore=partial(
        restore_links,
        "MTU",
        lambda links: [build_set_link(link.index, mtu=mtu) for link, mtu in links if link.mtu != mtu],
    ),
    undo_data_type=dict[str, int],
    disrupts_pods=lambda change: int(change.want) < int(change.have),
    find_writers=lambda want, view: find_connection_managers(view, want.netdev),
    is_grouped=False,
)
