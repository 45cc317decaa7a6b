"""Whether a switch and its hosts agree: what the plan sets hosts to, against what the switch's configuration does.

One disagreement is enough to lose packets under load, and each looks like something else on the host. Order is that of
cause and effect: no such port, address or VLAN, MTU, class, PFC, ECN, then congestion notifications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trackbed.switches.seen import SeenPort, Treatment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from trackbed.fabric.plan.plan import QosPlan
    from trackbed.switches.leaf import Leaf, LeafPort

_SHOWN = 3
"""Ports that are named before the rest is counted."""


class Disagreement(msgspec.Struct, frozen=True):
    """One thing in which switch and hosts differ."""

    code: str
    where: str
    """Leaf and ports."""
    what: str
    host: str
    switch: str
    fix: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}: hosts {self.host}, switch {self.switch}; {self.fix} [{self.code}]"


class Said(msgspec.Struct, frozen=True):
    """One disagreement on one port, before ports that share it are put together."""

    code: str
    what: str
    host: str
    switch: str
    words: tuple[tuple[str, str], ...] = ()
    """What the fix names, beside port, MTU and QoS."""


def compare(
    leaf: Leaf,
    port: Callable[[str], SeenPort | None],
    gateways: Callable[[int], frozenset[str]],
    fixes: Mapping[str, str],
) -> list[Disagreement]:
    """Everything in which they differ; `port` and `gateways` read the switch, `fixes` has a text for each code."""
    found: dict[Said, list[str]] = {}
    seen = {one.name: port(one.name) for one in leaf.ports}
    for one in leaf.ports:
        for said in _port(leaf, one, seen[one.name]):
            found.setdefault(said, []).append(one.name)
    for uplink in leaf.uplinks:
        for said in _uplink(leaf, port(uplink.name), uplink.address):
            found.setdefault(said, []).append(uplink.name)
    for said, name in _bridges(leaf, seen, gateways):
        found.setdefault(said, []).append(name)
    return [_disagreement(leaf, said, names, fixes) for said, names in found.items()]


def _port(leaf: Leaf, one: LeafPort, seen: SeenPort | None) -> Iterator[Said]:
    if seen is None:
        yield Said("no-port", "the switch has no such port", "are on it", "does not know it")
        return
    for address in one.addresses:
        if address not in seen.addresses:
            there = ", ".join(sorted(seen.addresses)) or "no address"
            yield Said(
                "address", f"the gateway of {one.node}", f"use {address}", f"has {there}", (("address", address),)
            )
    if one.vlan and not seen.vlan:
        yield Said("vlan", "a bridged rail", "expect an untagged VLAN", "has none", (("vlan", str(one.vlan)),))
    yield from _frames(leaf, seen)


def _uplink(leaf: Leaf, seen: SeenPort | None, address: str) -> Iterator[Said]:
    if seen is None:
        yield Said("no-port", "the switch has no such port", "need it as an uplink", "does not know it")
        return
    if address and address not in seen.addresses:
        there = ", ".join(sorted(seen.addresses)) or "no address"
        yield Said("address", "an uplink", f"need {address}", f"has {there}", (("address", address),))
    yield from _frames(leaf, seen)


def _frames(leaf: Leaf, seen: SeenPort) -> Iterator[Said]:
    if seen.mtu_bytes < leaf.host_mtu_bytes:
        yield Said("mtu", "MTU", f"send {leaf.host_mtu_bytes} bytes", f"carries {seen.mtu_bytes}")
    yield from _rdma(leaf.qos, seen.rdma)
    yield from _cnp(leaf.qos, seen)


def _rdma(qos: QosPlan, seen: Treatment) -> Iterator[Said]:
    what = f"RDMA's DSCP {qos.dscp}"
    if seen.priority != qos.priority:
        kind = "lossless" if seen.lossless else "lossy"
        yield Said("class", what, f"pause priority {qos.priority}", f"puts it in {kind} priority {seen.priority}")
        return  # whatever else differs, differs for another class
    if seen.lossless != qos.pfc:
        yield Said("pfc", f"PFC on priority {qos.priority}", _onoff("have", qos.pfc), _onoff("has", seen.lossless))
    if seen.ecn != qos.ecn:
        yield Said("ecn", f"ECN for DSCP {qos.dscp}", _onoff("have", qos.ecn), _onoff("has", seen.ecn))


def _cnp(qos: QosPlan, seen: SeenPort) -> Iterator[Said]:
    what, sent = f"congestion notifications, DSCP {qos.cnp_dscp}", "need a class of their own, served first"
    if seen.cnp.priority == seen.rdma.priority and seen.rdma.lossless:
        yield Said("cnp", what, sent, f"puts them in RDMA's priority {seen.cnp.priority}")
    elif not seen.cnp.strict:
        yield Said("cnp", what, sent, "serves them in turn with others")


def _onoff(has: str, on: bool) -> str:  # noqa: FBT001 - the value is the whole question
    return f"{has} it {'on' if on else 'off'}"


def _bridges(
    leaf: Leaf, seen: Mapping[str, SeenPort | None], gateways: Callable[[int], frozenset[str]]
) -> Iterator[tuple[Said, str]]:
    """Ports of one rail in one VLAN, whichever it is; the rail's gateways on that VLAN."""
    for vlan in leaf.vlans:
        numbers = [(one.name, port.vlan) for one in leaf.ports if (port := seen[one.name]) and one.rail == vlan.rail]
        used = next((number for _, number in numbers if number), 0)
        words = (("vlan", str(used or vlan.number)),)
        for name, number in numbers:
            if number and number != used:
                yield (
                    Said("vlan", f"rail {vlan.rail}", f"are one segment, VLAN {used}", f"has VLAN {number}", words),
                    name,
                )
        have = gateways(used or vlan.number)
        for gateway in vlan.gateways:
            if gateway not in have:
                there = ", ".join(sorted(have)) or "no address"
                said = Said(
                    "gateway",
                    f"the gateway of rail {vlan.rail}",
                    f"use {gateway}",
                    f"has {there}",
                    (*words, ("address", gateway)),
                )
                yield said, f"VLAN {used or vlan.number}"


def _disagreement(leaf: Leaf, said: Said, names: list[str], fixes: Mapping[str, str]) -> Disagreement:
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
    words = {
        "port": names[0] if len(names) == 1 else "PORT",
        "mtu": str(leaf.mtu_bytes),
        "dscp": str(leaf.qos.dscp),
        "cnp_dscp": str(leaf.qos.cnp_dscp),
        "priority": str(leaf.qos.priority),
    } | dict(said.words)
    fix = fixes[said.code if said.code not in _SWITCHED else f"{said.code}-{_wanted(leaf.qos, said.code)}"]
    return Disagreement(said.code, f"{leaf.name} {shown}", said.what, said.host, said.switch, fix.format(**words))


_SWITCHED = ("pfc", "ecn")
"""Codes whose fix goes either way."""


def _wanted(qos: QosPlan, code: str) -> str:
    return "on" if (qos.pfc if code == "pfc" else qos.ecn) else "off"
