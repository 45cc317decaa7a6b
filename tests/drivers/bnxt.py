"""bnxt_en: Broadcom Thor and its like (drivers/net/ethernet/broadcom/bnxt)."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import ClassVar

from tests.drivers.port import ETH_P_8021Q, IEEE_HOST, NO_ETS, SETTINGS, Port, Vf, is_multicast, is_valid
from tests.drivers.rules import Rule
from trackbed.kernel.netlink.dcb import (
    DCB_CAP_DCBX_HOST,
    DCB_CAP_DCBX_LLD_MANAGED,
    DCB_CAP_DCBX_VER_IEEE,
    IEEE_8021QAZ_APP_SEL_DSCP,
    IEEE_8021QAZ_TSA_ETS,
    IEEE_8021QAZ_TSA_STRICT,
    App,
    Ets,
    Pfc,
)

_FOLDER = "drivers/net/ethernet/broadcom/bnxt/"
_DCB, _SRIOV = _FOLDER + "bnxt_dcb.c", _FOLDER + "bnxt_sriov.c"
_RE = "drivers/infiniband/hw/bnxt_re/main.c"
_ENOTSUPP, _VER_CEE = 524, 0x04
_MAX_DSCP = 0x3F


@dataclass
class Bnxt(Port):
    """A port with `classes` traffic classes, `lossless` of which can be paused."""

    driver: ClassVar[str] = "bnxt_en"
    module: ClassVar[str] = "bnxt_en"
    vf_module: ClassVar[str] = "bnxt_en"
    ids: ClassVar[tuple[str, str, str]] = ("0x14e4", "0x1750", "0x1806")
    rdma_prefix: ClassVar[str] = "bnxt_re"
    vf_settings: ClassVar[frozenset[str]] = SETTINGS
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("PFC where nobody has set ETS: EINVAL", _DCB, "bnxt_hwrm_queue_pfc_cfg"),
        Rule(
            "PFC on priorities of more classes than the port has lossless queues: EINVAL",
            _DCB,
            "bnxt_hwrm_queue_pfc_cfg",
        ),
        Rule("ETS: a class beyond the port's: EINVAL", _DCB, "bnxt_ets_validate"),
        Rule(
            "ETS: other algorithms than strict and ETS: ENOTSUPP, which dcbnl cuts to a byte", _DCB, "bnxt_ets_validate"
        ),
        Rule("ETS: more than 100 percent, or 100 that leave a class none: EINVAL", _DCB, "bnxt_ets_validate"),
        Rule("ETS, PFC, APP while the firmware negotiates: EINVAL", _DCB, "bnxt_dcbnl_ieee_setets, _setpfc, _setapp"),
        Rule("DCBX that the NVRAM gave to the firmware cannot be changed: 1", _DCB, "bnxt_dcbnl_setdcbx"),
        Rule("DCBX: CEE, or host without IEEE: 1", _DCB, "bnxt_dcbnl_setdcbx"),
        Rule(
            "ETS and PFC are gone with the driver, and read as 0 until they are set",
            _DCB,
            "bnxt_dcb_free, bnxt_dcbnl_ieee_getets",
        ),
        Rule("DSCP on a firmware without it: ENOTSUPP; beyond 63: EINVAL", _DCB, "bnxt_dcbnl_ieee_dscp_app_prep"),
        Rule("VFs while the port is down: none, and the write succeeds", _SRIOV, "bnxt_sriov_configure"),
        Rule("a multicast address of a VF: EINVAL; 0 lets it use its own", _SRIOV, "bnxt_set_vf_mac"),
        Rule("a VF with an address of the PF may use no other unless it is trusted", _SRIOV, "bnxt_vf_configure_mac"),
        Rule("the list shows the VF's own address where the PF has set none", _SRIOV, "bnxt_get_vf_config"),
        Rule("a VLAN with a priority: EINVAL", _SRIOV, "bnxt_set_vf_vlan"),
        Rule("the node GUID follows from the interface's address", _RE, "bnxt_re_register_ib"),
        Rule(
            "RDMA devices of Linux 6.1 cannot leave their namespace: EOPNOTSUPP",
            _RE,
            "bnxt_re_dev_ops",
        ),
    )

    classes: int = 8
    lossless: int = 2
    firmware_lldp: bool = False
    """Whether the NVRAM gives LLDP and DCBX to the firmware."""
    has_dscp: bool = True
    can_release_users: bool = True
    """Whether bnxt_re has the function that Linux 6.1 lacks."""
    cap: int = 0
    ets: Ets | None = None
    paused: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        """Start the driver."""
        self.start()

    def start(self) -> None:
        """Do what the driver does at each start: nothing of DCB is kept."""
        self.ets, self.paused = None, frozenset()
        self.apps.clear()
        self.vfs.clear()
        self.cap = DCB_CAP_DCBX_VER_IEEE | DCB_CAP_DCBX_LLD_MANAGED if self.firmware_lldp else IEEE_HOST

    @property
    def has_dcb(self) -> bool:
        """Whether the firmware is newer than 1.5.1."""
        return True

    @property
    def dcbx(self) -> int:
        """Return what was found, or set."""
        return self.cap

    @property
    def _is_host(self) -> bool:
        return self.cap & IEEE_HOST == IEEE_HOST

    def get_ets(self) -> Ets:
        """Report ETS."""
        now = self.ets or NO_ETS
        return now._replace(capacity=self.classes, willing=False)

    def set_ets(self, ets: Ets) -> int:
        """Set ETS."""
        if not self._is_host:
            return -errno.EINVAL
        code = self._validate(ets)
        if code == 0:
            self.ets = ets
        return code

    def _validate(self, ets: Ets) -> int:
        if max(ets.classes) > self.classes:
            return -errno.EINVAL
        used = range(max(ets.classes))  # upstream looks at the classes below the highest one
        if any(ets.algorithms[number] not in {IEEE_8021QAZ_TSA_STRICT, IEEE_8021QAZ_TSA_ETS} for number in used):
            return -_ENOTSUPP
        shares = [ets.tx_bandwidth[number] for number in used if ets.algorithms[number] == IEEE_8021QAZ_TSA_ETS]
        if sum(shares) > 100 or (0 in shares and sum(shares) == 100):
            return -errno.EINVAL
        return 0

    def get_pfc(self) -> Pfc:
        """Report PFC."""
        return Pfc(self.lossless, self.paused)

    def set_pfc(self, pfc: Pfc) -> int:
        """Set PFC."""
        if not self._is_host or self.ets is None:
            return -errno.EINVAL
        if len({self.ets.classes[priority] for priority in pfc.priorities}) > self.lossless:
            return -errno.EINVAL
        self.paused = pfc.priorities
        return 0

    def set_dcbx(self, mode: int) -> int:
        """Set who negotiates."""
        if self.cap & DCB_CAP_DCBX_LLD_MANAGED:
            return 1
        if mode & DCB_CAP_DCBX_HOST and (self.firmware_lldp or mode & _VER_CEE or not mode & DCB_CAP_DCBX_VER_IEEE):
            return 1
        self.cap = mode
        return 0

    def _check_app(self, app: App) -> int:
        if not self._is_host:
            return -errno.EINVAL
        if app.selector != IEEE_8021QAZ_APP_SEL_DSCP:
            return 0
        if not self.has_dscp:
            return -_ENOTSUPP
        return -errno.EINVAL if app.protocol > _MAX_DSCP else 0

    def add_app(self, app: App) -> int:
        """Add an entry; those of one codepoint stand beside each other."""
        return self._check_app(app) or self.keep_app(app)

    def delete_app(self, app: App) -> int:
        """Delete an entry."""
        return self._check_app(app) or self.drop_app(app)

    def set_vf_count(self, count: int) -> int:
        """Create VFs while the port is up."""
        if not self.is_running():
            return 0
        return super().set_vf_count(count)

    def check_vf(self, number: int, name: str, value: object) -> int:
        """Refuse what no VF may have."""
        if name == "vlan" and isinstance(value, tuple) and value[2] != ETH_P_8021Q:
            return -errno.EPROTONOSUPPORT
        if code := super().check_vf(number, name, value):
            return code
        has_priority = name == "vlan" and isinstance(value, tuple) and value[1]
        return -errno.EINVAL if has_priority or (name == "mac" and is_multicast(value)) else 0

    def report_vf(self, number: int) -> Vf:
        """Report all settings."""
        vf = self.vfs[number]
        return vf if is_valid(vf.mac) else Vf(**{**vars(vf), "mac": vf.interface_mac})

    @property
    def can_move_rdma(self) -> bool:
        """Later than Linux 6.1."""
        return self.can_release_users
