"""Kind VF guard: trust and spoof check of each virtual function of a port.

They are set through the port (rtnetlink, `netlink.vfs`), so the VF may be in a pod or in a virtual machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

from trackbed.host.change import Change, Skipped, build_change
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.vf_count import replaces_vfs
from trackbed.host.kinds.view import View
from trackbed.host.kinds.virtual_functions import explain_unreported_vf, list_reported_vfs, read_ports_vfs
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink import vfs
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.vfs import Vf


class Want(NamedTuple):
    """VF number `vf` (from 0) of port `netdev` may change its MAC (trust) and sends only with it (spoof check)."""

    netdev: str
    vf: int
    trust: bool
    spoof_check: bool

    def __str__(self) -> str:
        return f"VF {self.vf} of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of trust or spoof check; a switch that the driver does not support is ignored."""
    machine, subject, link = view.machine, str(want), view.ports[want.netdev]
    vf = view.read_once(read_ports_vfs).get((link.index, want.vf))
    if vf is None:
        return Skipped(setting, subject, explain_unreported_vf(view, want.netdev, want.vf))
    if isinstance(machine.read(f"/sys/class/net/{link.name}/phys_switch_id"), str):
        return Skipped(setting, subject, f"{want.netdev} is in switchdev mode: the ports of its switch rule the VFs")
    if vf.trust is None and vf.spoof_check is None:
        return Skipped(setting, subject, "this port's driver has neither trust nor spoof check")
    trust = want.trust if vf.trust not in {None, want.trust} else None
    check = want.spoof_check if vf.spoof_check not in {None, want.spoof_check} else None
    if trust is None and check is None:
        return None
    message = vfs.build_set_vf(link.index, want.vf, vfs.VfChange(trust=trust, spoof_check=check))
    planned = (None if vf.trust is None else want.trust, None if vf.spoof_check is None else want.spoof_check)
    return build_change(setting, subject, _format_switches(_get_switches(vf)), _format_switches(planned), (message,))


def read_undo_data(view: View) -> UndoData:
    """Return trust and spoof check (None if the driver lacks it) of each planned VF by interface index and number."""
    ports = [(view.ports[want.netdev].index, want.vf) for want in view.list_wants(Want) if want.netdev in view.ports]
    known = view.read_once(read_ports_vfs)
    return {f"{index} {vf}": _get_switches(known[index, vf]) for index, vf in ports if (index, vf) in known}


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore trust and spoof check of VFs that still exist and differ; yield failures as text."""
    with machine.open_socket() as sock:
        names = {link.index: link.name for link in list_links(sock)}
        for key, switches in undo_data.items():
            index, number = map(int, key.split())
            try:
                vf = list_reported_vfs(sock, names[index]).get(number) if index in names else None
                if vf and _get_switches(vf) != switches:
                    trust, check = switches
                    sock.send([vfs.build_set_vf(index, number, vfs.VfChange(trust=trust, spoof_check=check))])
            except NetlinkError as error:
                yield f"VF {key}: {error}"


def _get_switches(vf: Vf) -> tuple[bool | None, bool | None]:
    return vf.trust, vf.spoof_check


def _format_switches(switches: tuple[bool | None, bool | None]) -> str:
    names = zip(("trust", "spoof check"), switches)
    return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in names if on is not None)


KIND = Kind(
    "vf_guard",
    (Want,),
    compare,
    read_undo_data=read_undo_data,
    restore=restore,
    undo_data_type=dict[str, tuple[Optional[bool], Optional[bool]]],
    tolerates_refusal=True,
    must_wait=replaces_vfs,
)
