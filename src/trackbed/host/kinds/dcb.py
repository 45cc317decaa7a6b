"""Kinds DSCP, PFC and ETS: what drivers with DCB are asked by netlink (`netlink.dcb`), read once for each port.

A port whose driver has no DCB is skipped; one whose firmware negotiates with its neighbour (DCBX) is left to a person,
because what is set there is overwritten by the negotiation.
"""

from __future__ import annotations

import errno
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import Change, DcbSet, Skipped, advise, fulfil
from trackbed.host.kinds.kind import Kept, Kind, has_rename
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink import dcb
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.dcb import App, Dcb, EightInts, Ets
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import RequestError, Socket

_SHARES: EightInts = (50, 50, 0, 0, 0, 0, 0, 0)
"""Percent of the first class (all that is not named) and of RDMA's: the same as on the leaf."""
_THREE, _TWO = 3, 2

_Difference = tuple[str, str, tuple[Message, ...]]
"""Present value, wanted value, and the messages that make the change."""


class DcbDscp(NamedTuple):
    """Port `netdev` trusts the DSCP, and each DSCP of `priorities` (DSCP, priority) has its priority."""

    netdev: str
    priorities: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        return f"priorities of DSCPs on {self.netdev}"

    def compare(self, bridge: Dcb, name: str) -> _Difference | str:
        """Return the difference."""
        present = dcb.group_dscp_priorities(bridge.apps)
        pairs = [(dscp, priority, present.get(dscp, frozenset())) for dscp, priority in self.priorities]
        extra = [dcb.build_dscp_app(dscp, old) for dscp, wanted, now in pairs for old in now if old != wanted]
        missing = [dcb.build_dscp_app(dscp, wanted) for dscp, wanted, now in pairs if wanted not in now]
        messages = _change_apps(name, extra, missing)
        trusts = bridge.trust is None or bridge.trust[:1] == (dcb.IEEE_8021QAZ_APP_SEL_DSCP,)
        if not trusts:
            others = [selector for selector in bridge.trust or () if selector != dcb.IEEE_8021QAZ_APP_SEL_DSCP]
            messages += (dcb.set_trust(name, (dcb.IEEE_8021QAZ_APP_SEL_DSCP, *others)),)
        have = " ".join(f"{dscp}:{_list(now)}" for dscp, _, now in pairs) + ("" if trusts else ", not trusted")
        return have, self._list_pairs(), messages

    def render_boot_line(self) -> str:
        """Render the command that makes the setting."""
        return f"dscp {self.netdev} {self._list_pairs()}\n"

    def _list_pairs(self) -> str:
        return " ".join(f"{dscp}:{priority}" for dscp, priority in self.priorities)


class DcbPfc(NamedTuple):
    """Port `netdev` pauses these priorities (0 to 7, IEEE 802.1Qbb) rather than drop, and no others."""

    netdev: str
    priorities: tuple[int, ...]

    def __str__(self) -> str:
        return f"PFC of {self.netdev}"

    def compare(self, bridge: Dcb, name: str) -> _Difference | str:
        """Return the difference, or why PFC cannot be set."""
        pfc = bridge.pfc
        if pfc is None:
            return "this port's driver tells of no PFC"
        if pfc.capacity < len(self.priorities):
            return f"this port can pause {pfc.capacity} priorities"
        wanted = frozenset(self.priorities)
        messages = () if pfc.priorities == wanted else (dcb.set_pfc(name, pfc._replace(priorities=wanted)),)
        return _list(pfc.priorities), _list(wanted), messages

    def render_boot_line(self) -> str:
        """Render the command that makes the setting."""
        return f"pfc {self.netdev} all:off{''.join(f' {priority}:on' for priority in self.priorities)}\n"


class DcbEts(NamedTuple):
    """On port `netdev` the priority has a traffic class that no other priority is in; `first` is served before it."""

    netdev: str
    priority: int
    first: int

    def __str__(self) -> str:
        return f"traffic classes of {self.netdev}"

    def compare(self, bridge: Dcb, name: str) -> _Difference | str:
        """Return the difference, or why classes cannot be set."""
        ets = bridge.ets
        if ets is None or ets.capacity < _TWO:
            return "this port has one traffic class"
        number = ets.classes[self.priority]
        beside = [other for other, its in enumerate(ets.classes) if its == number and other != self.priority]
        messages = (dcb.set_ets(name, self._part(ets)),) if beside else ()
        return f"priority {self.priority} with {_list(beside)}", f"priority {self.priority} alone", messages

    def render_boot_line(self) -> str:
        """Render the command that makes the setting."""
        return f"ets {self.netdev} {self.priority} {self.first}\n"

    def _part(self, ets: Ets) -> Ets:
        """Return class 1 for RDMA's priority, class 2 (strictly first) for that of the notices, class 0 for others."""
        first = 2 if ets.capacity >= _THREE else 0
        classes = [0] * dcb.IEEE_8021QAZ_MAX_TCS
        classes[self.first], classes[self.priority] = first, 1
        a, b, c, d, e, f, g, h = classes
        algorithms = (dcb.IEEE_8021QAZ_TSA_ETS,) * 2 + (dcb.IEEE_8021QAZ_TSA_STRICT,) * 6
        return ets._replace(tx_bandwidth=_SHARES, algorithms=algorithms, classes=(a, b, c, d, e, f, g, h))


