"""Kinds RDMA namespaces and RDMA name: which namespace sees an RDMA device, and what it is called.

The mode is a parameter of ib_core and can be changed while the kernel runs only as long as there is one network
namespace (drivers/infiniband/core/device.c, rdma_compatdev_set); later, the next boot brings it. Live changes are made
by rdma(8), whose effect is looked up in sysfs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.chain.setting import RdmaName, RdmaNamespaces
from trackbed.hosts.attributes import rdma_device
from trackbed.hosts.change import NOTHING, Change, Run, Skipped, awaiting, refused, wanted
from trackbed.hosts.perform import RefusedError, run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trackbed.chain.setting import Setting
    from trackbed.hosts.machine import Machine
    from trackbed.hosts.view import View

_MODE = "/sys/module/ib_core/parameters/netns_mode"
_MODES = {"Y": "shared", "N": "exclusive"}
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
    command = _set_mode(want.mode)
    if not machine.has(command[0]):
        return refused(setting, what, have, want.mode, f"run on this host: {' '.join(command)}")
    return wanted(setting, what, have, want.mode, (Run(command),))


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
    command = _rename(have, want.name)
    if not machine.has(command[0]):
        return refused(setting, what, have, want.name, f"run on this host: {' '.join(command)}")
    return wanted(setting, what, have, want.name, (Run(command),))


def mode(machine: Machine) -> str:
    """`shared` or `exclusive`; empty where no RDMA core is loaded."""
    text = machine.read(_MODE)
    return _MODES.get(text, "") if isinstance(text, str) else ""


def taken(view: View) -> dict[str, str]:
    """What `restore` needs: the mode under its path, each device's name under the folder of its PCI device."""
    machine = view.state.machine
    if machine.shared:
        return {}
    wants = [setting.want for setting in view.settings]
    found = {}
    if any(isinstance(want, RdmaNamespaces) for want in wants) and (now := mode(machine)):
        found[_MODE] = now
    for want in wants:
        now = rdma_device(view, want.netdev) if isinstance(want, RdmaName) else ""
        if now and (parent := _parent(machine, now)):
            found[parent] = now
    return found


def restore(machine: Machine, before: Mapping[str, str]) -> tuple[str, ...]:
    """Set the mode and the names as they were; returns what could not be."""
    wrong = []
    for place, then in before.items():
        now = mode(machine) if place == _MODE else _called(machine, place)
        if now == then:
            continue
        try:
            run(machine, _set_mode(then) if place == _MODE else _rename(now or NOTHING, then))
        except RefusedError as error:
            wrong.append(str(error))
    return tuple(wrong)


def _set_mode(wish: str) -> tuple[str, ...]:
    return ("rdma", "system", "set", "netns", wish)


def _rename(old: str, new: str) -> tuple[str, ...]:
    return ("rdma", "dev", "set", old, "name", new)


def _parent(machine: Machine, device: str) -> str:
    """The folder of a device's PCI device, which stays when names change; empty if it is not below the root."""
    real, root = (machine.path(_DEVICES) / device / "device").resolve(), machine.root.resolve()
    return f"/{real.relative_to(root)}" if real.is_relative_to(root) else ""


def _called(machine: Machine, parent: str) -> str:
    found = [one.name for one in machine.path(parent).glob("infiniband/*")]
    return found[0] if len(found) == 1 else ""


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
