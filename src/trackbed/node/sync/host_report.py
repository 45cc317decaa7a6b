"""The report of a host for comparisons between nodes, made of doctor's excerpt: a pure function.

A part that the CRD does not admit, such as one with too many entries, is left out: it is unknown then. A shortened part
could pass, and a refused status would take the findings of the host with it.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec
from msgspec import UNSET

from trackbed.cluster.resources.node_report import (
    MAX_CHARACTERS,
    MAX_REPORT_BYTES,
    NodeReport,
    ReportedAddress,
    ReportedCable,
    ReportedDevice,
    ReportedFirmware,
    ReportedIdentity,
    ReportedMacs,
    ReportedOrder,
    ReportedPort,
    ReportedPosition,
)
from trackbed.doctor.across.excerpt import (
    HOST_NAME,
    MACHINE_ID,
    FirmwareVersion,
    HeldMac,
    NodeExcerpt,
    PortExcerpt,
    RailOrder,
)

_DIGEST_BYTES = 16
_DIGEST_KEY = b"trackbed.dev/node-report"
"""Key of digests, so that they equal those of no other program (machine-id(5))."""
_UNREPORTABLE = re.compile(r"[^ !#-\[\]-~]")
"""Characters that the CRD refuses: all but printable ASCII, and quote and backslash."""


def build_report(excerpt: NodeExcerpt, reached_hash: str) -> NodeReport:
    """Return the report of a host; `reached_hash` is the digest of the plan that the host has reached."""
    incomplete = excerpt.gaps.keys() - {"cables"}  # ports without a cable show where LLDP was not heard
    parts = {
        name: part
        for name, part in _iter_parts(excerpt)
        if part is not None and name not in incomplete and _is_admitted(name, part)
    }
    while len(msgspec.json.encode(NodeReport(reached_hash, **parts))) > MAX_REPORT_BYTES:
        del parts[max(parts, key=lambda name: len(msgspec.json.encode(parts[name])))]
    return NodeReport(reached_hash, **parts)


def _is_admitted(name: str, part: object) -> bool:
    """Return whether a part keeps to the limits of the report's types, which are those of the CRD."""
    report = msgspec.to_builtins(NodeReport(**{name: part}))  # type: ignore[arg-type] # the name decides the type
    try:
        msgspec.convert(report, NodeReport)
    except msgspec.ValidationError:
        return False
    return True


def _iter_parts(excerpt: NodeExcerpt) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of each part; None if it was not read."""
    yield "ports", excerpt.ports and tuple(map(_build_port, excerpt.ports))
    yield "macs", excerpt.macs and tuple(_iter_macs(excerpt.macs))
    yield (
        "addresses",
        excerpt.addresses and tuple(ReportedAddress(held.text, _clean_text(held.netdev)) for held in excerpt.addresses),
    )
    yield "identity", None if excerpt.identity is None else _build_identity(dict(excerpt.identity))
    yield (
        "devices",
        excerpt.guids and tuple(ReportedDevice(_clean_text(guid), _clean_text(name)) for guid, name in excerpt.guids),
    )
    yield "firmware", excerpt.firmware and tuple(_iter_firmware(excerpt.firmware))
    yield "driver", excerpt.driver and _clean_text(excerpt.driver)
    yield "rail_order", excerpt.rail_order and tuple(map(_build_order, excerpt.rail_order))
    yield (
        "cables",
        excerpt.cables
        and tuple(
            ReportedCable(cable.rail, _clean_text(cable.leaf), _clean_text(cable.leaf_port)) for cable in excerpt.cables
        ),
    )


def _build_port(port: PortExcerpt) -> ReportedPort:
    return ReportedPort(port.rail, UNSET if port.has_carrier is None else port.has_carrier)


def _iter_macs(macs: Iterable[HeldMac]) -> Iterator[ReportedMacs]:
    """Yield the MAC addresses by rail; the position of a VF's is its index."""
    for rail, holders in groupby(macs, key=lambda held: held.rail):
        by_vf = {held.vf: held.mac for held in holders}
        count = max((vf for vf in by_vf if vf is not None), default=-1) + 1
        yield ReportedMacs(rail, by_vf.get(None, ""), tuple(by_vf.get(vf, "") for vf in range(count)))


def _build_identity(files: Mapping[str, str]) -> ReportedIdentity:
    name, machine_id = files.get(HOST_NAME), files.get(MACHINE_ID)
    return ReportedIdentity(
        UNSET if name is None else _clean_text(name), UNSET if machine_id is None else _build_digest(machine_id)
    )


def _iter_firmware(versions: Iterable[FirmwareVersion]) -> Iterator[ReportedFirmware]:
    rails: dict[tuple[str, str], list[int]] = {}
    for firmware in versions:
        rails.setdefault((_clean_text(firmware.model), _clean_text(firmware.version)), []).append(firmware.rail)
    yield from (ReportedFirmware(model, version, tuple(ports)) for (model, version), ports in rails.items())


def _build_order(order: RailOrder) -> ReportedOrder:
    positions = (
        ReportedPosition(position.rail, _clean_text(position.rdma), position.position) for position in order.positions
    )
    return ReportedOrder(_build_digest(order.hardware), tuple(positions))


def _build_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), key=_DIGEST_KEY, digest_size=_DIGEST_BYTES).hexdigest()


def _clean_text(text: str) -> str:
    """Return text that the CRD admits; what a leaf sends by LLDP may be anything."""
    return _UNREPORTABLE.sub("?", text)[:MAX_CHARACTERS]
