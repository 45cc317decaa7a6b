"""PCIe settings of the ports that decide about bandwidth, and whether all rails run one firmware."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import DEVICES, NVIDIA_NIC, is_virtual, iter_functions, read_attribute
from trackbed.host.snapshot import pci as pcie
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

READS = Wanted(files=(f"{DEVICES}/{{pci}}/config", f"{DEVICES}/{{pci}}/infiniband/*/fw_ver"))

READ_REQUEST_BYTES = 4096
"""What NVIDIA's profiles for its NICs set; with 512 each read of a wide link waits for eight requests."""
_WIDE, _FAST = 8, 8.0
"""Lanes and GT/s from which on the size of requests matters: a PCIe 3.0 x8 link carries 50 Gb/s."""


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port; in a virtual machine the registers are the hypervisor's to set."""
    for port, pci in iter_functions(view, host):
        if read_attribute(host, pci, "vendor") == NVIDIA_NIC and not is_virtual(host):
            yield from _requests(view, host, port, pci)
        yield from _version(view, host, port, pci)


def _requests(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    path = f"{DEVICES}/{pci}/config"
    config = host.content(path)
    if not isinstance(config, bytes):
        return
    found = pcie.express(config)
    if found is None:
        if not pcie.readable(config):
            for fault_id in ("fw-max-read-request-small", "fw-relaxed-ordering-off"):
                yield judge(fault_id, view.node, port, ok=None, evidence=f"{path} can be read by root only")
        return
    if found.max_width >= _WIDE and found.max_speed >= _FAST:
        size = found.max_read_request_bytes
        evidence = f"{pci}: MaxReadReq {size} bytes"
        yield judge("fw-max-read-request-small", view.node, port, ok=size >= READ_REQUEST_BYTES, evidence=evidence)
    evidence = f"{pci}: DevCtl RlxdOrd{'+' if found.relaxed_ordering else '-'}"
    yield judge("fw-relaxed-ordering-off", view.node, port, ok=found.relaxed_ordering, evidence=evidence)


def _version(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Compared with all ports of the same device id, of this node and of those that were looked at together with it."""
    kind, own = _kind(host, pci), _firmware(host, pci)
    if own is None:
        return
    hosts = [(view, host), *((peer, peer.host) for peer in view.peers or () if peer.host is not None)]
    seen = Counter(
        version
        for other, theirs in hosts
        for _, function in iter_functions(other, theirs)
        if _kind(theirs, function) == kind and (version := _firmware(theirs, function))
    )
    common, count = max(seen.items(), key=lambda pair: (pair[1], pair[0]))
    evidence = f"{pci}: {own}" if len(seen) == 1 else f"{pci}: {own}, {count} of {seen.total()} ports have {common}"
    yield judge("fw-version-mixed", view.node, port, ok=own == common, evidence=evidence)


def _kind(host: Snapshot, pci: str) -> tuple[str | None, str | None]:
    return read_attribute(host, pci, "vendor"), read_attribute(host, pci, "device")


def _firmware(host: Snapshot, pci: str) -> str | None:
    found = [text for path in host.glob(f"{DEVICES}/{pci}/infiniband/*/fw_ver") if (text := host.text(path))]
    return found[0] if found else None
