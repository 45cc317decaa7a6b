"""Kind RDMA namespaces: whether an RDMA device belongs to one network namespace or is visible in all.

The mode is a parameter of ib_core. It can change only while there is one network namespace
(drivers/infiniband/core/device.c, rdma_compatdev_set); otherwise the next boot sets it. It is read from sysfs and set
by netlink (`host.rdma_core`), without rdma(8).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host import rdma_core
from trackbed.host.change import Change, RdmaSet, Skipped, build_change, build_manual_change, build_reboot_change
from trackbed.host.kinds.file import RDMA_MODPROBE
from trackbed.host.kinds.kind import Kind, UndoData
from trackbed.host.kinds.processes import read_boot_time
from trackbed.host.kinds.rdma_sharers import explain_sharing
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.rdma import build_set_netns_mode

_MODES = {"Y": "shared", "N": "exclusive"}

OPTIONS = {"shared": "1", "exclusive": "0"}
"""Mode -> value of ib_core's option netns_mode (drivers/infiniband/core/device.c)."""


class Want(NamedTuple):
    """RDMA devices belong to one network namespace (`exclusive`) or are seen in all (`shared`)."""

    mode: str

    def __str__(self) -> str:
        return "RDMA namespace mode"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of the mode; skip machines without RDMA."""
    machine, subject, have = view.machine, str(want), _read_mode(view.machine)
    if machine.shared_reason or not have:
        return Skipped(setting, subject, machine.shared_reason or "no RDMA core is loaded here")
    if have == want.mode:
        return None
    if advice := _explain_obstacle(machine, want.mode, have):
        return build_manual_change(setting, subject, have, want.mode, advice)
    if _has_several_namespaces(machine):
        advice = "other network namespaces exist, so the mode can change only at a boot; reboot this host"
        return build_reboot_change(setting, subject, have, want.mode, advice)
    return build_change(setting, subject, have, want.mode, (RdmaSet(_build_mode_message(want.mode)),))


def _explain_obstacle(machine: Machine, mode: str, have: str) -> str:
    """Return why Trackbed cannot change the mode, now or by a reboot, and what to do; empty if it can."""
    if mode == "exclusive" and (reason := explain_sharing(machine)):
        return reason
    if _has_several_namespaces(machine):
        return _explain_useless_reboot(mode, have) if _has_booted_with_option(machine, mode) else ""
    return "" if _has_rdma_core(machine) else f"run on this host: rdma system set netns {mode}"


def _explain_useless_reboot(mode: str, have: str) -> str:
    return (
        f"this host was started with ib_core's netns_mode={OPTIONS[mode]}, and the mode is still {have}, so "
        "another reboot changes nothing: an initramfs loads ib_core with another option (write it anew: "
        "update-initramfs -u, or dracut -f), or a program has changed the mode since (rdma system set netns)"
    )


def _has_booted_with_option(machine: Machine, mode: str) -> bool:
    """Return whether the option was on the command line, or in modprobe.d before this boot."""
    option = f"netns_mode={OPTIONS[mode]}"
    if f"ib_core.{option}" in " ".join(machine.read_lines("/proc/cmdline")).split():
        return True
    boot, place = read_boot_time(machine), machine.locate(RDMA_MODPROBE)
    has_option = f"options ib_core {option}" in machine.read_lines(RDMA_MODPROBE)
    return has_option and boot is not None and place.stat().st_mtime < boot


def read_undo_data(view: View) -> UndoData:
    """Return the present mode; empty if no mode is planned or the present mode is unknown."""
    mode = _read_mode(view.machine) if view.list_wants(Want) and not view.machine.shared_reason else None
    return {"mode": mode} if mode else {}


def restore(machine: Machine, undo_data: UndoData) -> Iterator[str]:
    """Restore the mode; yield a failure as text."""
    for mode in undo_data.values():
        if _read_mode(machine) != mode and (why := rdma_core.send_message(machine, _build_mode_message(mode))):
            yield f"RDMA namespace mode {mode}: {why}"


def _build_mode_message(mode: str) -> Message:
    return build_set_netns_mode("shared" if mode == "shared" else "exclusive")


def _read_mode(machine: Machine) -> str | None:
    """Read the mode; None if no RDMA core is loaded."""
    text = machine.read("/sys/module/ib_core/parameters/netns_mode")
    return _MODES.get(text) if isinstance(text, str) else None


def _has_rdma_core(machine: Machine) -> bool:
    sock = rdma_core.open_socket(machine)
    if sock is not None:
        sock.close()
    return sock is not None


def _has_several_namespaces(machine: Machine) -> bool:
    """Return whether there are several network namespaces, of processes or in the folders of ip(8) and Docker."""
    if any(any(machine.locate(folder).glob("*")) for folder in ("/run/netns", "/run/docker/netns")):
        return True
    namespaces = set()
    for place in machine.locate("/proc").glob("[0-9]*/ns"):
        try:
            namespaces.add((place / "net").readlink())
        except OSError:
            continue  # the process has exited in the meantime
    return len(namespaces) > 1


KIND = Kind("rdma_namespaces", (Want,), compare, read_undo_data=read_undo_data, restore=restore)
