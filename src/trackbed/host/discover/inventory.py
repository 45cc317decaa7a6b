"""The hardware of a machine: NICs, GPUs, and their places in the PCIe tree.

An inventory is what `trackbed discover -o json` prints and `trackbed init` reads again.
"""

import msgspec

from trackbed.fabric.gpus import GPU_RESOURCE, GPU_RESOURCES

FORMAT = "trackbed.dev/v1alpha1"


class Nic(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One function of a NIC."""

    pci: str
    """PCI address, including the domain."""
    path: tuple[str, ...]
    """PCIe path from the host bridge (pci0000:17) down to the function itself."""
    id: str
    """Vendor and device id, for example 15b3:1021."""
    model: str = ""
    """The name of the model; empty if the id is unknown."""
    subsystem: str = ""
    netdev: str | None = None
    mac: str | None = None
    link: str = "ethernet"
    """Link layer: ethernet or infiniband."""
    speed: int | None = None
    """Negotiated speed in Mb/s; None while the link is down."""
    max_speed: int | None = None
    """The highest speed of a port of this model in Mb/s; None if the model is unknown."""
    numa: int | None = None
    driver: str | None = None
    rdma: str | None = None
    firmware: str | None = None
    part: str | None = None
    """Part number from the VPD."""
    label: str | None = None
    """The mainboard's label of an onboard device."""
    vfs: int | None = None
    """The largest number of VFs; None without SR-IOV."""
    pf: str | None = None
    """PCI address of the physical function of a VF; None if this is not a VF."""
    pcie: str | None = None
    """Negotiated PCIe link, for example 32.0 GT/s x16."""
    default_route: bool = False
    """Whether the host's default route uses this NIC."""

    @property
    def card(self) -> str:
        """PCI address of the card, without the function."""
        return self.pci.rpartition(".")[0]

    @property
    def highest_speed(self) -> int:
        """The highest known speed in Mb/s; 0 if no speed is known."""
        return max(self.speed or 0, self.max_speed or 0)


class Gpu(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One GPU."""

    index: int
    """Index of the GPU in nvidia-smi or ROCm; if neither is known, its position in PCI address order."""
    pci: str
    path: tuple[str, ...]
    id: str
    numa: int | None = None
    driver: str | None = None


class Inventory(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The hardware of one machine."""

    host: str
    nics: tuple[Nic, ...]
    """In order of PCI address."""
    gpus: tuple[Gpu, ...] = ()
    """In order of index."""
    vendor: str = ""
    product: str = ""
    matrix: dict[str, dict[str, str]] = {}
    """nvidia-smi topo -m: PCI address of a GPU -> PCI address of a NIC -> PIX, PXB, PHB, NODE, SYS."""
    neighbours: dict[str, str] = {}
    """Interface -> switch and port, by LLDP."""
    format: str = FORMAT

    @property
    def gpu_resource(self) -> str:
        """The extended resource of the GPUs' device plugin, by the PCI vendor of the first."""
        return GPU_RESOURCES.get(self.gpus[0].id.partition(":")[0], GPU_RESOURCE) if self.gpus else GPU_RESOURCE
