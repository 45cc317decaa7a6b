"""Step names: every port has its planned name (systemd.link(5); the kernel's limit is IFNAMSIZ of linux/if.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.verify.catalogue import judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.netlink.links import Link
    from trackbed.plan.plan import PortPlan
    from trackbed.verify.finding import Finding
    from trackbed.verify.view import View


def check(view: View) -> Iterator[Finding]:
    """Judge the name of each port. That names fit the kernel is refused before there is a plan (spec.check)."""
    for port in view.ports():
        holder = view.link(port)
        owner = _port(view, port)
        ok = holder is not None and (owner is None or owner.index == holder.index)
        yield judged("names-rename-conflict", view.node, port, ok=ok, evidence=_evidence(port, holder, owner))


def _port(view: View, port: PortPlan) -> Link | None:
    """The interface that is the port, by PCI address or MAC; None where the plan knows neither."""
    if port.pci:
        return next((link for link in view.state.links if link.parent_device == port.pci), None)
    if port.mac:
        named = view.link(port)
        if named is not None and port.mac in {named.mac, named.permanent_mac}:
            return named
        return next((link for link in view.state.links if port.mac in {link.permanent_mac, link.mac}), None)
    return None


def _evidence(port: PortPlan, holder: Link | None, owner: Link | None) -> str:
    who = port.pci or port.mac or port.kernel_name or port.netdev
    where = f"{who} is {owner.name!r}" if owner else f"{who} is not here"
    if holder is None:
        return f"no interface is called {port.netdev!r}; {where}"
    if owner is None or owner.index == holder.index:
        return f"{port.netdev} is interface {holder.index}"
    return f"{port.netdev!r} is a {holder.kind or 'device'} with MAC {holder.mac}; {where}"
