"""ROCm's order of AMD GPUs: that of the kernel's compute topology, independent of PCI addresses."""

from __future__ import annotations

from trackbed.host.discover.wanted import KFD
from trackbed.host.snapshot.snapshot import Snapshot


def read_kfd_order(snapshot: Snapshot) -> dict[str, int]:
    """Return PCI address -> index; empty without the compute part of the amdgpu driver."""
    nodes = sorted(snapshot.glob(f"{KFD}/*/properties"), key=lambda path: int(path.split("/")[-2]))
    gpus = [pci for path in nodes if (pci := _parse_address(snapshot.read_text(path) or ""))]
    return {pci: index for index, pci in enumerate(gpus)}


def _parse_address(properties: str) -> str | None:
    """The PCI address of a node that is a GPU (it has SIMD units): domain, and location_id = bus:device.function."""
    values = {words[0]: words[1] for words in map(str.split, properties.splitlines()) if len(words) > 1}
    if values.get("simd_count", "0") == "0" or not values.get("location_id", "").isdigit():
        return None
    location, domain = int(values["location_id"]), int(values.get("domain", "0"))
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
