"""Kind file: one of Trackbed's files (`NAMES`) that a program of the host reads.

The network's files are not settings (`host.transaction.files`), because their set depends on the network manager.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import (
    ABSENT_VALUE,
    Change,
    FileWrite,
    Operation,
    Run,
    Skipped,
    build_change,
    build_manual_change,
    build_removal,
)
from trackbed.host.kinds.kind import Kind, keep_pods
from trackbed.host.kinds.rdma_sharers import explain_sharing
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.setting import Setting

ACS_SCRIPT = "/etc/trackbed/acs.sh"
ACS_UNIT = "/etc/systemd/system/trackbed-acs.service"
ACS_WANTED = "/etc/systemd/system/multi-user.target.d/91-trackbed-acs.conf"
MODULES = "/etc/modules-load.d/90-trackbed.conf"
RDMA_MODPROBE = "/etc/modprobe.d/90-trackbed.conf"
RDMA_RULES = "/etc/udev/rules.d/59-trackbed-rdma.rules"
PORT_UNIT = "/etc/systemd/system/trackbed-port@.service"
BOOT_TARGET = "/etc/systemd/system/trackbed-boot.target"
NAME_RULES = "/etc/udev/rules.d/59-trackbed-names.rules"
VF_RULES = "/etc/udev/rules.d/59-trackbed-vfs.rules"
BOOT_WANTED = "/etc/systemd/system/multi-user.target.d/90-trackbed.conf"
BOOT_SCRIPT = "/etc/trackbed/boot.sh"
PORT_RULES = "/etc/udev/rules.d/90-trackbed-ports.rules"
MEMLOCK = "/etc/security/limits.d/90-trackbed.conf"
KUBELET_DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-trackbed.conf"
RUNTIME_DROP_INS = {
    unit: f"/etc/systemd/system/{unit}.service.d/90-trackbed.conf"
    for unit in ("containerd", "crio", "rke2-server", "rke2-agent", "k3s", "k3s-agent")
}
"""Unit of a container runtime -> its drop-in. RKE2 and k3s start a containerd of their own."""
NODE_PLAN = "/etc/trackbed/node.json"

NAMES = (
    ("acs", ACS_SCRIPT),
    ("acs", ACS_UNIT),
    ("acs", ACS_WANTED),
    ("drivers", MODULES),
    ("rdma", RDMA_MODPROBE),
    ("rdma", RDMA_RULES),
    ("vfs", VF_RULES),
    ("names", NAME_RULES),
    ("qos", PORT_UNIT),
    ("qos", BOOT_TARGET),
    ("qos", BOOT_WANTED),
    ("qos", BOOT_SCRIPT),
    ("qos", PORT_RULES),
    ("limits", MEMLOCK),
    ("kubelet", KUBELET_DROP_IN),
    *(("runtime", path) for path in RUNTIME_DROP_INS.values()),
    ("runtime", NODE_PLAN),
)
"""Step and path of every file of this kind. Files that are no longer planned are deleted."""


_DAEMONS = {"systemctl": "/run/systemd/system", "udevadm": "/run/udev/control"}
"""Program that asks a daemon -> a path that exists while the daemon runs."""


class Want(NamedTuple):
    """A file of Trackbed has this content.

    It is skipped with `skip_reason` if none of `needs` (paths, `*` allowed) exists. `reload_command` makes a program
    read the file. With `ends_sharing` it is refused while containers share RDMA devices of the host (`rdma_sharers`).
    """

    path: str
    content: str
    needs: tuple[str, ...] = ()
    skip_reason: str = ""
    reload_command: tuple[str, ...] = ()
    mode: int = 0o644
    ends_sharing: bool = False

    def __str__(self) -> str:
        return f"file {self.path}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a file that is missing or differs."""
    machine, subject = view.machine, str(want)
    if reason := machine.shared_reason or _explain_skip(machine, want):
        return Skipped(setting, subject, reason)
    have = machine.read(want.path)
    if isinstance(have, Unreadable):
        return build_manual_change(setting, subject, "unreadable", "ours", f"{want.path} cannot be read: {have.reason}")
    if isinstance(have, str) and have == want.content.strip():
        return None
    state = ABSENT_VALUE if isinstance(have, Absent) else "other content"
    if want.ends_sharing and (reason := explain_sharing(machine)):
        return build_manual_change(setting, subject, state, _summarize_content(want.content), reason)
    return build_change(setting, subject, state, _summarize_content(want.content), _build_operations(machine, want))


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of files that are no longer planned."""
    planned = {want.path for want in view.list_wants(Want)}
    for step, path in NAMES if not view.machine.shared_reason else ():
        if path not in planned and view.machine.locate(path).is_file():
            yield build_removal(step, None, f"old file {path}", "ours", (FileWrite(path, None),))


def _explain_skip(machine: Machine, want: Want) -> str:
    """Return why the file is not needed; empty if it is."""
    is_needed = not want.needs or any(any(machine.root.glob(need.lstrip("/"))) for need in want.needs)
    return "" if is_needed else want.skip_reason or f"there is no {want.needs[0]}"


def _build_operations(machine: Machine, want: Want) -> tuple[Operation, ...]:
    write = FileWrite(want.path, want.content, want.mode)
    return (
        (write, Run(want.reload_command, want.reload_command)) if _can_run(machine, want.reload_command) else (write,)
    )


def _can_run(machine: Machine, command: tuple[str, ...]) -> bool:
    """Return whether the command can run: systemctl and udevadm need a daemon that runs (sd_booted(3))."""
    if not command or not machine.has_program(command[0]):
        return False
    return command[0] not in _DAEMONS or machine.locate(_DAEMONS[command[0]]).exists()


def _summarize_content(content: str) -> str:
    lines = [line for line in content.splitlines() if line and not line.startswith(("#", "["))]
    return lines[0] if len(lines) == 1 else f"{len(lines)} lines"


KIND = Kind("file", (Want,), compare, find_stale, disrupts_pods=keep_pods, is_for_boot=True)
