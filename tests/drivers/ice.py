"""ice: Intel E810 (drivers/net/ethernet/intel/ice), whose VFs are driven by iavf."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import ClassVar

from tests.drivers.port import NO_ETS, SETTINGS, Port, Vf, is_multicast, is_valid
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

_FOLDER = "drivers/net/ethernet/intel/ice/"
_DCB, _LIB, _ETHTOOL = _FOLDER + "ice_dcb_nl.c", _FOLDER + "ice_dcb_lib.c", _FOLDER + "ice_ethtool.c"
_SRIOV, _VIRTCHNL = _FOLDER + "ice_sriov.c", _FOLDER + "ice_virtchnl.c"
_IRDMA = "drivers/infiniband/hw/irdma/verbs.c"
_VER_CEE = 0x04
_DSCPS = 64
_IDENTITY: EightInts = (0, 1, 2, 3, 4, 5, 6, 7)
_ALL_IN_FIRST: EightInts = (100, 0, 0, 0, 0, 0, 0, 0)
_START = NO_ETS._replace(
    willing=True, tx_bandwidth=_ALL_IN_FIRST, rx_bandwidth=_ALL_IN_FIRST, algorithms=(IEEE_8021QAZ_TSA_ETS, *(0,) * 7)
)


@dataclass
class Ice(Port):
    """A port with eight traffic classes; the firmware's LLDP agent runs until somebody stops it."""

    driver: ClassVar[str] = "ice"
    module: ClassVar[str] = "ice"
    vf_module: ClassVar[str] = "iavf"
    ids: ClassVar[tuple[str, str, str]] = ("0x8086", "0x1592", "0x1889")
    rdma_prefix: ClassVar[str] = "irdma"
    vf_settings: ClassVar[frozenset[str]] = SETTINGS
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "while the firmware's LLDP agent runs, ETS, PFC and APP are refused: EINVAL",
            _DCB,
            "ice_dcbnl_setets, _setpfc, _setapp",
        ),
        Rule("while the firmware's LLDP agent runs, DCBX cannot be changed: 1", _DCB, "ice_dcbnl_setdcbx"),
        Rule("fw-lldp-agent off gives DCB to the host", _ETHTOOL, "ice_set_priv_flags"),
        Rule("fw-lldp-agent on is refused in DSCP mode: EOPNOTSUPP", _ETHTOOL, "ice_set_priv_flags"),
        Rule(
            "DCBX: what stands already, and managed by the driver or IEEE with CEE, or in DSCP mode: 1",
            _DCB,
            "ice_dcbnl_setdcbx",
        ),
        Rule("APP: selectors other than DSCP: EINVAL", _DCB, "ice_dcbnl_setapp"),
        Rule("APP: a second priority of one codepoint: EINVAL", _DCB, "ice_dcbnl_setapp"),
        Rule(
            "APP: the first DSCP changes to DSCP mode: class of a codepoint is codepoint / 8", _DCB, "ice_dcbnl_setapp"
        ),
        Rule("APP: the first DSCP sets class = priority, and gives all bandwidth to class 0", _DCB, "ice_dcbnl_setapp"),
        Rule("ETS in DSCP mode: classes that are asked for are passed over", _DCB, "ice_dcbnl_setets"),
        Rule(
            "ETS: shares of the classes in use add up to 100 or 0, else EINVAL; 0 gives all to class 0",
            _LIB,
            "ice_dcb_bwchk",
        ),
        Rule("ETS: shares are counted whatever the algorithm, and one class alone has all", _LIB, "ice_dcb_bwchk"),
        Rule("ETS: the receiving shares read as the sending ones", _DCB, "ice_dcbnl_getets"),
        Rule("deleting the last DSCP changes back to VLAN mode, with ETS as at the start", _DCB, "ice_dcbnl_delapp"),
        Rule("what was asked for outlives that: the next ETS brings PFC back with it", _DCB, "ice_dcbnl_delapp"),
        Rule("each change takes the interface down and up: the kernel forgets its routes", _DCB, "ice_dcbnl_devreset"),
        Rule("a VF begins with spoof check on, no trust, no address", _SRIOV, "ice_create_vf_entries"),
        Rule("a multicast address of a VF: EINVAL", _SRIOV, "ice_set_vf_mac"),
        Rule(
            "an address, and a change of trust, restart the VF's driver, which takes the address",
            _SRIOV,
            "ice_set_vf_mac, ice_set_vf_trust",
        ),
        Rule(
            "a VF with an address of the PF may use no other unless it is trusted", _VIRTCHNL, "ice_can_vf_change_mac"
        ),
        Rule("the list shows the address that the VF uses", _SRIOV, "ice_get_vf_cfg"),
        Rule("the node GUID follows from the interface's address", _IRDMA, "irdma_init_roce_device"),
    )

    firmware_agent: bool = True
    cap: int = 0
    ets: Ets = _START
    desired: Ets = _START
    """What was asked for last (desired_dcbx_cfg); it outlives a return to VLAN mode."""
    paused: frozenset[int] = frozenset()
    desired_paused: frozenset[int] = frozenset()
    mapped: set[int] = field(default_factory=set)
    """Codepoints that somebody has mapped."""
    classes_of: list[int] = field(default_factory=lambda: [0] * _DSCPS)
    """Traffic class of each codepoint in DSCP mode."""
    resets: int = 0

    def __post_init__(self) -> None:
        """Start the driver."""
        self.set_firmware_agent(on=self.firmware_agent)

    def set_firmware_agent(self, *, on: bool) -> int:
        """Set the private flag fw-lldp-agent."""
        if on and self.mapped:
            return -errno.EOPNOTSUPP
        self.firmware_agent = on
        self.cap = DCB_CAP_DCBX_VER_IEEE | (DCB_CAP_DCBX_LLD_MANAGED if on else DCB_CAP_DCBX_HOST)
        self.ets = self.desired = _START
        return 0

    @property
    def has_dcb(self) -> bool:
        """Whether the firmware has DCB."""
        return True

    @property
    def dcbx(self) -> int:
        """Return who negotiates."""
        return self.cap

    @property
    def is_dscp_mode(self) -> bool:
        """Whether the port trusts DSCP."""
        return bool(self.mapped)

    @property
    def _is_closed(self) -> bool:
        return bool(self.cap & DCB_CAP_DCBX_LLD_MANAGED) or not self.cap & DCB_CAP_DCBX_VER_IEEE

    def get_ets(self) -> Ets:
        """Report ETS."""
        return self.ets._replace(
            capacity=8,
            rx_bandwidth=self.ets.tx_bandwidth,
            recommended_bandwidth=self.ets.tx_bandwidth,
            recommended_algorithms=self.ets.algorithms,
            recommended_classes=self.ets.classes,
        )

    def set_ets(self, ets: Ets) -> int:
        """Set ETS; in DSCP mode the classes stay."""
        if self._is_closed:
            return -errno.EINVAL
        classes = self.desired.classes if self.is_dscp_mode else ets.classes
        self.desired = NO_ETS._replace(
            willing=ets.willing, tx_bandwidth=ets.tx_bandwidth, algorithms=ets.algorithms, classes=classes
        )
        used = _count_classes(classes)
        total = sum(ets.tx_bandwidth[:used])
        if used == 1 or not total:
            self.desired = self.desired._replace(tx_bandwidth=(100, *ets.tx_bandwidth[1:]))
        elif total != 100:
            return -errno.EINVAL
        return self._commit()

    def _commit(self, *, changed: bool = False) -> int:
        if changed or (self.desired, self.desired_paused) != (self.ets, self.paused):
            self.ets, self.paused = self.desired, self.desired_paused
            self._reset()
        return 0

    def _reset(self) -> None:
        self.resets += 1
        self.reopen()

    def get_pfc(self) -> Pfc:
        """Report PFC."""
        return Pfc(8, self.paused)

    def set_pfc(self, pfc: Pfc) -> int:
        """Set PFC, in whatever order with ETS."""
        if self._is_closed:
            return -errno.EINVAL
        self.desired_paused = pfc.priorities
        return self._commit()

    def set_dcbx(self, mode: int) -> int:
        """Set who negotiates."""
        both = DCB_CAP_DCBX_VER_IEEE | _VER_CEE
        if (
            self.firmware_agent
            or mode & DCB_CAP_DCBX_LLD_MANAGED
            or mode & both == both
            or not mode & DCB_CAP_DCBX_HOST
            or mode == self.cap
            or self.is_dscp_mode
        ):
            return 1
        self.cap = mode
        return 0

    def add_app(self, app: App) -> int:
        """Map a codepoint."""
        if app.selector != IEEE_8021QAZ_APP_SEL_DSCP or self._is_closed or app.protocol >= _DSCPS or app.priority > 7:
            return -errno.EINVAL
        if code := self.keep_app(app):
            return code
        if app.protocol in self.mapped:
            self.drop_app(app)
            return -errno.EINVAL
        if not self.is_dscp_mode:
            self.classes_of = [dscp // 8 for dscp in range(_DSCPS)]
            self.desired = NO_ETS._replace(
                tx_bandwidth=_ALL_IN_FIRST, algorithms=(IEEE_8021QAZ_TSA_ETS,) * 8, classes=_IDENTITY
            )
        self.mapped.add(app.protocol)
        self.classes_of[app.protocol] = app.priority
        return self._commit(changed=True)

    def delete_app(self, app: App) -> int:
        """Take a codepoint's mapping away."""
        if self.cap & DCB_CAP_DCBX_LLD_MANAGED:
            return -errno.EINVAL
        if code := self.drop_app(app):
            return code
        if app.protocol not in self.mapped:
            return -errno.EINVAL
        self.mapped.discard(app.protocol)
        self.classes_of[app.protocol] = app.protocol % 8
        if self.is_dscp_mode:
            return self._commit(changed=True)
        self.ets, self.paused = _START, frozenset()
        self._reset()
        return 0

    def make_vf(self, number: int) -> Vf:
        """Return a VF with spoof check on."""
        return Vf(number, spoof_check=True)

    def set_vf(self, number: int, name: str, value: object) -> int:
        """Change a setting; an address starts the VF's driver again, which takes it."""
        code = super().set_vf(number, name, value)
        if not code and name == "mac" and self.vfs[number].bound and is_valid(self.vfs[number].mac):
            self.take_vf(self.vfs[number])
            self.changed_mac(number)
        return code

    def check_vf(self, number: int, name: str, value: object) -> int:
        """Refuse what no VF may have."""
        return -errno.EINVAL if name == "mac" and is_multicast(value) else super().check_vf(number, name, value)

    def report_vf(self, number: int) -> Vf:
        """Report all settings, with the address in use."""
        vf = self.vfs[number]
        return Vf(**{**vars(vf), "mac": vf.interface_mac})


def _count_classes(classes: EightInts) -> int:
    """Return the classes in use if they begin with 0 and have no gap, else 1 (ice_dcb_get_num_tc)."""
    used = set(classes)
    return len(used) if used == set(range(len(used))) else 1
