"""mlx5: ConnectX and BlueField (drivers/net/ethernet/mellanox/mlx5/core), as an Ethernet or an InfiniBand port."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tests.drivers.port import ETH_P_8021Q, NO_ETS, SETTINGS, ZERO_MAC, Port, Vf, is_multicast
from tests.drivers.rules import Rule
from trackbed.kernel.netlink.dcb import (
    DCB_CAP_DCBX_HOST,
    DCB_CAP_DCBX_LLD_MANAGED,
    DCB_CAP_DCBX_VER_IEEE,
    IEEE_8021QAZ_APP_SEL_DSCP,
    IEEE_8021QAZ_TSA_ETS,
    App,
    EightInts,
    Ets,
    Pfc,
)

_CORE = "drivers/net/ethernet/mellanox/mlx5/core/"
_DCB, _ESWITCH, _LEGACY = _CORE + "en_dcbnl.c", _CORE + "eswitch.c", _CORE + "esw/legacy.c"
_ACL, _SRIOV, _MAIN = _CORE + "esw/acl/ingress_lgcy.c", _CORE + "sriov.c", _CORE + "en_main.c"
_VIRT, _IPOIB = "drivers/infiniband/hw/mlx5/ib_virt.c", "drivers/infiniband/ulp/ipoib/ipoib_main.c"

_VER_CEE, _ETS_SHAPER, _VENDOR = 0x04, 1, 255
_DSCPS = 64
_DOWN = 2
"""IFLA_VF_LINK_STATE_DISABLE."""


@dataclass
class Mlx5(Port):
    """An Ethernet port; in `dpu_mode` the embedded switch belongs to the BlueField's own processors."""

    driver: ClassVar[str] = "mlx5_core"
    module: ClassVar[str] = "mlx5_core"
    vf_module: ClassVar[str] = "mlx5_core"
    ids: ClassVar[tuple[str, str, str]] = ("0x15b3", "0x1021", "0x101e")
    rdma_prefix: ClassVar[str] = "mlx5_"
    vf_settings: ClassVar[frozenset[str]] = SETTINGS
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "a VF begins with address 0, no spoof check, no trust and link state auto",
            _ESWITCH,
            "mlx5_esw_vport_alloc",
            "011d133bb988",
        ),
        Rule(
            "spoof check lets the address set through the PF pass and drops the rest, also where it is 0",
            _ACL,
            "esw_acl_ingress_lgcy_setup",
        ),
        Rule(
            "address 0 with spoof check on is taken with a warning in the log",
            _LEGACY,
            "mlx5_eswitch_set_vport_spoofchk",
            "01dd74246c75",
        ),
        Rule("a multicast address of a VF: EINVAL", _ESWITCH, "mlx5_esw_set_vport_mac_locked", "011d133bb988"),
        Rule("the address gives the VF's node GUID: ff:fe in its middle", _ESWITCH, "node_guid_gen_from_mac"),
        Rule(
            "a VF's interface takes the address that stands when its driver takes the VF, else one at random",
            _MAIN,
            "mlx5e_set_netdev_dev_addr",
        ),
        Rule("DPU mode: spoof check is refused, EPERM", _LEGACY, "mlx5_eswitch_set_vport_spoofchk", "01dd74246c75"),
        Rule("DPU mode: trust is refused, EPERM", _LEGACY, "mlx5_eswitch_set_vport_trust", "01dd74246c75"),
        Rule(
            "DPU mode: VLAN and rates are refused, EPERM", _LEGACY, "mlx5_eswitch_set_vport_vlan, _rate", "01dd74246c75"
        ),
        Rule("DPU mode: link state is refused, EPERM", _ESWITCH, "mlx5_eswitch_set_vport_state", "011d133bb988"),
        Rule("DPU mode: the address is taken", _ESWITCH, "mlx5_eswitch_set_vport_mac", "011d133bb988"),
        Rule("removing the VFs forgets address, spoof check and trust", _ESWITCH, "mlx5_eswitch_clear_vf_vports_info"),
        Rule("a VLAN of another protocol than 802.1Q: EPROTONOSUPPORT", _MAIN, "mlx5e_set_vf_vlan"),
        Rule("ETS: shares of the classes with ETS add up to 100, else EINVAL", _DCB, "mlx5e_dbcnl_validate_ets"),
        Rule("ETS: the credit based shaper is refused, EOPNOTSUPP", _DCB, "mlx5e_dbcnl_validate_ets"),
        Rule("ETS reads back shares, algorithms and classes, the rest as 0", _DCB, "mlx5e_dcbnl_ieee_getets"),
        Rule(
            "ETS begins as vendor's choice, priority 0 in class 1 and 1 in class 0, at each start of the driver",
            _DCB,
            "mlx5e_ets_init",
        ),
        Rule("APP: selectors other than DSCP: EINVAL", _DCB, "mlx5e_dcbnl_ieee_setapp"),
        Rule("APP: the first DSCP makes the port trust DSCP", _DCB, "mlx5e_dcbnl_ieee_setapp"),
        Rule(
            "APP: a codepoint has one priority, a new entry takes the place of the old one",
            _DCB,
            "mlx5e_dcbnl_ieee_setapp",
        ),
        Rule("APP: deleting the last DSCP makes the port trust PCP again", _DCB, "mlx5e_dcbnl_ieee_delapp"),
        Rule("APP: deleting an entry that the hardware has otherwise: ENOENT", _DCB, "mlx5e_dcbnl_ieee_delapp"),
        Rule(
            "APP: a port that trusts DSCP lists all 64 codepoints when its driver starts", _DCB, "mlx5e_dcbnl_dscp_app"
        ),
        Rule(
            "the table is flushed with the interface, trust and mapping stay in the hardware",
            _DCB,
            "mlx5e_dcbnl_ieee_setapp",
        ),
        Rule("DCBX: host is taken; managed by the driver, or nobody: refused", _DCB, "mlx5e_dcbnl_setdcbx"),
        Rule("DCBX: 0 gives it to the firmware", _DCB, "mlx5e_dcbnl_setdcbx"),
    )

    dpu_mode: bool = False
    cap: int = _VER_CEE | DCB_CAP_DCBX_VER_IEEE | DCB_CAP_DCBX_HOST
    ets: Ets = NO_ETS
    paused: frozenset[int] = frozenset()
    priorities: list[int] = field(default_factory=lambda: [0] * _DSCPS)
    """Of each codepoint, in the hardware."""
    trusts_dscp: bool = False
    dscp_entries: int = 0

    def __post_init__(self) -> None:
        """Start the driver."""
        self.start()

    def start(self) -> None:
        """Do what the driver does at each start: ETS anew; PFC, trust and mapping are the hardware's."""
        classes: EightInts = (1, 0, 2, 3, 4, 5, 6, 7)
        self.ets = NO_ETS._replace(algorithms=(_VENDOR,) * 8, classes=classes)
        self.vfs.clear()
        self.apps.clear()
        self.dscp_entries = 0
        if self.trusts_dscp:
            self.apps = [App(IEEE_8021QAZ_APP_SEL_DSCP, dscp, self.priorities[dscp]) for dscp in range(_DSCPS)]
            self.dscp_entries = _DSCPS

    @property
    def has_dcb(self) -> bool:
        """Whether this port manages its virtual ports: the host's does, also in DPU mode."""
        return True

    @property
    def dcbx(self) -> int:
        """Return what was set, or found."""
        return self.cap

    def get_ets(self) -> Ets:
        """Report ETS."""
        return self.ets

    def set_ets(self, ets: Ets) -> int:
        """Set ETS."""
        if any(number >= len(ets.classes) for number in ets.classes):
            return -errno.EINVAL
        if _ETS_SHAPER in ets.algorithms:
            return -errno.EOPNOTSUPP
        shares = [
            share
            for share, algorithm in zip(ets.tx_bandwidth, ets.algorithms, strict=True)
            if algorithm == IEEE_8021QAZ_TSA_ETS
        ]
        if shares and sum(shares) != 100:
            return -errno.EINVAL
        tx = tuple(
            share if algorithm == IEEE_8021QAZ_TSA_ETS else 0
            for share, algorithm in zip(ets.tx_bandwidth, ets.algorithms, strict=True)
        )
        self.ets = Ets._make((*NO_ETS[:3], tx, NO_ETS.rx_bandwidth, ets.algorithms, ets.classes, *NO_ETS[7:]))
        return 0

    def get_pfc(self) -> Pfc:
        """Report PFC; the delay is the cable's length."""
        return Pfc(8, self.paused, delay=7)

    def set_pfc(self, pfc: Pfc) -> int:
        """Set PFC."""
        self.paused = pfc.priorities
        return 0

    def set_dcbx(self, mode: int) -> int:
        """Set who negotiates."""
        if mode & DCB_CAP_DCBX_LLD_MANAGED:
            return 1
        if not mode:
            self.cap &= ~DCB_CAP_DCBX_HOST
            return 0
        if not mode & DCB_CAP_DCBX_HOST:
            return 1
        self.cap = mode
        return 0

    def add_app(self, app: App) -> int:
        """Map a codepoint."""
        if app.selector != IEEE_8021QAZ_APP_SEL_DSCP or app.protocol >= _DSCPS:
            return -errno.EINVAL
        before = app._replace(priority=self.priorities[app.protocol])
        self.trusts_dscp = True
        self.priorities[app.protocol] = app.priority
        is_new = bool(self.drop_app(before))
        code = self.keep_app(app)
        if code == 0 and is_new:
            self.dscp_entries += 1
        return code

    def delete_app(self, app: App) -> int:
        """Take a codepoint's mapping away."""
        if app.selector != IEEE_8021QAZ_APP_SEL_DSCP or app.protocol >= _DSCPS:
            return -errno.EINVAL
        if not self.dscp_entries or app.priority != self.priorities[app.protocol]:
            return -errno.ENOENT
        code = self.drop_app(app)
        if code == 0:
            self.priorities[app.protocol] = 0
            self.dscp_entries -= 1
            self.trusts_dscp = self.dscp_entries > 0
        return code

    def set_vf(self, number: int, name: str, value: object) -> int:
        """Change a setting; an address brings its node GUID along."""
        code = super().set_vf(number, name, value)
        if not code and name == "mac":
            mac = self.vfs[number].mac
            self.vfs[number].node_guid = int.from_bytes(mac[:3] + b"\xff\xfe" + mac[3:], "big")
        return code

    def check_vf(self, number: int, name: str, value: object) -> int:
        """Refuse what the host may not set in DPU mode, and what no VF may have."""
        if name == "mac":
            return -errno.EINVAL if is_multicast(value) else super().check_vf(number, name, value)
        if name == "vlan" and isinstance(value, tuple) and value[2] != ETH_P_8021Q:
            return -errno.EPROTONOSUPPORT
        return -errno.EPERM if self.dpu_mode else super().check_vf(number, name, value)

    def take_vf(self, vf: Vf) -> None:
        """Take the address and the node GUID that stand now."""
        super().take_vf(vf)
        vf.interface_node_guid = vf.node_guid

    def passes(self, number: int, source: bytes) -> bool:
        """Compare with the address that was set through the PF, whatever the interface has."""
        vf = self.vfs[number]
        return not vf.spoof_check or source == vf.mac


