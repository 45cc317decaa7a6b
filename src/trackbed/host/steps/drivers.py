"""Step drivers: the kernel modules of the planned NIC are loaded, now and at each boot.

    mlx5_core, mlx5_ib ...       the NIC's driver, for Ethernet and for RDMA, by its PCI ids (`nodes[].nic`)
    ib_uverbs, rdma_ucm          user space reaches RDMA devices (/dev/infiniband/uverbs*) and connects by rdma_cm
    ib_umad, ib_ipoib            on InfiniBand: subnet management tools, interfaces for IP
    ib_umad                      where pods share ports: the shared RDMA device plugin wants a umad file (v1.5.3)
    modules-load.d/90-trackbed.conf   the same at each boot (modules-load.d(5))

Without the RDMA module a port carries Ethernet only; without rdma_ucm pods get no /dev/infiniband/rdma_cm. rdma-core
loads them where it is installed (kernel-boot/modules of rdma-core v50), ib_umad for InfiniBand alone; a minimal host
does not. A module is often missing after a kernel update, until the vendor's driver is built for the new kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.kinds import file, module
from trackbed.host.setting import HEAD, Setting

STEP = "drivers"
HAS_FILES = True

_MODULES = (
    (r"15b3:.*", ("mlx5_core", "mlx5_ib")),
    (r"14e4:.*", ("bnxt_en", "bnxt_re")),
    (r"8086:(1248|1249|124[a-f]|126[1-6]|12d[0-9a-e]|151d|159[1-39ab]|188[8a-e]|189\d|579[c-f])", ("ice", "irdma")),
    (r"8086:(37c[c-f]|37d[0-3])", ("i40e", "irdma")),
    (r"1dd8:.*", ("ionic", "ionic_rdma")),
    (r"1d0f:efa.", ("efa",)),
)
"""PCI vendor and device -> modules, of drivers/net/ethernet and drivers/infiniband/hw in Linux 6.18.

Of Intel's NICs only those of ice (intel/ice/ice_devids.h) and X722 of i40e (intel/i40e/i40e_devids.h) have RDMA.
"""

_USER_SPACE = {"ethernet": ("ib_uverbs", "rdma_ucm"), "infiniband": ("ib_uverbs", "rdma_ucm", "ib_umad", "ib_ipoib")}
_SHARED_PORTS = ("ib_umad",)

_LOADERS = ("/usr/lib/systemd/systemd-modules-load", "/lib/systemd/systemd-modules-load")


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the modules of the NIC and their file; nothing if the NIC is unknown or not in the Fabric."""
    nic = (node.nic or "").lower()
    driver = next((modules for pattern, modules in _MODULES if re.fullmatch(pattern, nic)), None)
    if driver is None:
        return
    shared = _SHARED_PORTS if node.common.pod_mode == "macvlan" else ()
    names = tuple(dict.fromkeys((*driver, *_USER_SPACE[node.common.link_type], *shared)))
    for name in names:
        yield Setting(STEP, module.Want(name), None, f"the ports are NICs with PCI ids {nic}")
    content = HEAD + "".join(f"{name}\n" for name in names)
    want = file.Want(file.MODULES, content, _LOADERS, "there is no systemd-modules-load here")
    yield Setting(STEP, want, None, "the modules are loaded after a reboot, too")
