"""Virtual functions of the planned ports: what sysfs shows of a VF, and what its port reports."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from trackbed.host.kinds.sysfs import find_device
from trackbed.host.kinds.view import View
from trackbed.host.pci_driver import find_driver
from trackbed.kernel.netlink import vfs
from trackbed.kernel.netlink.links import Link
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.kernel.netlink.vfs import Vf

DPU_MODE = "the BlueField is in DPU mode, so its Arm cores set the VFs of this port, not this host"
"""mlx5 answers EPERM to a host whose NIC has its e-switch manager on the Arm cores (mlx5_esw_allowed, esw/legacy.c)."""
_ARM_DRIVER = "mlx5_core"


class VfFunction(NamedTuple):
    """A VF in sysfs; `folder` is empty if it does not exist."""

    folder: str
    pci: str = ""
    driver: str = ""
    link: Link | None = None
    """Its interface, while that is on the host."""

    @property
    def absence_reason(self) -> str:
        """Why the host has no interface of the VF; empty if it has one."""
        if not self.folder:
            return "there is no such VF yet"
        if not self.driver:
            return "no driver has this VF"
        if self.driver.startswith("vfio"):
            return f"this VF is given to {self.driver}"
        return "" if self.link else "the interface of this VF is in a pod"

    @property
    def is_held(self) -> bool:
        """Whether a pod or a virtual machine has the VF."""
        return bool(self.driver) and bool(self.absence_reason)


def find_vf(view: View, netdev: str, pci: str | None, vf: int) -> VfFunction:
    """Return VF number `vf` of a port."""
    folder = f"{find_device(view, netdev, pci)}/virtfn{vf}"
    place = view.machine.locate(folder)
    if not place.is_dir():
        return VfFunction("")
    interfaces = (_find_link(view, interface) for interface in (place / "net").glob("*"))
    return VfFunction(
        folder, place.resolve().name, find_driver(view.machine, folder), next(filter(None, interfaces), None)
    )


def _find_link(view: View, interface: Path) -> Link | None:
    """Return the link of an interface in sysfs by its index: udev may rename it after the links were listed."""
    with suppress(OSError, ValueError):
        index = int((interface / "ifindex").read_text(encoding="ascii"))
        return next((link for link in view.state.links if link.index == index), None)
    return view.state.find_link(interface.name)


def explain_unreported_vf(view: View, netdev: str, vf: int) -> str:
    """Return why a port does not report a VF."""
    place = view.machine.locate(f"/sys/class/net/{view.ports[netdev].name}/device")
    is_dpu = (place / f"virtfn{vf}").exists() and (place / "driver").resolve().name == _ARM_DRIVER
    return view.machine.shared_reason or (DPU_MODE if is_dpu else "there is no such VF yet")


def read_ports_vfs(view: View) -> dict[tuple[int, int], Vf]:
    """Read the VFs that the ports report, by interface index and number."""
    if view.machine.shared_reason:
        return {}
    with view.machine.open_socket() as sock:
        ports = [link for link in view.ports.values() if _has_vfs(view, link)]
        return {(port.index, number): vf for port in ports for number, vf in list_reported_vfs(sock, port.name).items()}


def _has_vfs(view: View, link: Link) -> bool:
    return isinstance(view.machine.read(f"/sys/class/net/{link.name}/device/sriov_numvfs"), str)


def list_reported_vfs(sock: Socket, name: str) -> dict[int, Vf]:
    """Return a port's VFs by number; empty if the kernel reports none."""
    try:
        return {vf.index: vf for vf in vfs.get_vfs(sock, name).vfs}
    except RequestError:
        return {}
