"""Kind VF MTU: the interface of each virtual function has the planned MTU.

It is left alone while it is not on the host: then the MTU is the pod's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.sysfs import find_device
from trackbed.host.kinds.vf_count import replaces_vfs
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import Link, list_links, set_link


class Want(NamedTuple):
    """The interface of VF number `vf` (from 0) of port `netdev` has this MTU, as long as it is on the host."""

    netdev: str
    pci: str | None
    vf: int
    mtu_bytes: int

    def __str__(self) -> str:
        return f"MTU of VF {self.vf} of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of an MTU that differs."""
    subject, link = str(want), _find_interface(view, want)
    if isinstance(link, str):
        return Skipped(setting, subject, view.machine.shared_reason or link)
    if link.mtu == want.mtu_bytes:
        return None
    port = view.ports[want.netdev]
    if port.mtu < want.mtu_bytes:
        return Skipped(setting, subject, f"the MTU of {want.netdev} is {port.mtu}, and a VF's cannot be above it")
    do = (set_link(link.index, mtu=want.mtu_bytes),)
    return fulfil(setting, subject, str(link.mtu), str(want.mtu_bytes), do)


def keep(view: View) -> Kept:
    """Return the MTUs by the VF's PCI address."""
    links = [(want, _find_interface(view, want)) for want in view.list_wants(Want)]
    return {
        view.machine.locate(_get_folder(view, want)).resolve().name: link.mtu
        for want, link in links
        if isinstance(link, Link)
    }


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Set the MTUs of VFs that are on the host and differ."""
    with machine.open_socket() as sock:
        links = {link.name: link for link in list_links(sock)}
        for pci, mtu in kept.items():
            places = machine.locate(f"/sys/bus/pci/devices/{pci}/net").glob("*")
            link = next((links[place.name] for place in places if place.name in links), None)
            try:
                sock.send([set_link(link.index, mtu=mtu)] if link and link.mtu != mtu else [])
            except NetlinkError as error:
                yield f"MTU of VF {pci}: {error}"


def _get_folder(view: View, want: Want) -> str:
    return f"{find_device(view, want.netdev, want.pci)}/virtfn{want.vf}"


def _find_interface(view: View, want: Want) -> Link | str:
    """Return the interface of a VF, or why there is none on the host."""
    place = view.machine.locate(_get_folder(view, want))
    if not place.is_dir():
        return "there is no such VF yet"
    driver = (place / "driver").resolve().name if (place / "driver").exists() else ""
    if not driver:
        return "no driver has this VF"
    if driver.startswith("vfio"):
        return f"this VF is given to {driver}"
    links = (view.state.find_link(interface.name) for interface in (place / "net").glob("*"))
    return next(filter(None, links), "the interface of this VF is in a pod")


KIND = Kind("vf_mtu", (Want,), compare, keep=keep, restore=restore, must_wait=replaces_vfs)
