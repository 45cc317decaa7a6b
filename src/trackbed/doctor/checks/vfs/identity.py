"""Checks that MAC addresses and GUIDs of virtual functions are set and in effect; `across` checks that they are unique.

On ConnectX the VF's GUID is derived from the MAC address that the port had assigned when the VF's driver was bound.
"""

from collections.abc import Iterator

from trackbed.doctor.across.excerpt import is_zero_address
from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.vfs.functions import VirtualFunction, iter_vfs
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.kernel.netlink.vfs import Vf

_MAC_DRIVERS = frozenset({"mlx5_core"})
"""Drivers that derive a VF's GUID from the MAC address that the port assigned; other drivers generate an address."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the MAC addresses and GUIDs of each port's VFs."""
    if view.node.common.vfs:
        for port in view.iter_ports():
            vfs = {vf.index: vf for vf in iter_vfs(host, port.netdev)}
            if view.node.common.link_type == "ethernet":  # of InfiniBand, ip(8) shows the port's own address for each
                yield from check_vf_addresses(view, host, port, vfs)
            yield from check_zero_guids(view, host, port, vfs)


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
        if not is_zero_address(vf.mac) and (mac := _read_mac(host, function)) is not None and mac != vf.mac
    ]
    evidence = summarize_items(ineffective) or "the assigned addresses are in use"
    yield build_finding("vfs-admin-mac-not-effective", view.node, port, ok=not ineffective, evidence=evidence)


def _lacks_mac(host: Snapshot, vf: Vf, function: VirtualFunction) -> bool:
    """Return whether the port assigned no MAC address, and the driver needs that or generated none itself."""
    mac = _read_mac(host, function)
    return is_zero_address(vf.mac) and (function.driver in _MAC_DRIVERS or (mac is not None and is_zero_address(mac)))


def _read_mac(host: Snapshot, function: VirtualFunction) -> str | None:
    """Return the MAC address in use on the VF's interface; None if the interface is not on the host."""
    return next((host.read_text(f"{function.folder}/net/{name}/address") for name in function.netdevs), None)


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
        zero = [name for name, guid in guids.items() if is_zero_address(guid)]
        evidence = f"node_guid 0: {summarize_items(zero)}" if zero else f"{len(guids)} VFs have a GUID"
        yield build_finding("vfs-node-guid-zero", view.node, port, ok=not zero, evidence=evidence)
