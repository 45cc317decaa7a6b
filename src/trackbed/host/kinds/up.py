"""Kind up: a port is administratively up. Whether it has a carrier is not a setting."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from typing import NamedTuple

from trackbed.host.change import Change, build_change
from trackbed.host.kinds.kind import Kind, keep_pods
from trackbed.host.kinds.links import build_undo_reader, restore_links
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_connection_managers
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.links import build_set_link


class Want(NamedTuple):
    """Interface `netdev` is administratively up."""

    netdev: str

    def __str__(self) -> str:
        return f"state of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | None:
    """Return the change of a port that is down."""
    link = view.ports[want.netdev]
    return (
        None if link.is_up else build_change(setting, str(want), "down", "up", (build_set_link(link.index, up=True),))
    )


KIND = Kind(
    "up",
    (Want,),
    compare,
    read_undo_data=build_undo_reader(attrgetter("is_up")),
    restore=partial(
        restore_links, "state of an interface", lambda links: [build_set_link(link.index, up=up) for link, up in links]
    ),
    undo_data_type=dict[str, bool],
    disrupts_pods=keep_pods,
    find_writers=lambda want, view: find_connection_managers(view, want.netdev),
    is_grouped=False,
)
