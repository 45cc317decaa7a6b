"""Kinds RDMA namespaces and RDMA name: which namespace sees an RDMA device, and what it is called.

The mode is a parameter of ib_core and can be changed while the kernel runs only as long as there is one network
namespace (drivers/infiniband/core/device.c, rdma_compatdev_set); later, the next boot brings it. What is there is read
from sysfs; a change is asked of the kernel itself (`host.talk`), with no need of rdma(8). A device keeps its index
when its name changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.host import talk
from trackbed.host.change import Change, RdmaSet, Skipped, awaiting, refused, wanted
from trackbed.host.kinds.attributes import rdma_device
from trackbed.host.setting import RdmaName, RdmaNamespaces
from trackbed.kernel.netlink.rdma import NetnsMode, rename_device, set_netns_mode

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting

_MODE = "/sys/module/ib_core/parameters/netns_mode"
_MODES: dict[str, NetnsMode] = {"Y": "shared", "N": "exclusive"}
_DEVICES = "/sys/class/infiniband"


def namespaces(setting: Setting, want: RdmaNamespaces, view: View) -> Change | Skipped | None:
    """The mode, where RDMA is there at all."""
    machine, what = view.state.machine, "RDMA namespace mode"
    have = "" if machine.shared else mode(machine)
    if not have:
        return Skipped(setting, what, machine.shared or "no RDMA core is loaded here")
    if have == want.mode:
        return None
    if _other_namespaces(machine):
        advice = "other network namespaces exist, so the mode can change only at a boot; reboot this host"
        return awaiting(setting, what, have, want.mode, advice)
    if not _answers(machine):
        return refused(setting, what, have, want.mode, f"run on this host: rdma system set netns {want.mode}")
    return wanted(setting, what, have, want.mode, (RdmaSet(set_netns_mode(_named(want.mode))),))


def name(setting: Setting, want: RdmaName, view: View) -> Change | Skipped | None:
    """The RDMA device that is called otherwise."""
    machine, what = view.state.machine, f"RDMA device of {want.netdev}"
    have = "" if machine.shared else rdma_device(view, want.netdev)
    if not have:
        return Skipped(setting, what, machine.shared or f"{want.netdev} has no RDMA device here")
    if have == want.name:
        return None
    if machine.path(f"{_DEVICES}/{want.name}").exists():
        advice = f"another RDMA device is called {want.name}; give it another name: rdma dev set {want.name} name NAME"
        return refused(setting, what, have, want.name, advice)
    index = talk.devices(machine).get(have)
    if index is None:
        return refused(setting, what, have, want.name, f"run on this host: rdma dev set {have} name {want.name}")
    return wanted(setting, what, have, want.name, (RdmaSet(rename_device(index, want.name)),))


def mode(machine: Machine) -> str:
    """`shared` or `exclusive`; empty where no RDMA core is loaded."""
    text = machine.read(_MODE)
    return _MODES.get(text, "") if isinstance(text, str) else ""


def taken(view: View) -> dict[str, str]:
    """What `restore` needs: the mode under its path, each planned port's device name under the device's index."""
    machine = view.state.machine
    if machine.shared:
        return {}
    wants = [setting.want for setting in view.settings]
    found = {}
    if any(isinstance(want, RdmaNamespaces) for want in wants) and (now := mode(machine)):
        found[_MODE] = now
    names = [rdma_device(view, want.netdev) for want in wants if isinstance(want, RdmaName)]
    indexes = talk.devices(machine) if any(names) else {}
    return found | {str(indexes[one]): one for one in names if one in indexes}


def restore(machine: Machine, before: Mapping[str, str]) -> tuple[str, ...]:
    """Set the mode and the names as they were; returns what could not be."""
    now = {str(index): name for name, index in talk.devices(machine).items()} if before else {}
    wrong = []
    for key, then in before.items():
        if key == _MODE:
            why = "" if mode(machine) == then else talk.told(machine, set_netns_mode(_named(then)))
            wrong += [f"RDMA namespace mode {then}: {why}"] if why else []
        elif key not in now:
            wrong.append(f"RDMA device {then} is gone")
        elif now[key] != then and (why := talk.told(machine, rename_device(int(key), then))):
            wrong.append(f"name {then} of RDMA device {now[key]}: {why}")
    return tuple(wrong)


def _named(wish: str) -> NetnsMode:
    return "shared" if wish == "shared" else "exclusive"


def _answers(machine: Machine) -> bool:
    sock = talk.opened(machine)
    if sock is None:
        return False
    with sock:
        return True


def _other_namespaces(machine: Machine) -> bool:
    """Whether processes are in more than one network namespace, or one is kept without any."""
    if any(any(machine.path(folder).glob("*")) for folder in ("/run/netns", "/run/docker/netns")):
        return True
    seen = set()
    for place in machine.path("/proc").glob("[0-9]*/ns"):
        try:
            seen.add((place / "net").readlink())
        except OSError:
            continue  # the process has ended meanwhile
    return len(seen) > 1
