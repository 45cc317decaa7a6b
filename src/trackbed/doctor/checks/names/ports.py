"""The planned name is on the planned hardware.

The `holder` is the interface that has the planned name, the `owner` the interface of the planned hardware; on a sound
host they are the same.
"""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.kernel.netlink.links import Link

_DRIVER = "/sys/bus/pci/devices/{pci}/driver"
_HALF_RENAMED = re.compile(r"rename\d+")
"""Name that systemd-udevd before version 187 leaves where a rename failed halfway."""

READS = Wanted(links=(_DRIVER,))


def check(view: NodeView) -> Iterator[Finding]:
    """Check each port that is on the host now."""
    for port in view.iter_ports():
        holder, owner = view.find_link(port), _find_owner(view, port)
        evidence = _describe(port, holder, owner)
        ok = _has_name(view, port, holder, owner)
        yield judge("names-netdev-missing", view.node, port, ok=ok, evidence=evidence)
        is_wrong = _is_elsewhere(port, holder, owner) and holder is not None and holder.parent_device
        yield judge("names-on-wrong-device", view.node, port, ok=not is_wrong, evidence=evidence)
        is_free = not _has_conflict(view, port, holder, owner)
        yield judge("names-rename-conflict", view.node, port, ok=is_free, evidence=evidence)
        yield from check_card(view, port, owner or holder)


def _find_owner(view: NodeView, port: PortPlan) -> Link | None:
    """Return the interface of the port's hardware, by PCI address or MAC; None where the plan has neither."""
    holder = view.find_link(port)
    if port.pci:
        if holder is not None and holder.parent_device == port.pci:
            return holder  # representors of a NIC have its PCI address, too
        return next((link for link in view.state.links if link.parent_device == port.pci), None)
    if port.mac:
        if holder is not None and port.mac in {holder.mac, holder.permanent_mac}:
            return holder
        return next((link for link in view.state.links if port.mac in {link.permanent_mac, link.mac}), None)
    return None


def _has_name(view: NodeView, port: PortPlan, holder: Link | None, owner: Link | None) -> bool | None:
    """Return whether an interface has the name; None where a virtual machine has the port, which has no interface."""
    if holder is not None or _has_conflict(view, port, holder, owner):
        return True
    driver = view.host.get_target(_DRIVER.format(pci=port.pci)) if view.host and port.pci else None
    return None if driver == "vfio-pci" else False


def _is_elsewhere(port: PortPlan, holder: Link | None, owner: Link | None) -> bool:
    """Return whether the name is on another device than planned."""
    if holder is None:
        return False
    if owner is not None:
        return owner.index != holder.index
    return bool(port.pci and holder.parent_device and holder.parent_device != port.pci)


def _has_conflict(view: NodeView, port: PortPlan, holder: Link | None, owner: Link | None) -> bool:
    """Return whether something prevents the rename: the name is taken, or an earlier rename failed halfway."""
    is_halfway = owner is not None and owner != holder and bool(_HALF_RENAMED.fullmatch(owner.name))
    is_taken = any(port.netdev in link.altnames for link in view.state.links if link != holder)
    return is_halfway or is_taken or _is_elsewhere(port, holder, owner)


def check_card(view: NodeView, port: PortPlan, link: Link | None) -> Iterator[Finding]:
    """Check by its permanent MAC address that the card was not swapped; skip ports without one (veth)."""
    if link is None or not port.mac or not link.permanent_mac:
        return
    evidence = f"{link.name} has permanent MAC {link.permanent_mac}, planned {port.mac}"
    yield judge("names-card-swapped", view.node, port, ok=link.permanent_mac == port.mac, evidence=evidence)


def _describe(port: PortPlan, holder: Link | None, owner: Link | None) -> str:
    hardware = port.pci or port.mac or port.kernel_name or port.netdev
    owner_state = f"{hardware} is {owner.name!r}" if owner else f"{hardware} is not on this host"
    if holder is None:
        return f"no interface is called {port.netdev!r}; {owner_state}"
    if owner is not None and owner.index == holder.index:
        return f"{port.netdev} is interface {holder.index}"
    if owner is None and not _is_elsewhere(port, holder, owner):
        return f"{port.netdev} is interface {holder.index}"
    device = holder.parent_device or f"a {holder.kind or 'device'} with MAC {holder.mac}"
    return f"{port.netdev!r} is {device}; {owner_state}"
