"""Step drivers: the modules of the planned NIC are loaded, its RDMA half, too.

Wanted by the NIC's PCI vendor, which the Fabric names in `nodes[].nic`. Without the RDMA half a port carries Ethernet
and no RDMA; it is usually missing after a kernel update that the vendor's driver was not built for.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import module
from trackbed.host.setting import Setting

STEP = "drivers"
IS_RENDERED = False
HAS_FILES = False

_MODULES = {
    "15b3": ("mlx5_core", "mlx5_ib"),
    "14e4": ("bnxt_en", "bnxt_re"),
    "8086": ("ice", "irdma"),
}
"""PCI vendor -> modules (drivers/net/ethernet, drivers/infiniband/hw)."""


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the modules of the NIC's vendor; nothing where the vendor is unknown or not named in the Fabric."""
    vendor = (node.nic or "").partition(":")[0]
    for name in (*_MODULES.get(vendor, ()), "ib_uverbs") if vendor in _MODULES else ():
        yield Setting(STEP, module.Want(name), None, f"the ports are NICs of PCI vendor {vendor}")
