"""A wanted setting of a host. Steps yield settings; they never touch a machine."""

from __future__ import annotations

from typing import NamedTuple

HEAD = "# Written by Trackbed from the Fabric; changes made here are lost at the next `trackbed apply`.\n"
"""First line of every file of ours."""

PROTOCOL = 114
"""Who made a route, rule or address (rtm_protocol, FRA_PROTOCOL, IFA_PROTO): 114 ("r") is Trackbed. Not taken in
include/uapi/linux/rtnetlink.h (84 is OVN, 99 Open/R, 186 to 198 FRR) nor in /etc/iproute2/rt_protos."""


class Setting(NamedTuple):
    """A wanted value, its step, its rail (None: the whole host) and the reason.

    The type of `want` selects the kind of `host.kinds`.
    """

    step: str
    want: object
    rail: int | None
    why: str

    @property
    def netdev(self) -> str:
        """The port of the setting; empty if it is about the whole host."""
        return str(getattr(self.want, "netdev", ""))
