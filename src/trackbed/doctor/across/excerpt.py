"""The part of a node that checks between nodes need, taken from its view.

None means not read. An empty value means that the node has none of it, or shares its host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from trackbed.doctor.across.rail_order import RailPosition, identify_hardware, list_rail_positions
from trackbed.doctor.hardware import DEVICES, iter_pci_functions, read_device_id
from trackbed.doctor.view import NodeView, get_ip_version
from trackbed.fabric.model.ranges import BITS, Range, format_address
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_GUIDS = "/sys/class/infiniband/*/node_guid"
HOST_NAME, MACHINE_ID = "/proc/sys/kernel/hostname", "/etc/machine-id"
_IDENTITY = (HOST_NAME, MACHINE_ID)
_FIRMWARE = f"{DEVICES}/{{pci}}/infiniband/*/fw_ver"
_DRIVER_VERSION = "/sys/module/mlx5_core/version"
_MODULES = "/sys/module"

READS = Wanted(
    files=(_GUIDS, *_IDENTITY, _FIRMWARE, _DRIVER_VERSION, f"{DEVICES}/{{pci}}/vendor", f"{DEVICES}/{{pci}}/device"),
    links=("/sys/class/infiniband/*/device", "/sys/class/net/{netdev}/device"),
    folders=(_MODULES, "/sys/class/net/{netdev}/device/infiniband"),
)
"""Everything that an excerpt has of a host's files."""


class PortExcerpt(msgspec.Struct, frozen=True, gc=False):
    """A port that is on the host."""

    rail: int
    netdev: str
    leaf: str
    """The planned leaf."""
    has_carrier: bool | None = None
    """None if the port is administratively down."""


class HeldMac(msgspec.Struct, frozen=True, gc=False):
    """The MAC address of a rail's port, or that the port assigned to a VF."""

    rail: int
    netdev: str
    mac: str
    vf: int | None = None
    """Index of the VF; None for the port itself."""

    @property
    def holder(self) -> str:
        """The interface, or its VF, such as `rail0 VF 3`."""
        return self.netdev if self.vf is None else f"{self.netdev} VF {self.vf}"


class HeldAddress(msgspec.Struct, frozen=True, gc=False):
    """An address of the rails' ranges on an interface of the node; `rail` is that of the interface, if it has one."""

    text: str
    netdev: str
    rail: int | None


class PluggedCable(msgspec.Struct, frozen=True, gc=False):
    """A port, its planned leaf, and the leaf and its port that LLDP reports."""

    rail: int
    planned_leaf: str
    leaf: str
    leaf_port: str


class FirmwareVersion(msgspec.Struct, frozen=True, gc=False):
    """The firmware version of a port's NIC; `model` has its PCI vendor and device ids."""

    rail: int
    model: str
    version: str


class RailOrder(msgspec.Struct, frozen=True, gc=False):
    """The order of a node's rails; `hardware` is equal on nodes with the same NICs in the same slots."""

    hardware: str
    positions: tuple[RailPosition, ...]


class NodeExcerpt(msgspec.Struct, frozen=True, gc=False):
    """What the checks between nodes need of one node."""

    node: str
    failure: str = ""
    """Why nothing was read of the node; empty if something was."""
    source: str = ""
    """Where this was read, if two sources may claim one node: the path of an archive."""
    is_pseudonymous: bool = False
    """Whether names and addresses in the source are pseudonyms, so that they are None here."""
    ports: tuple[PortExcerpt, ...] | None = None
    macs: tuple[HeldMac, ...] | None = None
    addresses: tuple[HeldAddress, ...] | None = None
    identity: tuple[tuple[str, str], ...] | None = None
    """Path and content of the files that identify the host."""
    guids: tuple[tuple[str, str], ...] | None = None
    """GUID and name of each hardware RDMA device; soft-RoCE derives its GUIDs from MAC addresses."""
    firmware: tuple[FirmwareVersion, ...] | None = None
    driver: str | None = None
    """Version of the loaded mlx5_core; empty if it is not loaded."""
    rail_order: tuple[RailOrder, ...] | None = None
    """The order, if the ports are on a PCI bus."""
    cables: tuple[PluggedCable, ...] | None = None
    """Ports at which LLDP was heard."""
    gaps: Mapping[str, str] = {}
    """Part of this excerpt -> why it, or some of it, was not read, if there is a reason to give."""


def excerpt_node(view: NodeView, source: str = "") -> NodeExcerpt:
    """Return the excerpt of a node's view; without links or with a listing that failed, its network was not read."""
    is_network_read = bool(view.state.links) and view.unread.keys().isdisjoint({"links", "addresses"})
    excerpt = NodeExcerpt(
        view.node.name,
        source=source,
        ports=tuple(_iter_ports(view)) if is_network_read else None,
        macs=tuple(_iter_macs(view)) if is_network_read else None,
        addresses=tuple(_iter_addresses(view)) if is_network_read else None,
        cables=tuple(_iter_cables(view)) if view.probes or not view.state.machine.unseen_reason else None,
        gaps=_describe_cable_gap(view) | _describe_mac_gap(view),
    )
    if view.host is None:
        return msgspec.structs.replace(excerpt, identity=(), guids=(), firmware=(), driver="", rail_order=())
    return msgspec.structs.replace(
        excerpt,
        identity=_read_identity(view.host),
        guids=_read_guids(view.host),
        firmware=_read_firmware(view, view.host),
        driver=_read_driver(view.host),
        rail_order=_read_rail_order(view, view.host),
    )


