"""A wanted setting of a host: steps yield settings, kinds compare them with a machine."""

from __future__ import annotations

from typing import NamedTuple

HEAD = "# Written by Trackbed from the Fabric; changes made here are lost at the next `trackbed apply`.\n"
"""First line of every file of Trackbed."""

PROTOCOL = 114
"""Protocol number that marks routes, rules and addresses of Trackbed (rtm_protocol, FRA_PROTOCOL, IFA_PROTO): "r".

No other program uses it in include/uapi/linux/rtnetlink.h (84 is OVN, 99 Open/R, 186 to 198 FRR) or in
/etc/iproute2/rt_protos.
"""


class Setting(NamedTuple):
    """A wanted value, its step, its rail (None: the whole host) and the reason.

    The type of `want` determines the kind of setting (`host.kinds`).
    """

    step: str
    want: object
    rail: int | None
    why: str

    @property
    def netdev(self) -> str:
        """The port of the setting; empty for a setting of the whole host."""
        return str(getattr(self.want, "netdev", ""))
