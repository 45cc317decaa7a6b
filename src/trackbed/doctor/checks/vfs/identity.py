"""Checks that MAC addresses and GUIDs of virtual functions are set, in effect, and unique.

A leaf learns a MAC address on one port only (IEEE 802.1Q), and a subnet manager expects each GUID once. On ConnectX
the VF's GUID is derived from the MAC address that the port had assigned when the VF's driver was bound.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.vfs.functions import VirtualFunction, iter_vfs, summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.kernel.netlink.vfs import Vf

_GUIDS = "/sys/class/infiniband/*/node_guid"
_MAC_DRIVERS = frozenset({"mlx5_core"})
"""Drivers that derive a VF's GUID from the MAC address that the port assigned; other drivers generate an address."""

READS = Wanted(files=(_GUIDS,), links=("/sys/class/infiniband/*/device",))


def check(view: NodeView) -> Iterator[Finding]:
    """Check that MAC addresses are unique on each rail; skipped if no peers were collected."""
    if view.peers is None:
        return
    for port in view.iter_ports():
        link = view.find_link(port)
        if link is None:
            continue
        vf_macs = _map_vf_macs(view, port)
        local = {link.mac: "the port", **vf_macs}
        duplicates = [
            f"{mac} ({local[mac]}) is also at {owner}" for mac, owner in _iter_peer_macs(view, port) if mac in local
        ]
        duplicates += [
            f"{mac} is at VFs {', '.join(indexes)}"
            for mac, indexes in _group_vfs_by_mac(view, port).items()
            if len(indexes) > 1
        ]
        duplicates += [f"{link.mac} is at the port and at a VF"] if link.mac in vf_macs else []
        evidence = summarize_items(duplicates)
        yield build_finding("vfs-mac-duplicate", view.node, port, ok=not duplicates, evidence=evidence)


def _map_vf_macs(view: NodeView, port: PortPlan) -> dict[str, str]:
    """Return MAC address -> the first VF that has it, such as `VF 0`."""
    return {mac: f"VF {indexes[0]}" for mac, indexes in _group_vfs_by_mac(view, port).items()}


def _group_vfs_by_mac(view: NodeView, port: PortPlan) -> Mapping[str, list[str]]:
    """Return MAC address -> indexes of the VFs to which the port assigned it."""
    indexes: dict[str, list[str]] = defaultdict(list)
    listing = view.vfs.get(port.netdev)
    for vf in listing.vfs if listing else ():
        if not _is_zero_address(vf.mac):
            indexes[vf.mac].append(str(vf.index))
    return indexes


def _iter_peer_macs(view: NodeView, port: PortPlan) -> Iterator[tuple[str, str]]:
    """Yield (MAC address, owner) for the rail's ports and VFs on other nodes."""
    for peer in view.peers or ():
        peer_port: PortPlan | None = peer.node.find_port(port.rail)
        link = peer.find_link(peer_port) if peer_port and port.rail not in peer.rails_in_pods else None
        if link is not None and peer_port is not None:
            yield link.mac, peer.node.name
            yield from ((mac, f"{peer.node.name} {vf}") for mac, vf in _map_vf_macs(peer, peer_port).items())


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the MAC addresses and GUIDs of each port's VFs, and that GUIDs are unique."""
    if view.node.common.vfs:
        for port in view.iter_ports():
            vfs = {vf.index: vf for vf in iter_vfs(host, port.netdev)}
            yield from check_vf_addresses(view, host, port, vfs)
            yield from check_zero_guids(view, host, port, vfs)
    yield from check_duplicate_guids(view, host)


def check_vf_addresses(
    view: NodeView, host: Snapshot, port: PortPlan, vfs: dict[int, VirtualFunction]
) -> Iterator[Finding]:
    """Check that VFs have a MAC address, and use the one that the port assigned."""
    listing = view.vfs.get(port.netdev)
    pairs = [(vf, vfs[vf.index]) for vf in (listing.vfs if listing else ()) if vf.index in vfs]
    if not pairs:
        return
    zero = [f"VF {vf.index} ({function.pci})" for vf, function in pairs if _lacks_mac(host, vf, function)]
    evidence = f"no MAC address: {summarize_items(zero)}" if zero else f"{len(pairs)} VFs have a MAC address"
    yield build_finding("vfs-mac-zero", view.node, port, ok=not zero, evidence=evidence)
    ineffective = [
        f"VF {vf.index}: {vf.mac} assigned, {mac} in use"
        for vf, function in pairs
        if not _is_zero_address(vf.mac) and (mac := _read_mac(host, function)) is not None and mac != vf.mac
    ]
    evidence = summarize_items(ineffective) or "the assigned addresses are in use"
    yield build_finding("vfs-admin-mac-not-effective", view.node, port, ok=not ineffective, evidence=evidence)


def _lacks_mac(host: Snapshot, vf: Vf, function: VirtualFunction) -> bool:
    """Return whether the port assigned no MAC address, and the driver needs that or generated none itself."""
    mac = _read_mac(host, function)
    return _is_zero_address(vf.mac) and (function.driver in _MAC_DRIVERS or (mac is not None and _is_zero_address(mac)))


def _read_mac(host: Snapshot, function: VirtualFunction) -> str | None:
    """Return the MAC address in use on the VF's interface; None if the interface is not on the host."""
    return next((host.read_text(f"{function.folder}/net/{name}/address") for name in function.netdevs), None)


def _is_zero_address(address: str) -> bool:
    """Return whether a MAC address or GUID consists of zeros only."""
    return not address.strip("0:")


def check_zero_guids(
    view: NodeView, host: Snapshot, port: PortPlan, vfs: dict[int, VirtualFunction]
) -> Iterator[Finding]:
    """Check that the VFs' RDMA devices have a GUID."""
    guids = {
        f"{name} (VF {vf.index})": guid
        for vf in vfs.values()
        for name in vf.rdma_devices
        if (guid := host.read_text(f"{vf.folder}/infiniband/{name}/node_guid")) is not None
    }
    if guids:
        zero = [name for name, guid in guids.items() if _is_zero_address(guid)]
        evidence = f"node_guid 0: {summarize_items(zero)}" if zero else f"{len(guids)} VFs have a GUID"
        yield build_finding("vfs-node-guid-zero", view.node, port, ok=not zero, evidence=evidence)


def check_duplicate_guids(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that hardware RDMA devices have unique GUIDs; soft-RoCE derives its GUIDs from MAC addresses."""
    local = list(_iter_guids(host))
    if not local:
        return
    owners: dict[str, list[str]] = defaultdict(list)
    for guid, name in local:
        owners[guid].append(name)
    for peer in view.peers or ():
        for guid, name in _iter_guids(peer.host) if peer.host else ():
            if guid in owners:
                owners[guid].append(f"{name} of {peer.node.name}")
    duplicates = [f"{guid} is at {' and '.join(names)}" for guid, names in owners.items() if len(names) > 1]
    if duplicates or view.peers is not None:
        evidence = summarize_items(duplicates)
        yield build_finding("vfs-guid-duplicate", view.node, None, ok=not duplicates, evidence=evidence)


def _iter_guids(host: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield the GUID and name of each hardware RDMA device on the host."""
    for path in host.glob(_GUIDS):
        name, guid = path.split("/")[-2], host.read_text(path)
        if guid and not _is_zero_address(guid) and f"/sys/class/infiniband/{name}/device" in host.links:
            yield guid, name