@dataclass
class Mlx5InfiniBand(Mlx5):
    """An InfiniBand port: its interface is IPoIB's, its VFs have GUIDs instead of addresses."""

    ids: ClassVar[tuple[str, str, str]] = ("0x15b3", "0x1021", "0x101e")
    infiniband: ClassVar[bool] = True
    vf_settings: ClassVar[frozenset[str]] = frozenset({"link_state", "node_guid", "port_guid"})
    vf_reports: ClassVar[frozenset[str]] = frozenset({"link_state"})
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("a VF has no address, VLAN, rate, spoof check or trust: EOPNOTSUPP", _IPOIB, "ipoib_netdev_ops_pf"),
        Rule("the list gives every VF the PF's own address", _IPOIB, "ipoib_get_vf_config"),
        Rule(
            "node GUID, port GUID and link state are set through the PF",
            _VIRT,
            "mlx5_ib_set_vf_guid, mlx5_ib_set_vf_link_state",
        ),
        Rule("GUIDs and link state outlive the VFs", _SRIOV, "sriov_restore_guids"),
        Rule("no DCB: EOPNOTSUPP", "net/dcb/dcbnl.c", "dcb_doit"),
    )

    kept: dict[int, Vf] = field(default_factory=dict)

    @property
    def has_dcb(self) -> bool:
        """IPoIB's interface has none."""
        return False

    def set_vf_count(self, count: int) -> int:
        """Create VFs with the GUIDs they had."""
        self.kept.update({vf.number: vf for vf in self.vfs})
        return super().set_vf_count(count)

    def make_vf(self, number: int) -> Vf:
        """Return a VF that is down until somebody says otherwise."""
        if number in self.kept:
            return replace(self.kept[number])
        return Vf(number, link_state=_DOWN)

    def take_vf(self, vf: Vf) -> None:
        """Take the GUIDs that stand now; the interface's address is IPoIB's."""
        vf.bound = True
        vf.interface_mac = ZERO_MAC
        vf.interface_node_guid = vf.node_guid

    def passes(self, number: int, source: bytes) -> bool:  # noqa: ARG002 - a frame of InfiniBand has none
        """Tell whether the VF has a port at all: one with GUIDs that is not down."""
        vf = self.vfs[number]
        return vf.link_state != _DOWN and bool(vf.port_guid)
