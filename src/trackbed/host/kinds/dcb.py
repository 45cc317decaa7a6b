"""Kinds DSCP, PFC and ETS: DCB settings of a port, made through netlink (`netlink.dcb`).

A port whose driver does not support DCB is skipped. The firmware of a port may negotiate with its neighbour (DCBX) and
overwrite settings. mlx5 lets the host take over (mlx5e_dcbnl_setdcbx, en_dcbnl.c), which is part of the change. bnxt_en
and ice refuse that (bnxt_dcbnl_setdcbx; ice_dcbnl_setdcbx while the firmware's LLDP agent runs), so the user is told
how to end the negotiation.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import NamedTuple, Union

from trackbed.host.change import Change, DcbSet, Skipped, build_change, build_manual_change
from trackbed.host.kinds.dcb_wants import DcbDscp, DcbEts, DcbPfc, DcbPort, build_app_messages
from trackbed.host.kinds.kind import Kind, UndoData, has_rename, keep_pods
from trackbed.host.kinds.view import View
from trackbed.host.kinds.writers import find_daemons
from trackbed.host.machine import Machine
from trackbed.host.pci_driver import find_driver
from trackbed.host.setting import Setting
from trackbed.kernel.netlink import dcb
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.dcb import Dcb
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import RequestError, Socket

_HOST_NEGOTIATES = dcb.DCB_CAP_DCBX_HOST | dcb.DCB_CAP_DCBX_VER_IEEE
_FIRMWARE_NEGOTIATES = 0
_DCBX_DRIVERS = frozenset({"mlx5_core"})
"""Drivers that let the host take over the negotiation."""
_DCBX_ADVICE = {
    "bnxt_en": "set the DCBX mode in the NVRAM of {netdev} to disabled (BIOS setup, device level configuration; or "
    "niccli, NVM option dcbx_mode), then restart this host",
    "ice": "run on this host: ethtool --set-priv-flags {name} fw-lldp-agent off, then trackbed apply",
}
_OTHER_DCBX_ADVICE = "run on this host: dcb dcbx set dev {name} host ieee"
_DCB_PROGRAMS = ("lldpad", "dcbd", "fcoemon", "mlnx_tune")
"""Programs of others that set DCB: DCBX daemons, and NVIDIA's tuner."""

Want = Union[DcbDscp, DcbPfc, DcbEts]
_WANTS = (DcbDscp, DcbPfc, DcbEts)


class _KeptBridge(NamedTuple):
    """The driver's reply about a port, and the DSCPs whose entries apply may change."""

    answer: bytes
    dscps: tuple[int, ...]


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a DCB setting that differs."""
    name, subject = view.ports[want.netdev].name, str(want)
    bridge = view.read_once(_read_ports_dcb).get(want.netdev)
    if bridge is None:
        return Skipped(setting, subject, view.machine.shared_reason or "this port's driver has no DCB")
    driver = find_driver(view.machine, f"/sys/class/net/{name}/device")
    outcome = want.compare(DcbPort(name, driver, bridge))
    if isinstance(outcome, str):
        return Skipped(setting, subject, outcome)
    have, wanted, messages = outcome
    if not messages:
        return None
    if bridge.is_negotiated_by_firmware:
        if driver not in _DCBX_DRIVERS:
            advice = _DCBX_ADVICE.get(driver, _OTHER_DCBX_ADVICE).format(netdev=want.netdev, name=name)
            why = f"the firmware of {want.netdev} negotiates DCB; {advice}"
            return build_manual_change(setting, subject, have, wanted, why)
        messages = (dcb.build_set_dcbx(name, _HOST_NEGOTIATES), *messages)
    return build_change(setting, subject, have, wanted, (DcbSet(messages),))


def read_undo_data(view: View) -> UndoData:
    """Return the DCB settings of the planned ports by interface index."""
    wants = view.list_wants(DcbDscp)
    undo_data = {}
    for netdev, bridge in view.read_once(_read_ports_dcb).items():
        dscps = tuple(dscp for want in wants if want.netdev == netdev for dscp, _ in want.priorities)
        undo_data[str(view.ports[netdev].index)] = _KeptBridge(bridge.body, dscps)
    return undo_data


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the DCB settings of ports; yield failures as text."""
    with machine.open_socket() as sock:
        names = {str(link.index): link.name for link in list_links(sock)}
        for index, before in undo_data.items():
            try:
                bridge = dcb.get_dcb(sock, names[index]) if index in names else None
                old = dcb.parse_dcb(before.answer)
                for message in _iter_restore_messages(names[index], old, bridge, before.dscps) if bridge else ():
                    dcb.apply_setting(sock, message)
            except NetlinkError as error:
                yield f"DCB of {names[index]}: {error}"


def _iter_restore_messages(name: str, old_dcb: Dcb, present_dcb: Dcb, dscps: tuple[int, ...]) -> Iterator[Message]:
    before, now = (
        {app for app in state.apps if app.selector == dcb.IEEE_8021QAZ_APP_SEL_DSCP and app.protocol in dscps}
        for state in (old_dcb, present_dcb)
    )
    yield from build_app_messages(name, sorted(now - before), sorted(before - now))
    if old_dcb.trust is not None and old_dcb.trust != present_dcb.trust:
        yield dcb.build_set_trust(name, old_dcb.trust)
    if old_dcb.pfc and present_dcb.pfc and old_dcb.pfc.priorities != present_dcb.pfc.priorities:
        yield dcb.build_set_pfc(name, old_dcb.pfc)
    if old_dcb.ets and present_dcb.ets and old_dcb.ets != present_dcb.ets:
        yield dcb.build_set_ets(name, old_dcb.ets)
    if old_dcb.is_negotiated_by_firmware and not present_dcb.is_negotiated_by_firmware:
        yield dcb.build_set_dcbx(name, _FIRMWARE_NEGOTIATES)


def _read_ports_dcb(view: View) -> dict[str, Dcb]:
    """Read the DCB settings of the planned ports; ports without DCB are left out."""
    netdevs = dict.fromkeys(setting.netdev for setting in view.settings if isinstance(setting.want, _WANTS))
    ports = {
        netdev: view.ports[netdev].name for netdev in netdevs if netdev in view.ports and not view.machine.shared_reason
    }
    with view.machine.open_socket() as sock:
        bridges = {netdev: _read_port_dcb(sock, name) for netdev, name in ports.items()}
    return {netdev: bridge for netdev, bridge in bridges.items() if bridge}


def _read_port_dcb(sock: Socket, name: str) -> Dcb | None:
    try:
        return dcb.get_dcb(sock, name)
    except RequestError as error:
        if error.errno in {errno.EOPNOTSUPP, errno.ENODEV, errno.EINVAL}:
            return None
        raise


KIND: Kind[Want] = Kind(
    "dcb",
    _WANTS,
    compare,
    read_undo_data=read_undo_data,
    restore=restore,
    undo_data_type=dict[str, _KeptBridge],
    render_boot_line=lambda want, _: want.render_boot_line(),
    tolerates_refusal=True,
    must_wait=has_rename,
    disrupts_pods=keep_pods,
    find_writers=lambda _, view: find_daemons(view.machine, _DCB_PROGRAMS),
)