def _iter_ports(view: NodeView) -> Iterator[PortExcerpt]:
    for port in view.iter_ports():
        link = view.find_link(port)
        if link is not None:
            carrier = link.carrier if link.is_up else None
            yield PortExcerpt(port.rail, port.netdev, port.leaf, carrier)


def _iter_macs(view: NodeView) -> Iterator[HeldMac]:
    """Yield the MAC addresses of the ports and of their VFs; IPoIB without an address, and unset VFs, have none.

    Of an InfiniBand VF the kernel shows the address of its port (ipoib_get_vf_config).
    """
    has_vf_macs = view.node.common.link_type == "ethernet"
    for port in view.iter_ports():
        link, listing = view.find_link(port), view.vfs.get(port.netdev)
        macs: list[tuple[str, int | None]] = [(link.mac, None)] if link is not None else []
        macs += [(vf.mac, vf.index) for vf in (listing.vfs if listing and has_vf_macs else ())]
        yield from (HeldMac(port.rail, port.netdev, mac, vf) for mac, vf in macs if not is_zero_address(mac))


def _iter_addresses(view: NodeView) -> Iterator[HeldAddress]:
    """Yield the node's global addresses in the rails' ranges; others, such as a bridge's, may be on many nodes."""
    rails = {port.netdev: port.rail for port in view.node.ports}
    ranges = view.list_rail_ranges()
    for address in view.state.addresses:
        version = get_ip_version(address.family)
        if address.scope == 0 and any(_is_within(version, address.address, subnet) for subnet in ranges):
            netdev = view.get_link_name(address.index)
            yield HeldAddress(format_address(version, address.address), netdev, rails.get(netdev))


def _is_within(version: int, address: int, subnet: Range) -> bool:
    bits = BITS[version] - subnet.prefix
    return version == subnet.version and address >> bits == subnet.base >> bits


def _iter_cables(view: NodeView) -> Iterator[PluggedCable]:
    for port in view.node.ports:
        results = view.probes.get(port.rail)
        if results is not None and results.lldp is not None:
            leaf = results.lldp.system_name or results.lldp.chassis_id
            yield PluggedCable(port.rail, port.leaf, leaf, results.lldp.port_id)


def _describe_mac_gap(view: NodeView) -> dict[str, str]:
    """Return why the MAC addresses of VFs are missing on a port."""
    reasons = (view.unread.get(f"vfs {port.netdev}") for port in view.node.ports)
    reason = next(filter(None, reasons), None)
    return {"macs": f"VFs cannot be listed: {reason}"} if reason else {}


def _describe_cable_gap(view: NodeView) -> dict[str, str]:
    """Return why LLDP is missing on ports with carrier: without carrier nothing is at the other end."""
    if view.lldp_failure:
        return {"cables": view.lldp_failure}
    ports = [port for port in view.iter_ports() if (link := view.find_link(port)) and link.is_up and link.carrier]
    results = [view.probes.get(port.rail) for port in ports]
    if all(result is not None and result.lldp for result in results):
        return {}
    was_silent = any(result is not None and result.lldp_heard is False for result in results)
    return {"cables": "a port heard no LLDP" if was_silent else TOO_SHORT}


TOO_SHORT = "not every port heard LLDP; leaves send it every 30 s, so listen longer: --lldp 31"
"""Why an unheard port is unknown: the wait was no longer than the time between two frames."""


def _read_identity(host: Snapshot) -> tuple[tuple[str, str], ...] | None:
    if any(path in host.unreadable for path in _IDENTITY):
        return None
    return tuple((path, text) for path in _IDENTITY if (text := host.read_text(path))) or None


def _read_guids(host: Snapshot) -> tuple[tuple[str, str], ...] | None:
    """Return GUID and name of each hardware RDMA device; None if a GUID could not be read."""
    if any(path.endswith("/node_guid") for path in host.unreadable):
        return None
    names = ((path.split("/")[-2], host.read_text(path)) for path in host.glob(_GUIDS))
    return tuple(
        (guid, name)
        for name, guid in names
        if guid and not is_zero_address(guid) and f"/sys/class/infiniband/{name}/device" in host.links
    )


def _read_firmware(view: NodeView, host: Snapshot) -> tuple[FirmwareVersion, ...] | None:
    """Return the firmware version of each port that has an RDMA device, which reports it; None if unreadable."""
    if any(path.endswith("/fw_ver") for path in host.unreadable):
        return None
    return tuple(
        FirmwareVersion(port.rail, ":".join(part or "" for part in read_device_id(host, pci)), version)
        for port, pci in iter_pci_functions(view, host)
        if (version := read_firmware_version(host, pci))
    )


def read_firmware_version(host: Snapshot, pci: str) -> str | None:
    """Return the firmware version of a NIC; None if it has no RDMA device, which reports it."""
    versions = (host.read_text(path) for path in host.glob(_FIRMWARE.format(pci=pci)))
    return next((version for version in versions if version), None)


def _read_driver(host: Snapshot) -> str | None:
    if _MODULES not in host.folders or _DRIVER_VERSION in host.unreadable:
        return None
    return (host.read_text(_DRIVER_VERSION) or "of the kernel itself") if "mlx5_core" in host.folders[_MODULES] else ""


def _read_rail_order(view: NodeView, host: Snapshot) -> tuple[RailOrder, ...]:
    positions = list_rail_positions(view, host)
    return (RailOrder(identify_hardware(view, host), positions),) if positions else ()


def is_zero_address(address: str) -> bool:
    """Return whether a MAC address or GUID is empty or consists of zeros only."""
    return not address.strip("0:")
