"""Kinds VF guard and VF MTU: what each virtual function of a port may do, and the MTU of its interface.

Trust and spoof check are the port's to say (rtnetlink, `netlink.vfs`), wherever the VF is: in a pod, in a virtual
machine, or here. The MTU belongs to the VF's own interface, and is left alone while that is not on the host: then it is
the pod's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.host.change import Change, Skipped, wanted
from trackbed.host.kinds.attributes import device
from trackbed.host.setting import VfGuard, VfMtu
from trackbed.kernel.netlink import vfs
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import Link, list_links, set_link
from trackbed.kernel.netlink.sockets import BatchError, RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting
    from trackbed.host.state import HostState
    from trackbed.kernel.netlink.codec import Message
    from trackbed.kernel.netlink.sockets import Socket
    from trackbed.kernel.netlink.vfs import Vf

_MTU, _GUARD = "mtu", "guard"
_NO_VF = "there is no such VF yet"


def read(state: HostState, ports: Iterable[Link]) -> dict[str, tuple[Vf, ...]]:
    """The VFs of ports by the name each port has now; none where the kernel tells of none."""
    with state.machine.socket() as sock:
        return {link.name: _vfs(sock, link.name) for link in ports}


def _vfs(sock: Socket, name: str) -> tuple[Vf, ...]:
    try:
        return vfs.get_vfs(sock, name).vfs
    except RequestError:
        return ()


def guard(setting: Setting, want: VfGuard, view: View) -> Change | Skipped | None:
    """Trust and spoof check of a VF, each where the driver has it."""
    machine, what = view.state.machine, f"VF {want.vf} of {want.netdev}"
    link = view.ports[want.netdev]
    now = next((vf for vf in view.vfs.get(link.name, ()) if vf.index == want.vf), None)
    if machine.shared or now is None:
        return Skipped(setting, what, machine.shared or _NO_VF)
    if isinstance(machine.read(f"/sys/class/net/{link.name}/phys_switch_id"), str):
        return Skipped(setting, what, f"{want.netdev} is in switchdev mode: the ports of its switch rule the VFs")
    if now.trust is None and now.spoof_check is None:
        return Skipped(setting, what, "this port's driver has neither trust nor spoof check")
    trust = want.trust if now.trust not in {None, want.trust} else None
    check = want.spoof_check if now.spoof_check not in {None, want.spoof_check} else None
    if trust is None and check is None:
        return None
    message = vfs.set_vf(link.index, want.vf, vfs.VfChange(trust=trust, spoof_check=check))
    have = _words(now.trust, now.spoof_check)
    wish = _words(
        *(
            None if had is None else wished
            for had, wished in ((now.trust, want.trust), (now.spoof_check, want.spoof_check))
        )
    )
    return wanted(setting, what, have, wish, (message,))


def _words(trust: bool | None, check: bool | None) -> str:  # noqa: FBT001 - two switches as the kernel tells them
    told = {"trust": trust, "spoof check": check}
    return ", ".join(f"{name} {'on' if on else 'off'}" for name, on in told.items() if on is not None)


def mtu(setting: Setting, want: VfMtu, view: View) -> Change | Skipped | None:
    """The MTU of a VF's interface, as long as that is on the host."""
    machine, what = view.state.machine, f"MTU of VF {want.vf} of {want.netdev}"
    folder = "" if machine.shared else device(view, want.netdev, want.pci)
    link, why = _interface(view.state, f"{folder}/virtfn{want.vf}") if folder else (None, _NO_VF)
    if link is None:
        return Skipped(setting, what, machine.shared or why)
    if link.mtu == want.mtu_bytes:
        return None
    port = view.ports[want.netdev]
    if port.mtu < want.mtu_bytes:
        return Skipped(setting, what, f"the MTU of {want.netdev} is {port.mtu}, and a VF's cannot be above it")
    return wanted(setting, what, str(link.mtu), str(want.mtu_bytes), (set_link(link.index, mtu=want.mtu_bytes),))


def _interface(state: HostState, virtual: str) -> tuple[Link | None, str]:
    """The interface of a VF, or why there is none on the host."""
    place = state.machine.path(virtual)
    if not place.is_dir():
        return None, _NO_VF
    driver = (place / "driver").resolve().name if (place / "driver").exists() else ""
    if not driver:
        return None, "no driver has this VF"
    if driver.startswith("vfio"):
        return None, f"this VF is given to {driver}"
    found = [link for one in (place / "net").glob("*") if (link := state.link(one.name))]
    return (found[0], "") if found else (None, "the interface of this VF is in a pod")


def taken(view: View) -> dict[str, str]:
    """What `restore` needs: `guard INDEX VF` -> trust and spoof check as 1, 0 or -; `mtu PCI-ADDRESS` -> MTU."""
    if view.state.machine.shared:
        return {}
    found = {}
    for setting in view.settings:
        match setting.want:
            case VfGuard(netdev, number) if link := view.ports.get(netdev):
                for one in view.vfs.get(link.name, ()):
                    if one.index == number:
                        found[f"{_GUARD} {link.index} {number}"] = _sign(one.trust) + _sign(one.spoof_check)
            case VfMtu(netdev, pci, number) if folder := device(view, netdev, pci):
                virtual = f"{folder}/virtfn{number}"
                own, _ = _interface(view.state, virtual)
                if own:
                    found[f"{_MTU} {view.state.machine.path(virtual).resolve().name}"] = str(own.mtu)
    return found


def restore(machine: Machine, before: Mapping[str, str]) -> tuple[str, ...]:
    """Set what is otherwise than it was, of VFs that are there; returns what could not be."""
    if not before:
        return ()
    wrong = []
    with machine.socket() as sock:
        links = {link.index: link for link in list_links(sock)}
        for key, then in before.items():
            kind, *rest = key.split()
            message = _guard_back(sock, links, rest, then) if kind == _GUARD else _mtu_back(machine, links, rest, then)
            try:
                sock.send([message] if message else [])
            except BatchError as error:
                wrong.append(f"{'VF' if kind == _GUARD else 'MTU of VF'} {' '.join(rest)}: {error}")
            except NetlinkError as error:
                wrong.append(f"VF {' '.join(rest)}: {error}")
    return tuple(wrong)


def _guard_back(sock: Socket, links: Mapping[int, Link], place: list[str], then: str) -> Message | None:
    index, number = map(int, place)
    link = links.get(index)
    now = next((vf for vf in _vfs(sock, link.name) if vf.index == number), None) if link else None
    if now is None or _sign(now.trust) + _sign(now.spoof_check) == then:
        return None
    trust, check = (None if sign == "-" else sign == "1" for sign in then)
    return vfs.set_vf(index, number, vfs.VfChange(trust=trust, spoof_check=check))


def _mtu_back(machine: Machine, links: Mapping[int, Link], place: list[str], then: str) -> Message | None:
    names = {one.name for one in machine.path(f"/sys/bus/pci/devices/{place[0]}/net").glob("*")}
    own = next((link for link in links.values() if link.name in names), None)
    return set_link(own.index, mtu=int(then)) if own and own.mtu != int(then) else None


def _sign(on: bool | None) -> str:  # noqa: FBT001 - a switch as the kernel tells it
    return "-" if on is None else str(int(on))
