"""The planned name is on the planned hardware."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.kernel.netlink.links import Link

_DRIVER = "/sys/bus/pci/devices/{pci}/driver"
_LEFT_OVER = re.compile(r"rename\d+")
"""What systemd-udevd before version 187 leaves where a rename failed halfway."""

READS = Wanted(links=(_DRIVER,))


def check(view: NodeView) -> Iterator[Finding]:
    """Judge each port that is on the host now."""
    for port in view.iter_ports():
        holder, owner = view.find_link(port), _port(view, port)
        evidence = _evidence(port, holder, owner)
        yield judge("names-netdev-missing", view.node, port, ok=_present(view, port, holder, owner), evidence=evidence)
        right = not (_other(port, holder, owner) and holder is not None and holder.parent_device)
        yield judge("names-on-wrong-device", view.node, port, ok=right, evidence=evidence)
        free = not _conflict(view, port, holder, owner)
        yield judge("names-rename-conflict", view.node, port, ok=free, evidence=evidence)
        yield from _card(view, port, owner or holder)


def _port(view: NodeView, port: PortPlan) -> Link | None:
    """The interface that is the port, by PCI address or MAC; None where the plan knows neither."""
    if port.pci:
        named = view.find_link(port)
        if named is not None and named.parent_device == port.pci:
            return named  # representors of a NIC have its PCI address, too
        return next((link for link in view.state.links if link.parent_device == port.pci), None)
    if port.mac:
        named = view.find_link(port)
        if named is not None and port.mac in {named.mac, named.permanent_mac}:
            return named
        return next((link for link in view.state.links if port.mac in {link.permanent_mac, link.mac}), None)
    return None


def _present(view: NodeView, port: PortPlan, holder: Link | None, owner: Link | None) -> bool | None:
    """Whether an interface has the name; None where the port is no interface now, because a virtual machine has it."""
    if holder is not None or _conflict(view, port, holder, owner):
        return True
    driver = view.host.target(_DRIVER.format(pci=port.pci)) if view.host and port.pci else None
    return None if driver == "vfio-pci" else False


def _other(port: PortPlan, holder: Link | None, owner: Link | None) -> bool:
    """Whether the name is on another device than the plan's."""
    if holder is None:
        return False
    if owner is not None:
        return owner.index != holder.index
    return bool(port.pci and holder.parent_device and holder.parent_device != port.pci)


def _conflict(view: NodeView, port: PortPlan, holder: Link | None, owner: Link | None) -> bool:
    """Whether something stands in the way of the rename: the name is taken, or one was left halfway."""
    halfway = owner is not None and owner != holder and bool(_LEFT_OVER.fullmatch(owner.name))
    taken = any(port.netdev in link.altnames for link in view.state.links if link != holder)
    return halfway or taken or _other(port, holder, owner)


def _card(view: NodeView, port: PortPlan, link: Link | None) -> Iterator[Finding]:
    """Only for what has an address of its own: a veth of the lab has no permanent one."""
    if link is None or not port.mac or not link.permanent_mac:
        return
    evidence = f"{link.name} has permanent MAC {link.permanent_mac}, planned {port.mac}"
    yield judge("names-card-swapped", view.node, port, ok=link.permanent_mac == port.mac, evidence=evidence)


def _evidence(port: PortPlan, holder: Link | None, owner: Link | None) -> str:
    who = port.pci or port.mac or port.kernel_name or port.netdev
    where = f"{who} is {owner.name!r}" if owner else f"{who} is not here"
    if holder is None:
        return f"no interface is called {port.netdev!r}; {where}"
    if owner is not None and owner.index == holder.index:
        return f"{port.netdev} is interface {holder.index}"
    if owner is None and not _other(port, holder, owner):
        return f"{port.netdev} is interface {holder.index}"
    kind = f"a {holder.kind or 'device'} with MAC {holder.mac}"
    return f"{port.netdev!r} is {holder.parent_device or kind}; {where}"
