"""Settings of a server's firmware setup, in vendor-neutral terms. Credentials are never stored here."""

import re
from typing import Literal

from pydantic import field_validator

from trackbed.fabric.model.model import FabricModel, make_error

_ADDRESS = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?")

Switch = Literal["enabled", "disabled", "leave"]


class BiosSpec(FabricModel):
    """Attributes of the firmware setup, read and staged through each host's BMC by `trackbed bios`."""

    bmc: str | None = None
    """Name or address of each host's BMC, as bmc-{host}; {host} is the host's name. HTTPS is always used."""
    vendor: Literal["dell", "hpe", "lenovo", "supermicro"] | None = None
    """Vendor whose attribute names are used. Default: by the manufacturer that the BMC reports."""
    iommu: Switch = "enabled"
    """VT-d or AMD-Vi."""
    sriov: Switch = "enabled"
    """SR-IOV."""
    above_4_g: Switch = "leave"
    """Memory windows of PCI devices above 4 GiB."""
    acs: Switch = "leave"
    """PCIe access control services; on bare metal with GPUDirect they cost bandwidth."""
    aer: Switch = "leave"
    """PCIe advanced error reporting."""
    hot_plug: Switch = "leave"
    """PCIe hot plug."""
    numa_per_socket: Literal["1", "2", "4"] | None = None
    """NUMA nodes of a socket. Default: unchanged."""

    @field_validator("bmc")
    @classmethod
    def _check_template(cls, value: str | None) -> str | None:
        if value is not None and not _ADDRESS.fullmatch(value.replace("{host}", "h")):
            raise make_error(
                "bad-bmc", f"{value!r} is no address of a BMC; write a name such as bmc-{{host}}, without https://"
            )
        return value

    def list_attributes(self) -> dict[str, str]:
        """Return the configured value of each attribute, without those to leave alone."""
        fields = self.model_dump(by_alias=True, exclude={"bmc", "vendor"})
        return {name: value for name, value in fields.items() if value not in {None, "leave"}}
