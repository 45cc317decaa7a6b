"""Kind RDMA namespaces: which network namespace sees an RDMA device.

The mode is a parameter of ib_core and can be changed while the kernel runs only as long as there is one network
namespace (drivers/infiniband/core/device.c, rdma_compatdev_set); later, the next boot sets it. It is read from sysfs;
a change is requested of the kernel itself (`host.talk`), with no need of rdma(8).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host import talk
from trackbed.host.change import Change, RdmaSet, Skipped, advise, await_boot, fulfil
from trackbed.host.kinds.kind import Kept, Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.rdma import set_netns_mode

_MODES = {"Y": "shared", "N": "exclusive"}


class Want(NamedTuple):
    """RDMA devices belong to one network namespace (`exclusive`) or are seen in all (`shared`)."""

    mode: str

    def __str__(self) -> str:
        return "RDMA namespace mode"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of the mode, where there is RDMA at all."""
    machine, subject, have = view.machine, str(want), _read_mode(view.machine)
    if machine.shared_reason or not have:
        return Skipped(setting, subject, machine.shared_reason or "no RDMA core is loaded here")
    if have == want.mode:
        return None
    if _has_other_namespaces(machine):
        advice = "other network namespaces exist, so the mode can change only at a boot; reboot this host"
        return await_boot(setting, subject, have, want.mode, advice)
    if not _answers(machine):
        return advise(setting, subject, have, want.mode, f"run on this host: rdma system set netns {want.mode}")
    return fulfil(setting, subject, have, want.mode, (RdmaSet(_build_mode(want.mode)),))


def keep(view: View) -> Kept:
    """Return the mode, where it is wanted and known."""
    mode = _read_mode(view.machine) if view.list_wants(Want) and not view.machine.shared_reason else None
    return {"mode": mode} if mode else {}


def restore(machine: Machine, kept: Kept) -> Iterator[str]:
    """Set the mode."""
    mode = kept["mode"]
    if _read_mode(machine) != mode and (why := talk.send_message(machine, _build_mode(mode))):
        yield f"RDMA namespace mode {mode}: {why}"


def _build_mode(mode: str) -> Message:
    return set_netns_mode("shared" if mode == "shared" else "exclusive")


def _read_mode(machine: Machine) -> str | None:
    """Read the mode; None where no RDMA core is loaded."""
    text = machine.read("/sys/module/ib_core/parameters/netns_mode")
    return _MODES.get(text) if isinstance(text, str) else None


def _answers(machine: Machine) -> bool:
    sock = talk.open_rdma(machine)
    if sock is None:
        return False
    with sock:
        return True


def _has_other_namespaces(machine: Machine) -> bool:
    """Return whether processes are in more than one network namespace, or one is kept without any."""
    if any(any(machine.locate(folder).glob("*")) for folder in ("/run/netns", "/run/docker/netns")):
        return True
    namespaces = set()
    for place in machine.locate("/proc").glob("[0-9]*/ns"):
        try:
            namespaces.add((place / "net").readlink())
        except OSError:
            continue  # the process has ended meanwhile
    return len(namespaces) > 1


KIND = Kind("rdma_namespaces", (Want,), compare, keep=keep, restore=restore)
