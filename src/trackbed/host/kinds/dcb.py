"""Kinds DSCP, PFC and ETS: what drivers with DCB are asked by netlink (`netlink.dcb`), each port as one look tells it.

A port whose driver has no DCB is skipped; one whose firmware negotiates with its neighbour (DCBX) is left to a person,
because what is set there is overwritten when the neighbour speaks.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from trackbed.host.change import Change, DcbSet, Skipped, refused, wanted
from trackbed.host.setting import DcbDscp, DcbEts, DcbPfc
from trackbed.kernel.netlink import dcb
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.dcb import App, Dcb, Ets
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting
    from trackbed.host.state import HostState
    from trackbed.kernel.netlink.codec import Message
    from trackbed.kernel.netlink.dcb import EightInts
    from trackbed.kernel.netlink.links import Link
    from trackbed.kernel.netlink.sockets import Socket

WANTS = DcbDscp | DcbPfc | DcbEts

_SHARES: EightInts = (50, 50, 0, 0, 0, 0, 0, 0)
"""Percent of the first class (all that is not named) and of RDMA's: what the leaf gives, too."""
_THREE, _TWO = 3, 2


class Before(msgspec.Struct, frozen=True):
    """What a port told, and the DSCPs of which an apply may change entries."""

    then: Dcb
    codepoints: tuple[int, ...]


def read(state: HostState, ports: Iterable[Link]) -> dict[str, Dcb]:
    """What ports tell, by the name each has now; those without DCB are not in it."""
    with state.machine.socket() as sock:
        found = {link.name: _told(sock, link.name) for link in ports}
    return {name: told for name, told in found.items() if told}


def _told(sock: Socket, name: str) -> Dcb | None:
    try:
        return dcb.get_dcb(sock, name)
    except RequestError as error:
        if error.errno in {errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL}:
            return None
        raise


def compare(setting: Setting, want: DcbDscp | DcbPfc | DcbEts, view: View) -> Change | Skipped | None:
    """What a port does otherwise, in one of the three kinds."""
    machine, name = view.state.machine, view.ports[want.netdev].name
    now = None if machine.shared else view.dcb.get(name)
    what = described(want)
    if now is None:
        return Skipped(setting, what, machine.shared or "this port's driver has no DCB")
    outcome = _difference(want, now, name)
    if isinstance(outcome, str):
        return Skipped(setting, what, outcome)
    have, wish, messages = outcome
    if not messages:
        return None
    if now.dcbx and not now.dcbx & dcb.DCB_CAP_DCBX_HOST:
        advice = f"the firmware of {want.netdev} negotiates DCB; run on this host: dcb dcbx set dev {name} host ieee"
        return refused(setting, what, have, wish, advice)
    return wanted(setting, what, have, wish, (DcbSet(messages),))


def described(want: DcbDscp | DcbPfc | DcbEts) -> str:
    """A want of these kinds in a few words."""
    match want:
        case DcbDscp(netdev):
            return f"priorities of DSCPs on {netdev}"
        case DcbPfc(netdev):
            return f"PFC of {netdev}"
        case DcbEts(netdev):
            return f"traffic classes of {netdev}"


_Difference = tuple[str, str, tuple["Message", ...]]


def _difference(want: DcbDscp | DcbPfc | DcbEts, now: Dcb, name: str) -> _Difference | str:
    """Have, want and the messages that lead there; in words why there is nothing to set."""
    match want:
        case DcbDscp():
            return _dscp(want, now, name)
        case DcbPfc():
            return _pfc(want, now, name)
        case DcbEts():
            return _ets(want, now, name)


def _dscp(want: DcbDscp, now: Dcb, name: str) -> _Difference:
    there = dcb.group_dscp_priorities(now.apps)
    extra = [
        dcb.build_dscp_app(point, old) for point, wish in want.priorities for old in there.get(point, ()) if old != wish
    ]
    lack = [dcb.build_dscp_app(point, wish) for point, wish in want.priorities if wish not in there.get(point, ())]
    messages = _apps(name, extra, lack)
    trusts = now.trust is None or now.trust[:1] == (dcb.IEEE_8021QAZ_APP_SEL_DSCP,)
    if not trusts:
        rest = [one for one in now.trust or () if one != dcb.IEEE_8021QAZ_APP_SEL_DSCP]
        messages += (dcb.set_trust(name, (dcb.IEEE_8021QAZ_APP_SEL_DSCP, *rest)),)
    had = [f"{point}:{_list(there.get(point, ()))}" for point, _ in want.priorities]
    wish = " ".join(f"{point}:{priority}" for point, priority in want.priorities)
    return " ".join(had) + ("" if trusts else ", not trusted"), wish, messages


