"""igb: Intel 82576 and I350 (drivers/net/ethernet/intel/igb), the NIC of emulated servers; its VFs are igbvf's."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar

from tests.drivers.port import ETH_P_8021Q, SETTINGS, Port, Vf, is_multicast, is_valid
from tests.drivers.rules import Rule

_MAIN = "drivers/net/ethernet/intel/igb/igb_main.c"


@dataclass
class Igb(Port):
    """A port without DCB and RDMA."""

    driver: ClassVar[str] = "igb"
    module: ClassVar[str] = "igb"
    vf_module: ClassVar[str] = "igbvf"
    ids: ClassVar[tuple[str, str, str]] = ("0x8086", "0x10c9", "0x10ca")
    vf_settings: ClassVar[frozenset[str]] = SETTINGS - {"link_state"}
    vf_reports: ClassVar[frozenset[str]] = frozenset({"spoof_check", "trust"})
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("no DCB: EOPNOTSUPP", _MAIN, "igb_netdev_ops, without dcbnl_ops"),
        Rule("at most 7 VFs, and sriov_totalvfs says so", _MAIN, "igb_probe_vfs"),
        Rule("a VF begins with address 0, spoof check on, no trust", _MAIN, "igb_vf_configure"),
        Rule("a multicast address of a VF: EINVAL; 0 lets it use its own", _MAIN, "igb_ndo_set_vf_mac"),
        Rule("the VF's driver takes the address when it is loaded", _MAIN, "igb_vf_reset_msg"),
        Rule("no link state of a VF: EOPNOTSUPP", _MAIN, "igb_netdev_ops"),
        Rule("a VLAN of another protocol than 802.1Q: EPROTONOSUPPORT", _MAIN, "igb_ndo_set_vf_vlan"),
        Rule("a least rate: EINVAL", _MAIN, "igb_ndo_set_vf_bw"),
    )

    total_vfs: int = 7

    def make_vf(self, number: int) -> Vf:
        """Return a VF with spoof check on."""
        return Vf(number, spoof_check=True)

    def check_vf(self, number: int, name: str, value: object) -> int:
        """Refuse what no VF may have."""
        if name == "rates" and isinstance(value, tuple) and value[0]:
            return -errno.EINVAL
        if code := super().check_vf(number, name, value):
            return code
        if name == "vlan" and isinstance(value, tuple) and value[2] != ETH_P_8021Q:
            return -errno.EPROTONOSUPPORT
        return -errno.EINVAL if name == "mac" and is_multicast(value) else 0

    def report_vf(self, number: int) -> Vf:
        """Report the address that was set, else the VF's own (igb_set_vf_mac keeps both in one place)."""
        vf = self.vfs[number]
        return Vf(**{**vars(vf), "mac": vf.mac if is_valid(vf.mac) else vf.interface_mac})
