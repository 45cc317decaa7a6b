"""MAC addresses and GUIDs of virtual functions: there, in effect, and nobody else's.

A leaf learns a MAC address at one port only (IEEE 802.1Q), a subnet manager a GUID. On ConnectX the VF's GUID is made
of the MAC address that the port gave it when its driver was bound.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.functions import VirtualFunction, iter_vfs, summarize
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot
    from trackbed.kernel.netlink.vfs import Vf

_GUIDS = "/sys/class/infiniband/*/node_guid"
_NEEDS_MAC = frozenset({"mlx5_core"})
"""Drivers that make the VF's RDMA GUID of the MAC address the port gave; others are content with one of their own."""

READS = Wanted(files=(_GUIDS,), links=("/sys/class/infiniband/*/device",))


def check_macs(view: NodeView) -> Iterator[Finding]:
    """Compare each port's MAC addresses with all of the same rail; nothing to say where no node's were collected."""
    if view.peers is None:
        return
    for port in view.iter_ports():
        link = view.find_link(port)
        if link is None:
            continue
        mine = {link.mac: "the port", **_given(view, port)}
        twice = [f"{mac} ({mine[mac]}) is also at {who}" for mac, who in _theirs(view, port) if mac in mine]
        twice += [f"{mac} is at VFs {', '.join(vfs)}" for mac, vfs in _by_mac(view, port).items() if len(vfs) > 1]
        twice += [f"{link.mac} is at the port and at a VF"] if link.mac in _given(view, port) else []
        yield judge("vfs-mac-duplicate", view.node, port, ok=not twice, evidence=summarize(twice))


def _given(view: NodeView, port: PortPlan) -> dict[str, str]:
    return {mac: f"VF {vfs[0]}" for mac, vfs in _by_mac(view, port).items()}


def _by_mac(view: NodeView, port: PortPlan) -> Mapping[str, list[str]]:
    """MAC addresses that the port gave its VFs -> numbers of those VFs."""
    found: dict[str, list[str]] = defaultdict(list)
    told = view.vfs.get(port.netdev)
    for vf in told.vfs if told else ():
        if not _zero(vf.mac):
            found[vf.mac].append(str(vf.index))
    return found


def _theirs(view: NodeView, port: PortPlan) -> Iterator[tuple[str, str]]:
    """MAC addresses of the rail on other nodes -> whose."""
    for peer in view.peers or ():
        other: PortPlan | None = peer.node.port(port.rail)
        link = peer.find_link(other) if other and port.rail not in peer.rails_in_pods else None
        if link is not None and other is not None:
            yield link.mac, peer.node.name
            yield from ((mac, f"{peer.node.name} {vf}") for mac, vf in _given(peer, other).items())


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the addresses of each port's VFs."""
    host = view.host
    if host is None:
        return
    if view.node.common.vfs:
        for port in view.iter_ports():
            there = {vf.index: vf for vf in iter_vfs(host, port.netdev)}
            yield from _addresses(view, host, port, there)
            yield from _zero_guids(view, host, port, there)
    yield from _guids_twice(view, host)


def _addresses(view: NodeView, host: Snapshot, port: PortPlan, there: dict[int, VirtualFunction]) -> Iterator[Finding]:
    told = view.vfs.get(port.netdev)
    pairs = [(vf, there[vf.index]) for vf in (told.vfs if told else ()) if vf.index in there]
    if not pairs:
        return
    zero = [f"VF {vf.index} ({one.pci})" for vf, one in pairs if _lacks(host, vf, one)]
    evidence = f"no MAC address: {summarize(zero)}" if zero else f"{len(pairs)} VFs have a MAC address"
    yield judge("vfs-mac-zero", view.node, port, ok=not zero, evidence=evidence)
    idle = [
        f"VF {vf.index}: {vf.mac} given, {mac} in use"
        for vf, one in pairs
        if not _zero(vf.mac) and (mac := _own(host, one)) is not None and mac != vf.mac
    ]
    evidence = summarize(idle) or "what the port gave is in use"
    yield judge("vfs-admin-mac-not-effective", view.node, port, ok=not idle, evidence=evidence)


def _lacks(host: Snapshot, vf: Vf, one: VirtualFunction) -> bool:
    own = _own(host, one)
    return _zero(vf.mac) and (one.driver in _NEEDS_MAC or (own is not None and _zero(own)))


def _own(host: Snapshot, one: VirtualFunction) -> str | None:
    """The MAC address that the VF's interface uses; None where that is not on the host."""
    return next((host.text(f"{one.folder}/net/{name}/address") for name in one.netdevs), None)


def _zero(address: str) -> bool:
    return not address.strip("0:")


def _zero_guids(view: NodeView, host: Snapshot, port: PortPlan, there: dict[int, VirtualFunction]) -> Iterator[Finding]:
    guids = {
        f"{name} (VF {vf.index})": guid
        for vf in there.values()
        for name in vf.rdma
        if (guid := host.text(f"{vf.folder}/infiniband/{name}/node_guid")) is not None
    }
    if guids:
        zero = [name for name, guid in guids.items() if _zero(guid)]
        evidence = f"node_guid 0: {summarize(zero)}" if zero else f"{len(guids)} VFs have a GUID"
        yield judge("vfs-node-guid-zero", view.node, port, ok=not zero, evidence=evidence)


def _guids_twice(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Among devices with hardware behind them: soft-RoCE makes its GUID of the interface's MAC address."""
    mine = list(_guids(host))
    if not mine:
        return
    seen: dict[str, list[str]] = defaultdict(list)
    for guid, name in mine:
        seen[guid].append(name)
    for peer in view.peers or ():
        for guid, name in _guids(peer.host) if peer.host else ():
            if guid in seen:
                seen[guid].append(f"{name} of {peer.node.name}")
    twice = [f"{guid} is at {' and '.join(names)}" for guid, names in seen.items() if len(names) > 1]
    ok = False if twice else (True if view.peers is not None else None)
    if ok is not None:
        yield judge("vfs-guid-duplicate", view.node, None, ok=ok, evidence=summarize(twice))


def _guids(host: Snapshot) -> Iterator[tuple[str, str]]:
    for path in host.glob(_GUIDS):
        name, guid = path.split("/")[-2], host.text(path)
        if guid and not _zero(guid) and f"/sys/class/infiniband/{name}/device" in host.links:
            yield guid, name
