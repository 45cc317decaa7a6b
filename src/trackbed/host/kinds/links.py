"""Kinds MTU and up: how an interface is set, apart from its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.host.change import Change, wanted
from trackbed.kernel.netlink.links import set_link

if TYPE_CHECKING:
    from trackbed.host.kinds.view import View
    from trackbed.host.setting import Mtu, Setting, Up


def mtu(setting: Setting, want: Mtu, view: View) -> Change | None:
    """The MTU, in bytes."""
    link = view.ports[want.netdev]
    if link.mtu == want.mtu_bytes:
        return None
    what = f"MTU of {want.netdev}"
    return wanted(setting, what, str(link.mtu), str(want.mtu_bytes), (set_link(link.index, mtu=want.mtu_bytes),))


def up(setting: Setting, want: Up, view: View) -> Change | None:
    """Administratively up; whether there is a carrier is not ours to set."""
    link = view.ports[want.netdev]
    if link.up:
        return None
    return wanted(setting, f"state of {want.netdev}", "down", "up", (set_link(link.index, up=True),))
