"""The report of a node's agent for comparisons between nodes: an excerpt of its host, in the RailNode's status.

A report of eight rails has about two kilobytes. A part that was not read, or that exceeds its maximum, is absent: it is
unknown. An empty part means that the node has none of it. A report does not name its node, so that no node can report
for another.

What a check newly needs is a field here (then `scripts/docs` writes the CRD), of `NodeExcerpt` in `doctor/across`, in
`node/sync/host_report.py` and in `cluster/controller/excerpts.py`. Its check takes linear time: a controller compares
12,500 nodes.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from trackbed.fabric.bounds import MAX_RAILS

MAX_ITEMS = 512
"""Largest number of MAC addresses, of addresses and of RDMA devices in a report."""
MAX_CHARACTERS = 128
MAX_REPORT_BYTES = 1 << 16
"""Longest report, as JSON. 64 rails without VFs have 20 KB."""

_PRINTABLE = {"pattern": r"^[ !#-\[\]-~]*$"}
"""Printable ASCII without quote and backslash, since terminals show it. The API server checks each text."""
_Rail = Annotated[int, Meta(ge=0, le=MAX_RAILS - 1)]
_Text = Annotated[str, Meta(max_length=MAX_CHARACTERS, extra_json_schema=_PRINTABLE)]
_Value = Annotated[str, Meta(max_length=64, extra_json_schema=_PRINTABLE)]
"""A MAC address (of 20 bytes on IPoIB), a GUID, an IP address or a digest."""


class ReportedPort(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """A port that is on the host."""

    rail: _Rail
    """Rail of the port."""
    carrier: bool | UnsetType = UNSET
    """Whether the port has carrier; absent if it is administratively down."""


class ReportedMacs(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """The MAC addresses of a port and its VFs."""

    rail: _Rail
    """Rail of the port."""
    mac: _Value = ""
    """MAC address of the port; absent if it has none."""
    vfs: Annotated[tuple[_Value, ...], Meta(max_length=MAX_ITEMS)] = ()
    """MAC addresses of the VFs, by index; empty for a VF without one."""


class ReportedAddress(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An address of the rails' ranges on the host."""

    address: _Value
    """The address, without a prefix length."""
    netdev: _Text
    """Interface of the address."""


class ReportedIdentity(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Names by which the host is known to others."""

    host_name: _Text | UnsetType = UNSET
    """Host name; absent if the host has none."""
    machine_id_digest: _Value | UnsetType = UNSET
    """Digest of /etc/machine-id, which is confidential (machine-id(5)); absent if the host has none."""


class ReportedDevice(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A hardware RDMA device."""

    guid: _Value
    """Node GUID."""
    name: _Text
    """Name of the device, such as mlx5_0."""


class ReportedFirmware(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A firmware version, and the ports whose NICs have it."""

    model: _Text
    """PCI vendor and device ids."""
    version: _Text
    """Firmware version."""
    rails: Annotated[tuple[_Rail, ...], Meta(max_length=MAX_RAILS)]
    """Rails of the ports."""


class ReportedPosition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A rail, its RDMA device, and the position of its port in the node's ports sorted by PCI address."""

    rail: _Rail
    """Rail of the port."""
    rdma: _Text
    """Name of the RDMA device; empty if the port has none."""
    position: _Rail
    """Position of the port, from 0."""


class ReportedOrder(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The order of a node's rails."""

    hardware_digest: _Value
    """Digest of the NICs and their PCI addresses; equal on nodes with the same NICs in the same slots."""
    positions: Annotated[tuple[ReportedPosition, ...], Meta(max_length=MAX_RAILS)]
    """Positions of the rails."""


class ReportedCable(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A port, and the leaf and its port that LLDP reports."""

    rail: _Rail
    """Rail of the port."""
    leaf: _Text
    """System name or chassis id of the leaf."""
    leaf_port: _Text
    """Port of the leaf."""


class NodeReport(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """What the agent read of its host for comparisons with other nodes. A part that was not read is absent."""

    reached_hash: str = ""
    """Digest of the plan that the host had reached; addresses are compared only if it is the current plan."""
    ports: Annotated[tuple[ReportedPort, ...], Meta(max_length=MAX_RAILS)] | UnsetType = UNSET
    """Ports on the host."""
    macs: Annotated[tuple[ReportedMacs, ...], Meta(max_length=MAX_RAILS)] | UnsetType = UNSET
    """MAC addresses of ports and VFs."""
    addresses: Annotated[tuple[ReportedAddress, ...], Meta(max_length=MAX_ITEMS)] | UnsetType = UNSET
    """Addresses of the rails' ranges."""
    identity: ReportedIdentity | UnsetType = UNSET
    """Names of the host."""
    devices: Annotated[tuple[ReportedDevice, ...], Meta(max_length=MAX_ITEMS)] | UnsetType = UNSET
    """Hardware RDMA devices."""
    firmware: Annotated[tuple[ReportedFirmware, ...], Meta(max_length=MAX_RAILS)] | UnsetType = UNSET
    """Firmware versions of the NICs."""
    driver: _Text | UnsetType = UNSET
    """Version of the loaded mlx5_core; empty if it is not loaded."""
    rail_order: Annotated[tuple[ReportedOrder, ...], Meta(max_length=1)] | UnsetType = UNSET
    """Order of the rails; empty if the ports are not on a PCI bus."""
    cables: Annotated[tuple[ReportedCable, ...], Meta(max_length=MAX_RAILS)] | UnsetType = UNSET
    """Ports at which LLDP was heard."""


class ReportError(ValueError):
    """A report that cannot be decoded; the message says why."""


_decode = msgspec.json.Decoder(NodeReport).decode


def decode_report(report_json: bytes) -> NodeReport:
    """Decode a report. Raises ReportError.

    A text with a character that needs an escape in JSON is refused as a whole, at a tenth of the time that a pattern
    for each text takes.
    """
    if len(report_json) > MAX_REPORT_BYTES:
        raise ReportError(f"it has more than {MAX_REPORT_BYTES} bytes")
    if not report_json.isascii() or b"\\" in report_json:
        raise ReportError("a text in it has unprintable characters, quotes or backslashes")
    try:
        return _decode(report_json)
    except msgspec.MsgspecError as error:
        raise ReportError(str(error)) from error
