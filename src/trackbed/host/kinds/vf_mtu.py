"""Kind VF MTU: the interface of each virtual function has the planned MTU.

VFs in a pod are skipped: their MTU belongs to the pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, build_change
from trackbed.host.kinds.kind import Kind, UndoData, keep_pods
from trackbed.host.kinds.vf_address import replaces_interface
from trackbed.host.kinds.view import View
from trackbed.host.kinds.virtual_functions import find_vf
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import build_set_link, list_links


class Want(NamedTuple):
    """The interface of VF number `vf` (from 0) of port `netdev` has this MTU while it is on the host."""

    netdev: str
    pci: str | None
    vf: int
    mtu_bytes: int

    def __str__(self) -> str:
        return f"MTU of VF {self.vf} of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of an MTU that differs."""
    subject, function = str(want), find_vf(view, want.netdev, want.pci, want.vf)
    link = function.link
    if link is None or function.absence_reason:
        return Skipped(setting, subject, view.machine.shared_reason or function.absence_reason)
    if link.mtu == want.mtu_bytes:
        return None
    port = view.ports[want.netdev]
    if port.mtu < want.mtu_bytes:
        return Skipped(setting, subject, f"the MTU of {want.netdev} is {port.mtu}, and a VF's cannot be above it")
    do = (build_set_link(link.index, mtu=want.mtu_bytes),)
    return build_change(setting, subject, str(link.mtu), str(want.mtu_bytes), do)


def read_undo_data(view: View) -> UndoData:
    """Return the VFs' MTUs by PCI address."""
    functions = [find_vf(view, want.netdev, want.pci, want.vf) for want in view.list_wants(Want)]
    return {function.pci: function.link.mtu for function in functions if function.link and not function.absence_reason}


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the MTUs of VFs that are on the host and differ; yield failures as text."""
    with machine.open_socket() as sock:
        links = {link.name: link for link in list_links(sock)}
        for pci, mtu in undo_data.items():
            places = machine.locate(f"/sys/bus/pci/devices/{pci}/net").glob("*")
            link = next((links[place.name] for place in places if place.name in links), None)
            try:
                sock.send([build_set_link(link.index, mtu=mtu)] if link and link.mtu != mtu else [])
            except NetlinkError as error:
                yield f"MTU of VF {pci}: {error}"


KIND = Kind(
    "vf_mtu",
    (Want,),
    compare,
    read_undo_data=read_undo_data,
    restore=restore,
    undo_data_type=dict[str, int],
    tolerates_refusal=True,
    must_wait=replaces_interface,
    disrupts_pods=keep_pods,
)
