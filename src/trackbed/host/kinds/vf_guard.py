"""Kind VF guard: what each virtual function of a port may do.

Trust and spoof check are set through the port (rtnetlink, `netlink.vfs`), wherever the VF is: in a pod, in a virtual
machine, or here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.vf_count import replaces_vfs
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink import vfs
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import RequestError, Socket
from trackbed.kernel.netlink.vfs import Vf


class Want(NamedTuple):
    """What VF number `vf` (from 0) of port `netdev` may do: change its MAC address, send with a foreign one."""

    netdev: str
    vf: int
    trust: bool
    spoof_check: bool

    def __str__(self) -> str:
        return f"VF {self.vf} of {self.netdev}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of trust and spoof check, each where the driver has it."""
    machine, subject, link = view.machine, str(want), view.ports[want.netdev]
    vf = view.read_once(_read_vfs).get((link.index, want.vf))
    if vf is None:
        return Skipped(setting, subject, machine.shared_reason or "there is no such VF yet")
    if isinstance(machine.read(f"/sys/class/net/{link.name}/phys_switch_id"), str):
        return Skipped(setting, subject, f"{want.netdev} is in switchdev mode: the ports of its switch rule the VFs")
    if vf.trust is None and vf.spoof_check is None:
        return Skipped(setting, subject, "this port's driver has neither trust nor spoof check")
    trust = want.trust if vf.trust not in {None, want.trust} else None
    check = want.spoof_check if vf.spoof_check not in {None, want.spoof_check} else None
    if trust is None and check is None:
        return None
    message = vfs.set_vf(link.index, want.vf, vfs.VfChange(trust=trust, spoof_check=check))
    planned = (None if vf.trust is None else want.trust, None if vf.spoof_check is None else want.spoof_check)
    return fulfil(setting, subject, _list_switches((vf.trust, vf.spoof_check)), _list_switches(planned), (message,))


def keep(view: View) -> Kept:
    """Return trust and spoof check (null: the driver has none) of each planned VF by interface index and number."""
    ports = [(view.ports[want.netdev].index, want.vf) for want in view.list_wants(Want) if want.netdev in view.ports]
    known = view.read_once(_read_vfs)
    return {f"{index} {vf}": _get_switches(known[index, vf]) for index, vf in ports if (index, vf) in known}


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Set the switches of VFs that exist and differ."""
    with machine.open_socket() as sock:
        names = {link.index: link.name for link in list_links(sock)}
        for key, switches in kept.items():
            index, number = map(int, key.split())
            try:
                vf = _list_vfs(sock, names[index]).get(number) if index in names else None
                if vf and _get_switches(vf) != switches:
                    trust, check = switches
                    sock.send([vfs.set_vf(index, number, vfs.VfChange(trust=trust, spoof_check=check))])
            except NetlinkError as error:
                yield f"VF {key}: {error}"


def _read_vfs(view: View) -> dict[tuple[int, int], Vf]:
    """Read the VFs of ports by interface index and number."""
    netdevs = {want.netdev for want in view.list_wants(Want)} if not view.machine.shared_reason else set()
    with view.machine.open_socket() as sock:
        ports = [link for netdev, link in view.ports.items() if netdev in netdevs]
        return {(port.index, number): vf for port in ports for number, vf in _list_vfs(sock, port.name).items()}


def _list_vfs(sock: Socket, name: str) -> dict[int, Vf]:
    """Return a port's VFs by number; empty if the kernel reports none."""
    try:
        return {vf.index: vf for vf in vfs.get_vfs(sock, name).vfs}
    except RequestError:
        return {}


def _get_switches(vf: Vf) -> list[bool | None]:
    return [vf.trust, vf.spoof_check]


def _list_switches(switches: tuple[bool | None, bool | None]) -> str:
    names = zip(("trust", "spoof check"), switches, strict=True)
    return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in names if on is not None)


KIND = Kind("vf_guard", (Want,), compare, keep=keep, restore=restore, must_wait=replaces_vfs)
