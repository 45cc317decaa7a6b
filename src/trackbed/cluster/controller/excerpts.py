"""Excerpts of nodes, decoded from the reports in their RailNodes: pure functions.

A report adds nothing to what the plan says: interfaces and leaves are the planned ones, and entries of rails that the
node does not have are ignored.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from msgspec import UNSET, UnsetType

from trackbed.cluster.resources.node_report import (
    NodeReport,
    ReportedCable,
    ReportedFirmware,
    ReportedIdentity,
    ReportedMacs,
    ReportedOrder,
    ReportedPort,
    decode_report,
)
from trackbed.doctor.across.excerpt import (
    HOST_NAME,
    MACHINE_ID,
    FirmwareVersion,
    HeldAddress,
    HeldMac,
    NodeExcerpt,
    PluggedCable,
    PortExcerpt,
    RailOrder,
)
from trackbed.doctor.across.rail_order import RailPosition
from trackbed.fabric.plan.plan import NodePlan, PortPlan

NOT_REPORTED = "its agent has reported nothing to compare; see condition Healthy of the RailNode"
"""Why nothing is known of a node; an agent of an earlier version reports nothing."""
_Ports = Mapping[int, PortPlan]
"""Rail -> planned port."""
_Reported = TypeVar("_Reported")
_Excerpt = TypeVar("_Excerpt")


def build_excerpt(node: NodePlan, report_json: bytes | None, plan_hash: str) -> NodeExcerpt:
    """Return the excerpt of a node; nothing is known of it without a report.

    Addresses are unknown unless the host had reached the current plan, whose digest is `plan_hash`: those of an earlier
    plan may belong to other nodes by now. Raises ReportError.
    """
    if report_json is None:
        return NodeExcerpt(node.name, failure=NOT_REPORTED)
    report = decode_report(report_json)
    ports = {port.rail: port for port in node.ports}
    rails = {port.netdev: port.rail for port in node.ports}
    addresses = report.addresses if report.reached_hash == plan_hash else UNSET
    return NodeExcerpt(
        node.name,
        ports=_convert(report.ports, partial(_iter_ports, ports)),
        macs=_convert(report.macs, partial(_iter_macs, ports)),
        addresses=_convert(
            addresses, lambda held: iter((HeldAddress(held.address, held.netdev, rails.get(held.netdev)),))
        ),
        identity=None if report.identity is UNSET else tuple(_iter_identity(report.identity)),
        guids=_convert(report.devices, lambda device: iter(((device.guid, device.name),))),
        firmware=_convert(report.firmware, _iter_firmware),
        driver=None if report.driver is UNSET else report.driver,
        rail_order=_convert(report.rail_order, _iter_orders),
        cables=_convert(report.cables, partial(_iter_cables, ports)),
        gaps=_describe_gaps(report),
    )


def _describe_gaps(report: NodeReport) -> dict[str, str]:
    """Return why the cabling is not known of ports with carrier that heard no LLDP."""
    lit = {port.rail for port in report.ports or () if port.carrier is True}
    heard = {cable.rail for cable in report.cables or ()}
    return {} if lit <= heard else {"cables": "not every port with carrier heard LLDP while the agent listened"}


def _convert(
    part: tuple[_Reported, ...] | UnsetType, convert: Callable[[_Reported], Iterator[_Excerpt]]
) -> tuple[_Excerpt, ...] | None:
    """Return a part of an excerpt; None if it was not reported."""
    return None if part is UNSET else tuple(excerpt for reported in part for excerpt in convert(reported))


def _iter_ports(ports: _Ports, reported: ReportedPort) -> Iterator[PortExcerpt]:
    if reported.rail in ports:
        port = ports[reported.rail]
        yield PortExcerpt(port.rail, port.netdev, port.leaf, None if reported.carrier is UNSET else reported.carrier)


def _iter_macs(ports: _Ports, reported: ReportedMacs) -> Iterator[HeldMac]:
    if reported.rail not in ports:
        return
    netdev = ports[reported.rail].netdev
    if reported.mac:
        yield HeldMac(reported.rail, netdev, reported.mac)
    yield from (HeldMac(reported.rail, netdev, mac, index) for index, mac in enumerate(reported.vfs) if mac)


def _iter_identity(reported: ReportedIdentity) -> Iterator[tuple[str, str]]:
    if reported.host_name is not UNSET:
        yield HOST_NAME, reported.host_name
    if reported.machine_id_digest is not UNSET:
        yield MACHINE_ID, f"digest {reported.machine_id_digest}"


def _iter_firmware(reported: ReportedFirmware) -> Iterator[FirmwareVersion]:
    yield from (FirmwareVersion(rail, reported.model, reported.version) for rail in reported.rails)


def _iter_orders(reported: ReportedOrder) -> Iterator[RailOrder]:
    positions = (RailPosition(item.rail, item.rdma, item.position) for item in reported.positions)
    yield RailOrder(reported.hardware_digest, tuple(positions))


def _iter_cables(ports: _Ports, reported: ReportedCable) -> Iterator[PluggedCable]:
    if reported.rail in ports:
        yield PluggedCable(reported.rail, ports[reported.rail].leaf, reported.leaf, reported.leaf_port)
