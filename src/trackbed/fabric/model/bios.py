"""Settings of a server's firmware setup, in vendor-neutral terms. Credentials are never stored here."""

import re
from typing import Literal

from pydantic import field_validator

from trackbed.fabric.model.model import FabricModel, make_error

_ADDRESS = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(?::([0-9]{1,5}))?")
_MAX_PORT = 65535

Switch = Literal["enabled", "disabled", "leave"]


class FirmwareSpec(FabricModel):
    """Parameters in the flash of NVIDIA's NICs: SR-IOV, number of VFs, link type.

    Example:
        parameters: write
    """

    parameters: Literal["leave", "write", "reset"] = "leave"
    """write: apply sets them, for the next reboot. reset: apply also resets the NICs, for a minute without ports.

    Default: apply shows the command. It runs mlxconfig (NVIDIA's MFT) or mstconfig (package mstflint).
    """


class BiosSpec(FabricModel):
    """Attributes of the firmware setup, read and staged through each host's BMC by `trackbed bios`.

    Example:
        bmc: bmc-{host}
        vendor: dell
        iommu: disabled
        sriov: enabled
        above4G: enabled
        acs: disabled
        aer: enabled
        hotPlug: disabled
        numaPerSocket: 2
    """

    bmc: str | None = None
    """Name or address of each host's BMC, as bmc-{host}; {host} is the host's name. HTTPS is always used."""
    vendor: Literal["dell", "hpe", "lenovo", "supermicro"] | None = None
    """Vendor whose attribute names are used. Default: by the manufacturer that the BMC reports."""
    iommu: Switch = "leave"
    """VT-d or AMD-Vi, which VFs in virtual machines need, and VFs in containers do not."""
    sriov: Switch = "enabled"
    """SR-IOV."""
    above_4_g: Switch = "leave"
    """Memory windows of PCI devices above 4 GiB."""
    acs: Switch = "leave"
    """PCIe access control services; on bare metal with GPUDirect they cost bandwidth. disabled: `trackbed apply` also
    turns their redirects off on the bridges between NIC and GPU, at once and at each boot."""
    aer: Switch = "leave"
    """PCIe advanced error reporting."""
    hot_plug: Switch = "leave"
    """PCIe hot plug."""
    numa_per_socket: Literal["1", "2", "4"] | None = None
    """NUMA nodes of a socket. Default: unchanged."""

    @field_validator("bmc")
    @classmethod
    def _check_template(cls, value: str | None) -> str | None:
        address = _ADDRESS.fullmatch((value or "h").replace("{host}", "h"))
        if address is None or not 0 < int(address[2] or 1) <= _MAX_PORT:
            raise make_error(
                "bad-bmc", f"{value!r} is no address of a BMC; write a name such as bmc-{{host}}, without https://"
            )
        return value

    def map_attributes(self) -> dict[str, str]:
        """Return the wanted value by attribute, without the attributes that are left unchanged."""
        fields = self.model_dump(by_alias=True, exclude={"bmc", "vendor"})
        return {name: value for name, value in fields.items() if value not in {None, "leave"}}
