"""Kind VF address: each virtual function has the planned MAC address, or on InfiniBand the planned GUIDs.

They are set through the port (rtnetlink, `netlink.vfs`), then the VF's driver is bound again, because it reads them
only then (`pci_driver`). Without a MAC address, mlx5 drops every frame of a VF with spoof check: its rule allows source
address 0 only (esw/acl/ingress_lgcy.c). Its RDMA device has node GUID 0, so rdma_cm does not find it. On InfiniBand, a
VF without GUIDs or with link state `disable`, which is how mlx5_ib creates it (MLX5_POLICY_DOWN), stays down.

VFs of pods and of virtual machines are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from trackbed.host.change import Change, Operation, Rebind, Skipped, build_change
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.vf_count import replaces_vfs
from trackbed.host.kinds.view import View
from trackbed.host.kinds.virtual_functions import (
    VfFunction,
    explain_unreported_vf,
    find_vf,
    list_reported_vfs,
    read_ports_vfs,
)
from trackbed.host.machine import Machine
from trackbed.host.pci_driver import find_driver, rebind_function
from trackbed.host.setting import Setting
from trackbed.kernel.netlink import vfs
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.vfs import Vf, VfChange

_GUID_DRIVERS = frozenset({"mlx5_core"})
"""Drivers whose VFs take their node GUID from their port; others derive it from the interface's address."""
_LINK_STATE: vfs.LinkState = "auto"
"""On InfiniBand the VF's link follows the port's (MLX5_POLICY_FOLLOW)."""


class Want(NamedTuple):
    """VF number `vf` (from 0) of port `netdev` has this MAC address, or on InfiniBand (`is_guid`) this GUID."""

    netdev: str
    pci: str | None
    vf: int
    address: str
    is_guid: bool = False

    def __str__(self) -> str:
        return f"{'GUID' if self.is_guid else 'MAC'} of VF {self.vf} of {self.netdev}"


class _KeptVf(NamedTuple):
    """What the port had set for a VF: `mac` on Ethernet, the others on InfiniBand; empty for what it does not report.

    `folder` is the VF's folder in sysfs.
    """

    folder: str
    mac: str = ""
    node_guid: str = ""
    port_guid: str = ""
    link_state: str = ""


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of an address that the port has not set, or that the VF's driver has not read."""
    subject, function = str(want), find_vf(view, want.netdev, want.pci, want.vf)
    vf = view.read_once(read_ports_vfs).get((view.ports[want.netdev].index, want.vf))
    if vf is None or not function.folder:
        return Skipped(setting, subject, explain_unreported_vf(view, want.netdev, want.vf))
    if function.is_held:
        return Skipped(setting, subject, function.absence_reason)
    change, used = _build_vf_change(want, vf), _read_used_address(view.machine, want, function)
    if change == VfChange() and used == want.address:
        return None
    message = vfs.build_set_vf(view.ports[want.netdev].index, want.vf, change)
    operations: tuple[Operation, ...] = () if change == VfChange() else (message,)
    have = _describe(want, vf) + (f", in use {used or 'none'}" if used != _get_address(want, vf) else "")
    return build_change(setting, subject, have, want.address, (*operations, Rebind(function.folder)))


def replaces_interface(setting: Setting, changes: Sequence[Change]) -> bool:
    """Return whether one of the changes replaces the interface of the VF that a setting is about."""
    wants = [change.setting.want for change in changes if change.setting and change.setting.netdev == setting.netdev]
    number = getattr(setting.want, "vf", None)
    return replaces_vfs(setting, changes) or any(isinstance(want, Want) and want.vf == number for want in wants)


def _build_vf_change(want: Want, vf: Vf) -> VfChange:
    """Return what the port must set. GUIDs that the driver does not report (before Linux 5.5) are not compared."""
    if not want.is_guid:
        return VfChange(mac=want.address if vf.mac != want.address else None)
    return VfChange(
        link_state=_LINK_STATE if vf.link_state == "disable" else None,
        node_guid=want.address if vf.node_guid not in {None, want.address} else None,
        port_guid=want.address if vf.port_guid not in {None, want.address} else None,
    )


