"""PCIe settings of the ports that limit bandwidth, and the firmware versions of the rails."""

from collections import Counter
from collections.abc import Iterator

from trackbed.doctor.across.excerpt import read_firmware_version
from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    NVIDIA_NIC,
    is_virtual,
    iter_pci_functions,
    read_device_id,
    read_pci_attribute,
)
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot import pci as pcie
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

READS = Wanted(files=(f"{DEVICES}/{{pci}}/config", f"{DEVICES}/{{pci}}/infiniband/*/fw_ver"))

READ_REQUEST_BYTES = 4096
"""Maximum read request size in NVIDIA's tuning profiles; with 512 bytes, reading 4096 bytes takes eight requests."""
_MIN_LANES, _MIN_SPEED = 8, 8.0
"""Lanes and GT/s from which the size of read requests is checked; such a link (PCIe 3.0 x8) carries 50 Gb/s."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port's registers and firmware version; in a virtual machine the hypervisor owns the registers."""
    for port, pci in iter_pci_functions(view, host):
        if read_pci_attribute(host, pci, "vendor") == NVIDIA_NIC and not is_virtual(host):
            yield from check_registers(view, host, port, pci)
        yield from check_firmware_version(view, host, port, pci)


def check_registers(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check the maximum read request size and relaxed ordering."""
    path = f"{DEVICES}/{pci}/config"
    config = host.read_bytes(path)
    if not isinstance(config, bytes):
        return
    express = pcie.read_express(config)
    if express is None:
        if not pcie.is_readable(config):
            for fault_id in ("fw-max-read-request-small", "fw-relaxed-ordering-off"):
                yield build_finding(fault_id, view.node, port, ok=None, evidence=f"{path} can be read by root only")
        return
    if express.max_width >= _MIN_LANES and express.max_speed >= _MIN_SPEED:
        size = express.max_read_request_bytes
        evidence = f"{pci}: MaxReadReq {size} bytes"
        yield build_finding(
            "fw-max-read-request-small", view.node, port, ok=size >= READ_REQUEST_BYTES, evidence=evidence
        )
    evidence = f"{pci}: DevCtl RlxdOrd{'+' if express.relaxed_ordering else '-'}"
    yield build_finding("fw-relaxed-ordering-off", view.node, port, ok=express.relaxed_ordering, evidence=evidence)


def check_firmware_version(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that the port has the most common firmware version of its NIC model on this node."""
    device_id, version = read_device_id(host, pci), read_firmware_version(host, pci)
    if version is None:
        return
    counts = Counter(
        other
        for _, function in iter_pci_functions(view, host)
        if read_device_id(host, function) == device_id and (other := read_firmware_version(host, function))
    )
    common, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    evidence = f"{pci}: {version}"
    evidence += "" if len(counts) == 1 else f", {count} of {counts.total()} ports have {common}"
    yield build_finding("fw-version-mixed", view.node, port, ok=version == common, evidence=evidence)
