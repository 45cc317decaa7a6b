"""Where ports sit: their NUMA node, their GPU, and ACS on the way between the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import (
    BUSES,
    DEVICES,
    NVIDIA_NIC,
    is_virtual,
    is_x86,
    iter_functions,
    list_accelerators,
    list_bridges,
    read_attribute,
)
from trackbed.host.snapshot import pci as registers
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

ONLINE = "/sys/devices/system/node/online"
READS = Wanted(files=(f"{DEVICES}/{{pci}}/numa_node", ONLINE, f"{BUSES}/*/device/config"))

_DATA_DIRECT = {(NVIDIA_NIC, "0x1023")}
"""ConnectX-8: the function that moves GPU data is not the one that the port is known by."""


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port's place."""
    several = (host.text(ONLINE) or "0") != "0"
    paired = is_x86(host) and not is_virtual(host)
    for port, pci in iter_functions(view, host):
        if several:
            yield from _numa(view, host, port, pci)
        if paired and _kind(host, pci) not in _DATA_DIRECT:
            yield from _beside(view, host, port, pci)


def _kind(host: Snapshot, pci: str) -> tuple[str | None, str | None]:
    return read_attribute(host, pci, "vendor"), read_attribute(host, pci, "device")


def _numa(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    node = read_attribute(host, pci, "numa_node")
    if node is not None:
        evidence = f"{DEVICES}/{pci}/numa_node is {node}, nodes {host.text(ONLINE)} are online"
        yield judge("bios-numa-node-unknown", view.node, port, ok=not node.startswith("-"), evidence=evidence)


def _beside(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    here = list_accelerators(host)
    gpus = [here[gpu] for gpu in port.gpus if gpu < len(here)]
    if not gpus:
        return
    own, above = list_bridges(host, pci), {gpu: list_bridges(host, gpu) for gpu in gpus}
    far = [gpu for gpu, theirs in above.items() if not set(own) & set(theirs)]
    evidence = f"no PCIe switch joins {pci} and GPU {', '.join(far)}" if far else f"{pci} and GPU {', '.join(gpus)}"
    yield judge("bios-nic-not-beside-gpu", view.node, port, ok=not far, evidence=evidence)
    between = sorted({one for theirs in above.values() for one in set(own) ^ set(theirs)})
    control = {one: registers.acs(_config(host, one)) for one in between}
    if any(registers.readable(_config(host, one)) for one in between):
        on = [f"{one} ACSCtl {value:#06x}" for one, value in control.items() if value and value & registers.REDIRECTS]
        yield judge("bios-acs-redirect-on", view.node, port, ok=not on, evidence=", ".join(on))
    elif between:
        yield judge("bios-acs-redirect-on", view.node, port, ok=None, evidence="config space can be read by root only")


def _config(host: Snapshot, bridge: str) -> bytes:
    """A bridge's configuration space, found by a bus below it; empty where it could not be read."""
    below = next((link for link in host.glob(f"{BUSES}/*/device") if host.target(link) == bridge), None)
    content = host.content(f"{below}/config") if below else None
    return content if isinstance(content, bytes) else b""
