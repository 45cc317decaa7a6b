"""What a machine has, as values: NICs, GPUs, where they stand in the PCIe tree.

An inventory is what `trackbed discover -o json` prints and `trackbed init` reads again.
"""

from __future__ import annotations

import msgspec

FORMAT = "trackbed.dev/v1alpha1"


class Nic(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One function of a NIC."""

    pci: str
    """PCI address with its domain."""
    path: tuple[str, ...]
    """From the host bridge (pci0000:17) down to the function itself."""
    id: str
    """Vendor and device, as 15b3:1021."""
    model: str = ""
    """What the maker calls it; empty where the id is not known."""
    subsystem: str = ""
    netdev: str | None = None
    mac: str | None = None
    link: str = "ethernet"
    """ethernet or infiniband."""
    speed: int | None = None
    """Negotiated, in Mb/s; None while the link is down."""
    max_speed: int | None = None
    """What the model can do on a port, in Mb/s."""
    numa: int | None = None
    driver: str | None = None
    rdma: str | None = None
    firmware: str | None = None
    part: str | None = None
    """Part number out of the VPD."""
    label: str | None = None
    """What the mainboard calls it; an onboard device has one."""
    vfs: int | None = None
    """How many VFs it could have; None without SR-IOV."""
    pf: str | None = None
    """PCI address of the function a VF belongs to; None for a function of its own."""
    pcie: str | None = None
    """Negotiated PCIe link, as 32.0 GT/s x16."""
    default_route: bool = False
    """Whether the host's default route leads through it."""

    @property
    def card(self) -> str:
        """The card it is a function of: its address without the function."""
        return self.pci.rpartition(".")[0]

    @property
    def fastest(self) -> int:
        """The most it is known to do, in Mb/s; 0 where nothing is known."""
        return max(self.speed or 0, self.max_speed or 0)


class Gpu(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One GPU."""

    index: int
    """As nvidia-smi or ROCm counts; by PCI address where neither tells."""
    pci: str
    path: tuple[str, ...]
    id: str
    numa: int | None = None
    driver: str | None = None


class Inventory(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One machine."""

    host: str
    nics: tuple[Nic, ...]
    """By PCI address."""
    gpus: tuple[Gpu, ...] = ()
    """By index."""
    vendor: str = ""
    product: str = ""
    matrix: dict[str, dict[str, str]] = {}
    """nvidia-smi topo -m: PCI address of a GPU -> PCI address of a NIC -> PIX, PXB, PHB, NODE, SYS."""
    neighbours: dict[str, str] = {}
    """Interface -> switch and port, as LLDP told."""
    format: str = FORMAT
