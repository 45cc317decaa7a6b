"""Drivers that have less: ionic (AMD Pensando) has VFs and no DCB, efa (Amazon) has neither of its own."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar

from tests.drivers.port import SETTINGS, Port, is_multicast
from tests.drivers.rules import Rule

_IONIC = "drivers/net/ethernet/pensando/ionic/"
_EFA = "drivers/infiniband/hw/efa/efa_main.c"


@dataclass
class Ionic(Port):
    """A port of a Pensando DSC; Linux 6.1 has no RDMA driver for it."""

    driver: ClassVar[str] = "ionic"
    module: ClassVar[str] = "ionic"
    vf_module: ClassVar[str] = "ionic"
    ids: ClassVar[tuple[str, str, str]] = ("0x1dd8", "0x1002", "0x1003")
    vf_settings: ClassVar[frozenset[str]] = SETTINGS
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("no DCB: EOPNOTSUPP", _IONIC + "ionic_lif.c", "ionic_netdev_ops, without dcbnl_ops"),
        Rule("VFs are created through sriov_numvfs", _IONIC + "ionic_bus_pci.c", "ionic_sriov_configure"),
        Rule("a multicast address of a VF: EINVAL", _IONIC + "ionic_lif.c", "ionic_set_vf_mac"),
        Rule("spoof check and trust are taken", _IONIC + "ionic_lif.c", "ionic_set_vf_spoofchk, ionic_set_vf_trust"),
    )

    def check_vf(self, number: int, name: str, value: object) -> int:
        """Refuse what no VF may have."""
        return -errno.EINVAL if name == "mac" and is_multicast(value) else super().check_vf(number, name, value)


@dataclass
class Efa(Port):
    """An Elastic Fabric Adapter: an RDMA device without an interface, itself a VF that nobody divides."""

    driver: ClassVar[str] = "efa"
    module: ClassVar[str] = "efa"
    ids: ClassVar[tuple[str, str, str]] = ("0x1d0f", "0xefa1", "0x0000")
    rdma_prefix: ClassVar[str] = "efa_"
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("no interface, and so no DCB and no VFs to set", _EFA, "efa_ib_device_add"),
        Rule("no sriov_configure: sriov_numvfs answers ENOENT", _EFA, "efa_pci_driver"),
        Rule("its RDMA device cannot leave its namespace: EOPNOTSUPP", _EFA, "efa_dev_ops"),
    )

    total_vfs: int = 0

    def set_vf_count(self, count: int) -> int:  # noqa: ARG002 - whatever it is
        """Refuse: the driver has no such function."""
        return -errno.ENOENT

    @property
    def can_move_rdma(self) -> bool:
        """Its driver has no disassociate_ucontext."""
        return False
