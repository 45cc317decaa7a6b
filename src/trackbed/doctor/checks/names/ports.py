"""Planned names on the planned hardware.

The `holder` is the interface that has the planned name. The `owner` is the interface of the planned hardware. On a
sound host they are the same.
"""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.kernel.netlink.links import Link

_DRIVER = "/sys/bus/pci/devices/{pci}/driver"
_HALF_RENAMED = re.compile(r"rename\d+")
"""Temporary name that systemd-udevd before version 187 leaves if a rename fails halfway."""

READS = Wanted(links=(_DRIVER,))


def check(view: NodeView) -> Iterator[Finding]:
    """Check the name of each port that is on the host now; where no interface is the port, only that one is missing."""
    for port in view.iter_ports():
        holder, owner = view.find_link(port), _find_owner(view, port)
        evidence = _describe_names(port, holder, owner)
        ok = _has_planned_name(view, port, holder, owner)
        yield build_finding("names-netdev-missing", view.node, port, ok=ok, evidence=evidence)
        if holder is not None:
            is_wrong = _is_name_misplaced(port, holder, owner) and holder.parent_device
            yield build_finding("names-on-wrong-device", view.node, port, ok=not is_wrong, evidence=evidence)
        is_free = not _has_name_conflict(view, port, holder, owner)
        if holder is not None or owner is not None or not is_free:
            yield build_finding("names-rename-conflict", view.node, port, ok=is_free, evidence=evidence)
        yield from check_card(view, port, owner or holder)


def _find_owner(view: NodeView, port: PortPlan) -> Link | None:
    """Return the interface with the port's PCI address, or with its MAC address if the plan has no PCI address."""
    # The interface with the planned name is tried first, because a NIC's representors have the same PCI address.
    links = sorted(view.state.links, key=lambda link: link.name != port.netdev)
    if port.pci:
        return next((link for link in links if link.parent_device == port.pci), None)
    return next((link for link in links if port.mac and port.mac in {link.permanent_mac, link.mac}), None)


def _has_planned_name(view: NodeView, port: PortPlan, holder: Link | None, owner: Link | None) -> bool | None:
    """Return whether an interface has the planned name; None if the port is reserved for a virtual machine."""
    if holder is not None or _has_name_conflict(view, port, holder, owner):
        return True
    driver = view.host.get_target(_DRIVER.format(pci=port.pci)) if view.host and port.pci else None
    return None if driver == "vfio-pci" else False


def _is_name_misplaced(port: PortPlan, holder: Link | None, owner: Link | None) -> bool:
    """Return whether the interface with the planned name is not the planned hardware."""
    if holder is None:
        return False
    if owner is not None:
        return owner.index != holder.index
    return bool(port.pci and holder.parent_device and holder.parent_device != port.pci)


def _has_name_conflict(view: NodeView, port: PortPlan, holder: Link | None, owner: Link | None) -> bool:
    """Return whether the port cannot be renamed: the name is taken, or an earlier rename failed halfway."""
    is_halfway = owner is not None and owner != holder and bool(_HALF_RENAMED.fullmatch(owner.name))
    is_taken = any(port.netdev in link.altnames for link in view.state.links if link != holder)
    return is_halfway or is_taken or _is_name_misplaced(port, holder, owner)


def check_card(view: NodeView, port: PortPlan, link: Link | None) -> Iterator[Finding]:
    """Check that the card has the planned permanent MAC address; interfaces without one (veth) are skipped."""
    if link is None or not port.mac or not link.permanent_mac:
        return
    evidence = f"{link.name} has permanent MAC {link.permanent_mac}, planned {port.mac}"
    yield build_finding("names-card-swapped", view.node, port, ok=link.permanent_mac == port.mac, evidence=evidence)


def _describe_names(port: PortPlan, holder: Link | None, owner: Link | None) -> str:
    hardware = port.pci or port.mac or port.kernel_name or port.netdev
    owner_state = f"{hardware} is {owner.name!r}" if owner else f"{hardware} is not on this host"
    if holder is None:
        return f"no interface is called {port.netdev!r}; {owner_state}"
    if owner is not None and owner.index == holder.index:
        return f"{port.netdev} is interface {holder.index}"
    if owner is None and not _is_name_misplaced(port, holder, owner):
        return f"{port.netdev} is interface {holder.index}"
    device = holder.parent_device or f"a {holder.kind or 'device'} with MAC {holder.mac}"
    return f"{port.netdev!r} is {device}; {owner_state}"
