"""DSCP, PFC and ETS of a port as planned, and the netlink messages that make the present settings so.

The driver ice (E810) has a fixed map: the first DSCP entry puts the port into DSCP mode, in which the class of a
priority is the priority, all bandwidth is class 0's, and a priority must be below the number of classes
(ice_dcbnl_setapp, drivers/net/ethernet/intel/ice/ice_dcb_nl.c). Therefore RDMA's class there is its priority, and ETS
gives that class bandwidth, once more after the first DSCP entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from shlex import quote
from typing import NamedTuple

from trackbed.kernel.netlink import dcb
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.dcb import App, Dcb, EightInts, Ets

FIXED_MAP_DRIVERS = frozenset({"ice"})
"""Drivers whose class of a priority is the priority."""
_BANDWIDTH_SHARES: EightInts = (50, 50, 0, 0, 0, 0, 0, 0)
"""Percent of bandwidth of class 0 (all other traffic) and class 1 (RDMA), as on the leaf."""
_NOTICE_SHARE, _RDMA_SHARE = 10, 50
"""Percent of bandwidth of congestion notices and RDMA in a fixed map, whose classes are all ETS."""
_STRICT_CLASS = 2
"""Class of congestion notices, which is served first."""

Difference = tuple[str, str, tuple[Message, ...]]
"""Present value, wanted value, and the messages that make the change."""


class DcbPort(NamedTuple):
    """A port's name, driver and present DCB settings."""

    name: str
    driver: str
    dcb: Dcb

    @property
    def has_fixed_map(self) -> bool:
        """Whether the class of a priority is the priority."""
        return self.driver in FIXED_MAP_DRIVERS

    @property
    def classes(self) -> int:
        """Number of traffic classes."""
        return self.dcb.ets.capacity if self.dcb.ets else dcb.IEEE_8021QAZ_MAX_TCS


class DcbEts(NamedTuple):
    """On port `netdev` no other priority shares the traffic class of `priority`; `notice_priority` is served first."""

    netdev: str
    priority: int
    notice_priority: int

    def __str__(self) -> str:
        return f"traffic classes of {self.netdev}"

    def compare(self, port: DcbPort) -> Difference | str:
        """Return the difference, or as text why traffic classes cannot be set."""
        ets = port.dcb.ets
        if ets is None or ets.capacity <= 1:
            return "this port has one traffic class"
        number = ets.classes[self.priority]
        others = [other for other, its in enumerate(ets.classes) if its == number and other != self.priority]
        is_starved = ets.algorithms[number] == dcb.IEEE_8021QAZ_TSA_ETS and ets.tx_bandwidth[number] == 0
        plan = self._separate_fixed(ets) if port.has_fixed_map else self._separate_classes(ets)
        messages = (dcb.build_set_ets(port.name, plan),) if others or is_starved else ()
        have = f"priority {self.priority} with {format_numbers(others)}" if others else "no bandwidth"
        return have, f"priority {self.priority} alone", messages

    def render_boot_line(self) -> str:
        """Render the lines of the boot script; the host must negotiate DCB before anything is set."""
        netdev = quote(self.netdev)
        return f"dcbx {netdev}\nets {netdev} {self.priority} {self.notice_priority}\n"

    def _separate_classes(self, ets: Ets) -> Ets:
        """Return ETS with RDMA's priority in class 1, the notices' in the strict class, and all others in class 0."""
        first = _STRICT_CLASS if ets.capacity > _STRICT_CLASS else 0
        classes = [0] * dcb.IEEE_8021QAZ_MAX_TCS
        classes[self.notice_priority], classes[self.priority] = first, 1
        algorithms = (dcb.IEEE_8021QAZ_TSA_ETS,) * 2 + (dcb.IEEE_8021QAZ_TSA_STRICT,) * 6
        return ets._replace(tx_bandwidth=_BANDWIDTH_SHARES, algorithms=algorithms, classes=_to_eight_ints(classes))

    def _separate_fixed(self, ets: Ets) -> Ets:
        """Return ETS with each priority in its class, and bandwidth for RDMA's and the notices' classes."""
        shares = [0] * dcb.IEEE_8021QAZ_MAX_TCS
        shares[choose_notice_priority(self.notice_priority, self.priority, ets.capacity)] = _NOTICE_SHARE
        shares[self.priority] = _RDMA_SHARE
        shares[0] += 100 - sum(shares)
        algorithms = _to_eight_ints((dcb.IEEE_8021QAZ_TSA_ETS,) * dcb.IEEE_8021QAZ_MAX_TCS)
        classes = [priority if priority < ets.capacity else 0 for priority in range(dcb.IEEE_8021QAZ_MAX_TCS)]
        return ets._replace(tx_bandwidth=_to_eight_ints(shares), algorithms=algorithms, classes=_to_eight_ints(classes))