def _read_used_address(machine: Machine, want: Want, function: VfFunction) -> str:
    """Return the address that the VF's driver uses; empty without a driver, or if mlx5's device has node GUID 0."""
    guids = [machine.read(f"{function.folder}/infiniband/{name}/node_guid") for name in _list_rdma(machine, function)]
    is_zero = any(isinstance(guid, str) and not guid.strip("0:") for guid in guids)
    if function.link is None or (is_zero and function.driver in _GUID_DRIVERS):
        return ""
    if want.is_guid:
        return next((guid for guid in guids if isinstance(guid, str)), want.address)
    return function.link.mac


def _list_rdma(machine: Machine, function: VfFunction) -> list[str]:
    return [device.name for device in machine.locate(f"{function.folder}/infiniband").glob("*")]


def _get_address(want: Want, vf: Vf) -> str:
    return vf.node_guid or want.address if want.is_guid else vf.mac


def _describe(want: Want, vf: Vf) -> str:
    if not want.is_guid:
        return vf.mac
    guids = dict.fromkeys((vf.node_guid or "unknown", vf.port_guid or "unknown"))
    return f"{', '.join(guids)}, link {vf.link_state}"


def read_undo_data(view: View) -> UndoData:
    """Return what the port has set for each planned VF that is on the host, by interface index and number."""
    known, undo_data = view.read_once(read_ports_vfs), {}
    for want in view.list_wants(Want):
        link, function = view.ports.get(want.netdev), find_vf(view, want.netdev, want.pci, want.vf)
        vf = known.get((link.index, want.vf)) if link else None
        if link and vf and function.folder and not function.is_held:
            undo_data[f"{link.index} {want.vf}"] = _keep(want, vf, function.folder)
    return undo_data


def _keep(want: Want, vf: Vf, folder: str) -> _KeptVf:
    if not want.is_guid:
        return _KeptVf(folder, mac=vf.mac)
    return _KeptVf(folder, node_guid=vf.node_guid or "", port_guid=vf.port_guid or "", link_state=vf.link_state)


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the addresses of VFs that are on the host and differ; yield failures as text."""
    with machine.open_socket() as sock:
        names = {link.index: link.name for link in list_links(sock)}
        for key, kept in undo_data.items():
            index, number = map(int, key.split())
            vf = list_reported_vfs(sock, names[index]).get(number) if index in names else None
            change = _build_reverse(kept, vf) if vf else VfChange()
            if change == VfChange():
                continue
            try:
                sock.send([vfs.build_set_vf(index, number, change)])
            except NetlinkError as error:
                yield f"address of VF {number} of {names[index]}: {error}"
                continue
            if why := _rebind_idle(machine, kept.folder):
                yield f"address of VF {number} of {names[index]}: {why}"


def _build_reverse(kept: _KeptVf, vf: Vf) -> VfChange:
    """Return the change from the present settings of a VF to those that were kept."""
    return VfChange(
        mac=kept.mac if kept.mac not in {"", vf.mac} else None,
        link_state="disable" if kept.link_state == "disable" != vf.link_state else None,
        node_guid=kept.node_guid if kept.node_guid not in {"", vf.node_guid} else None,
        port_guid=kept.port_guid if kept.port_guid not in {"", vf.port_guid} else None,
    )


def _rebind_idle(machine: Machine, folder: str) -> str:
    """Bind the driver of a VF again unless the VF is in use; return the reason of a failure."""
    has_interface = any(machine.locate(f"{folder}/net").glob("*"))
    if find_driver(machine, folder) and not has_interface:
        return "it is in use, and keeps its address until its driver is bound again"
    return rebind_function(machine, folder) if has_interface else ""


KIND = Kind(
    "vf_address",
    (Want,),
    compare,
    read_undo_data=read_undo_data,
    restore=restore,
    undo_data_type=dict[str, _KeptVf],
    tolerates_refusal=True,
    must_wait=replaces_vfs,
)