def _apps(name: str, extra: list[App], lack: list[App]) -> tuple[Message, ...]:
    first = (dcb.delete_apps(name, extra),) if extra else ()
    return (*first, *((dcb.add_apps(name, lack),) if lack else ()))


def _pfc(want: DcbPfc, now: Dcb, name: str) -> _Difference | str:
    if now.pfc is None:
        return "this port's driver tells of no PFC"
    if now.pfc.capacity < len(want.priorities):
        return f"this port can pause {now.pfc.capacity} priorities"
    wish = frozenset(want.priorities)
    messages = () if now.pfc.priorities == wish else (dcb.set_pfc(name, replace(now.pfc, priorities=wish)),)
    return _list(now.pfc.priorities), _list(wish), messages


def _ets(want: DcbEts, now: Dcb, name: str) -> _Difference | str:
    ets = now.ets
    if ets is None or ets.capacity < _TWO:
        return "this port has one traffic class"
    own = ets.classes[want.priority]
    beside = [one for one, group in enumerate(ets.classes) if group == own and one != want.priority]
    have = f"priority {want.priority} with {_list(beside)}"
    messages = (dcb.set_ets(name, _parted(ets, want)),) if beside else ()
    return have, f"priority {want.priority} alone", messages


def _parted(ets: Ets, want: DcbEts) -> Ets:
    """Class 1 for RDMA's priority, class 2 (strictly first) for that of the notices, class 0 for all others."""
    first = 2 if ets.capacity >= _THREE else 0
    classes = [0] * dcb.IEEE_8021QAZ_MAX_TCS
    classes[want.first], classes[want.priority] = first, 1
    a, b, c, d, e, f, g, h = classes
    kinds = (dcb.IEEE_8021QAZ_TSA_ETS,) * 2 + (dcb.IEEE_8021QAZ_TSA_STRICT,) * 6
    return replace(ets, tx_bandwidth=_SHARES, algorithms=kinds, classes=(a, b, c, d, e, f, g, h))


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, sorted(numbers))) or "none"


def taken(view: View) -> dict[str, Before]:
    """What `restore` needs, by interface index."""
    points: dict[str, tuple[int, ...]] = {}
    for setting in view.settings:
        if isinstance(setting.want, WANTS):
            more = tuple(p for p, _ in setting.want.priorities) if isinstance(setting.want, DcbDscp) else ()
            points[setting.want.netdev] = points.get(setting.want.netdev, ()) + more
    ports = {name: view.ports[name] for name in points if name in view.ports}
    return {
        str(link.index): Before(view.dcb[link.name], points[name])
        for name, link in ports.items()
        if link.name in view.dcb
    }


def restore(machine: Machine, before: Mapping[str, Before]) -> tuple[str, ...]:
    """Set ports as they were; returns what could not be."""
    if not before:
        return ()
    wrong = []
    with machine.socket() as sock:
        names = {str(link.index): link.name for link in list_links(sock)}
        for index, old in before.items():
            try:
                now = dcb.get_dcb(sock, names[index]) if index in names else None
                for message in _back(names[index], old, now) if now else ():
                    dcb.apply_setting(sock, message)
            except NetlinkError as error:
                wrong.append(f"DCB of {names[index]}: {error}")
    return tuple(wrong)


def _back(name: str, old: Before, now: Dcb) -> Iterator[Message]:
    then = old.then
    had, have = (_entries(one.apps, old.codepoints) for one in (then, now))
    yield from _apps(name, sorted(have - had), sorted(had - have))
    if then.trust is not None and then.trust != now.trust:
        yield dcb.set_trust(name, then.trust)
    if then.pfc and now.pfc and then.pfc.priorities != now.pfc.priorities:
        yield dcb.set_pfc(name, then.pfc)
    if then.ets and now.ets and then.ets != now.ets:
        yield dcb.set_ets(name, then.ets)


def _entries(apps: Iterable[App], codepoints: tuple[int, ...]) -> frozenset[App]:
    return frozenset(
        one for one in apps if one.selector == dcb.IEEE_8021QAZ_APP_SEL_DSCP and one.protocol in codepoints
    )