class DcbPfc(NamedTuple):
    """Port `netdev` pauses these priorities (0 to 7, IEEE 802.1Qbb) and no others."""

    netdev: str
    priorities: tuple[int, ...]

    def __str__(self) -> str:
        return f"PFC of {self.netdev}"

    def compare(self, port: DcbPort) -> Difference | str:
        """Return the difference, or as text why PFC cannot be set."""
        pfc = port.dcb.pfc
        if pfc is None:
            return "this port's driver tells of no PFC"
        if pfc.capacity < len(self.priorities):
            return f"this port can pause {pfc.capacity} priorities"
        wanted = frozenset(self.priorities)
        message = dcb.build_set_pfc(port.name, pfc._replace(priorities=wanted))
        messages = () if pfc.priorities == wanted else (message,)
        return format_numbers(pfc.priorities), format_numbers(wanted), messages

    def render_boot_line(self) -> str:
        """Render the line of the boot script."""
        return f"pfc {quote(self.netdev)} all:off{''.join(f' {priority}:on' for priority in self.priorities)}\n"


class DcbDscp(NamedTuple):
    """Port `netdev` trusts the DSCP of packets; `priorities` maps DSCPs to priorities as pairs (DSCP, priority).

    `priority` is RDMA's. All other DSCPs of `priorities` are those of congestion notices.
    """

    netdev: str
    priorities: tuple[tuple[int, int], ...]
    priority: int

    def __str__(self) -> str:
        return f"priorities of DSCPs on {self.netdev}"

    def compare(self, port: DcbPort) -> Difference | str:
        """Return the difference; its messages are empty if there is none."""
        present = dcb.group_dscp_priorities(port.dcb.apps)
        planned = self._fit_priorities(port)
        pairs = [(dscp, priority, present.get(dscp, frozenset())) for dscp, priority in planned]
        extra = [dcb.build_dscp_app(dscp, old) for dscp, wanted, now in pairs for old in now if old != wanted]
        missing = [dcb.build_dscp_app(dscp, wanted) for dscp, wanted, now in pairs if wanted not in now]
        messages = build_app_messages(port.name, extra, missing)
        trust = port.dcb.trust
        trusts = trust is None or trust[:1] == (dcb.IEEE_8021QAZ_APP_SEL_DSCP,)
        if not trusts:
            others = [selector for selector in trust or () if selector != dcb.IEEE_8021QAZ_APP_SEL_DSCP]
            messages += (dcb.build_set_trust(port.name, (dcb.IEEE_8021QAZ_APP_SEL_DSCP, *others)),)
        have = " ".join(f"{dscp}:{format_numbers(now)}" for dscp, _, now in pairs)
        return have + ("" if trusts else ", not trusted"), _format_pairs(planned), messages

    def _fit_priorities(self, port: DcbPort) -> tuple[tuple[int, int], ...]:
        """Return the pairs with the priorities that the driver takes."""
        if not port.has_fixed_map:
            return self.priorities
        return tuple(
            (dscp, number if number == self.priority else choose_notice_priority(number, self.priority, port.classes))
            for dscp, number in self.priorities
        )

    def render_boot_line(self) -> str:
        """Render the line of the boot script."""
        pairs = sorted(self.priorities, key=lambda pair: pair[1] != self.priority)
        return f"dscp {quote(self.netdev)} {_format_pairs(pairs)}\n"


def choose_notice_priority(planned: int, rdma: int, classes: int) -> int:
    """Return the priority of notices in a fixed map of so many classes: the planned one, or the highest but RDMA's."""
    if planned < classes:
        return planned
    return next(number for number in range(classes - 1, -1, -1) if number != rdma)


def build_app_messages(name: str, extra: list[App], missing: list[App]) -> tuple[Message, ...]:
    """Build the messages that delete and add APP entries of a port."""
    removal = (dcb.build_delete_apps(name, extra),) if extra else ()
    return (*removal, *((dcb.build_add_apps(name, missing),) if missing else ()))


def format_numbers(numbers: Iterable[int]) -> str:
    """Return numbers as text, or `none`."""
    return ",".join(map(str, sorted(numbers))) or "none"


def _format_pairs(pairs: Iterable[tuple[int, int]]) -> str:
    return " ".join(f"{dscp}:{priority}" for dscp, priority in pairs)


def _to_eight_ints(numbers: Iterable[int]) -> EightInts:
    first, second, third, fourth, fifth, sixth, seventh, eighth = numbers
    return first, second, third, fourth, fifth, sixth, seventh, eighth
