"""Kind file: a whole file of Trackbed that a program of the host reads, each under one of the names below.

The network's files are apart (`host.transaction.files`), since their set depends on what configures the network; these
are compared, written and undone like every other setting.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from trackbed.host.change import NOTHING, Change, FileWrite, Operation, Run, Skipped, advise, fulfil, remove
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.view import View
from trackbed.host.machine import Absent, Machine, Unreadable
from trackbed.host.setting import Setting

RDMA_MODPROBE = "/etc/modprobe.d/90-trackbed.conf"
RDMA_RULES = "/etc/udev/rules.d/59-trackbed-rdma.rules"
BOOT_UNIT = "/etc/systemd/system/trackbed-boot.service"
BOOT_WANTED = "/etc/systemd/system/multi-user.target.d/90-trackbed.conf"
BOOT_SCRIPT = "/etc/trackbed/boot.sh"
MEMLOCK = "/etc/security/limits.d/90-trackbed.conf"
KUBELET_DROP_IN = "/etc/kubernetes/kubelet.conf.d/90-trackbed.conf"
CONTAINERD_DROP_IN = "/etc/systemd/system/containerd.service.d/90-trackbed.conf"
NODE_PLAN = "/etc/trackbed/node.json"

NAMES = (
    ("rdma", RDMA_MODPROBE),
    ("rdma", RDMA_RULES),
    ("qos", BOOT_UNIT),
    ("qos", BOOT_WANTED),
    ("qos", BOOT_SCRIPT),
    ("limits", MEMLOCK),
    ("kubelet", KUBELET_DROP_IN),
    ("runtime", CONTAINERD_DROP_IN),
    ("runtime", NODE_PLAN),
)
"""Step and path of every file of this kind; those that no plan has any more are deleted."""


class Want(NamedTuple):
    """A whole file of Trackbed has this content; where none of `needs` (paths, `*` allowed) exists it has no meaning.

    `lack` names what is missing then. `after` is a command that makes a program read the file. `note` is what a person
    must do besides, because Trackbed would disturb what runs.
    """

    path: str
    content: str
    needs: tuple[str, ...] = ()
    lack: str = ""
    after: tuple[str, ...] = ()
    note: str = ""
    mode: int = 0o644

    def __str__(self) -> str:
        return f"file {self.path}"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change of a file that is missing or differs."""
    machine, subject = view.machine, str(want)
    if reason := machine.shared_reason or _find_lack(machine, want):
        return Skipped(setting, subject, reason)
    have = machine.read(want.path)
    if isinstance(have, Unreadable):
        return advise(setting, subject, "unreadable", "ours", f"{want.path} cannot be read: {have.reason}")
    if isinstance(have, str) and have == want.content.strip():
        return None
    state = NOTHING if isinstance(have, Absent) else "other content"
    change = fulfil(setting, subject, state, _shorten(want.content), _plan_operations(machine, want))
    return change._replace(advice="; ".join(filter(None, (change.advice, want.note))))


def find_stale(view: View) -> Iterator[Change]:
    """Yield the removal of files that no setting wants."""
    planned = {want.path for want in view.list_wants(Want)}
    for step, path in NAMES if not view.machine.shared_reason else ():
        if path not in planned and view.machine.locate(path).is_file():
            yield remove(step, None, f"old file {path}", "ours", (FileWrite(path, None),))


def _find_lack(machine: Machine, want: Want) -> str:
    """Return the reason why the file is not needed; empty if it is."""
    is_needed = not want.needs or any(any(machine.root.glob(need.lstrip("/"))) for need in want.needs)
    return "" if is_needed else want.lack or f"there is no {want.needs[0]}"


def _plan_operations(machine: Machine, want: Want) -> tuple[Operation, ...]:
    write = FileWrite(want.path, want.content, want.mode)
    return (write, Run(want.after, want.after)) if _can_run(machine, want.after) else (write,)


def _can_run(machine: Machine, after: tuple[str, ...]) -> bool:
    """Return whether there is a command to run: systemctl only where systemd runs (sd_booted(3))."""
    if not after or not machine.has_program(after[0]):
        return False
    return after[0] != "systemctl" or machine.locate("/run/systemd/system").is_dir()


def _shorten(content: str) -> str:
    lines = [line for line in content.splitlines() if line and not line.startswith(("#", "["))]
    return lines[0] if len(lines) == 1 else f"{len(lines)} lines"


KIND = Kind("file", (Want,), compare, find_stale, is_for_boot=True)