Want = DcbDscp | DcbPfc | DcbEts


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a DCB setting that differs."""
    name, subject = view.ports[want.netdev].name, str(want)
    bridge = view.read_once(_read_bridges).get(want.netdev)
    if bridge is None:
        return Skipped(setting, subject, view.machine.shared_reason or "this port's driver has no DCB")
    outcome = want.compare(bridge, name)
    if isinstance(outcome, str):
        return Skipped(setting, subject, outcome)
    have, wanted, messages = outcome
    if not messages:
        return None
    if bridge.dcbx and not bridge.dcbx & dcb.DCB_CAP_DCBX_HOST:
        advice = f"the firmware of {want.netdev} negotiates DCB; run on this host: dcb dcbx set dev {name} host ieee"
        return advise(setting, subject, have, wanted, advice)
    return fulfil(setting, subject, have, wanted, (DcbSet(messages),))


def keep(view: View) -> Kept:
    """Return the driver's reply by interface index, with the DSCPs whose entries apply may change."""
    pairs = [(want.netdev, dscp) for want in view.list_wants(DcbDscp) for dscp, _ in want.priorities]
    bridges = view.read_once(_read_bridges)
    dscps = {netdev: [dscp for name, dscp in pairs if name == netdev] for netdev in bridges}
    return {
        str(view.ports[netdev].index): {"answer": b64encode(bridge.body).decode(), "dscps": dscps[netdev]}
        for netdev, bridge in bridges.items()
    }


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Restore the DCB settings of ports."""
    with machine.open_socket() as sock:
        names = {str(link.index): link.name for link in list_links(sock)}
        for index, before in kept.items():
            try:
                bridge = dcb.get_dcb(sock, names[index]) if index in names else None
                old = dcb.parse_dcb(b64decode(before["answer"]))
                for message in _restore_port(names[index], old, bridge, before["dscps"]) if bridge else ():
                    dcb.apply_setting(sock, message)
            except NetlinkError as error:
                yield f"DCB of {names[index]}: {error}"


def _restore_port(name: str, old: Dcb, bridge: Dcb, dscps: list[int]) -> Iterator[Message]:
    before, now = ({app for app in state.apps if _is_of(app, dscps)} for state in (old, bridge))
    yield from _change_apps(name, sorted(now - before), sorted(before - now))
    if old.trust is not None and old.trust != bridge.trust:
        yield dcb.set_trust(name, old.trust)
    if old.pfc and bridge.pfc and old.pfc.priorities != bridge.pfc.priorities:
        yield dcb.set_pfc(name, old.pfc)
    if old.ets and bridge.ets and old.ets != bridge.ets:
        yield dcb.set_ets(name, old.ets)


def _is_of(app: App, dscps: list[int]) -> bool:
    return app.selector == dcb.IEEE_8021QAZ_APP_SEL_DSCP and app.protocol in dscps


def _change_apps(name: str, extra: list[App], missing: list[App]) -> tuple[Message, ...]:
    removal = (dcb.delete_apps(name, extra),) if extra else ()
    return (*removal, *((dcb.add_apps(name, missing),) if missing else ()))


def _read_bridges(view: View) -> dict[str, Dcb]:
    """Read DCB of the ports with such settings; ports without DCB are left out."""
    netdevs = dict.fromkeys(setting.netdev for setting in view.settings if isinstance(setting.want, Want))
    ports = {
        netdev: view.ports[netdev].name for netdev in netdevs if netdev in view.ports and not view.machine.shared_reason
    }
    with view.machine.open_socket() as sock:
        bridges = {netdev: _read_bridge(sock, name) for netdev, name in ports.items()}
    return {netdev: bridge for netdev, bridge in bridges.items() if bridge}


def _read_bridge(sock: Socket, name: str) -> Dcb | None:
    try:
        return dcb.get_dcb(sock, name)
    except RequestError as error:
        if error.errno in {errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL}:
            return None
        raise


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers))) or "none"


def render_boot_line(want: Want, _: NodePlan) -> str:
    """Render the line of the boot script."""
    return want.render_boot_line()


KIND: Kind[Want] = Kind(
    "dcb",
    (DcbDscp, DcbPfc, DcbEts),
    compare,
    keep=keep,
    restore=restore,
    render_boot_line=render_boot_line,
    must_wait=has_rename,
)
