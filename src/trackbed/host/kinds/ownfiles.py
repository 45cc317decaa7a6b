"""Kind file: a whole file of ours that a program of the host reads, each under one of the names below.

They lie apart from the network's files (`transaction.files`), whose set depends on what configures the network. These
are compared, written and undone like every other setting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trackbed.host.change import NOTHING, Change, FileWrite, Operation, Run, Skipped, refused, stale, wanted
from trackbed.host.machine import Absent, Unreadable
from trackbed.host.setting import File
from trackbed.host.steps import boot, kubelet, limits, rdma, runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import Setting

NAMES = (
    ("rdma", rdma.MODPROBE),
    ("rdma", rdma.RULES),
    ("qos", boot.UNIT),
    ("qos", boot.WANTED),
    ("qos", boot.SCRIPT),
    ("limits", limits.MEMLOCK),
    ("kubelet", kubelet.DROP_IN),
    ("runtime", runtime.DROP_IN),
    ("runtime", runtime.NODE_PLAN),
)
"""Step and path of every file of this kind; those that no plan asks for any more are deleted."""


def compare(setting: Setting, want: File, view: View) -> Change | Skipped | None:
    """The file that is missing or differs."""
    machine, what = view.state.machine, f"file {want.path}"
    if reason := machine.shared or _needless(machine, want):
        return Skipped(setting, what, reason)
    have = machine.read(want.path)
    if isinstance(have, Unreadable):
        return refused(setting, what, "unreadable", "ours", f"{want.path} cannot be read: {have.reason}")
    if isinstance(have, str) and have == want.content.strip():
        return None
    state = NOTHING if isinstance(have, Absent) else "other content"
    change = wanted(setting, what, state, _short(want.content), _operations(machine, want))
    return replace(change, advice="; ".join(told for told in (change.advice, want.note) if told))


def unplanned(view: View, steps: frozenset[str]) -> Iterator[Change]:
    """Files of ours, in these steps, that no setting asks for."""
    machine = view.state.machine
    planned = {setting.want.path for setting in view.settings if isinstance(setting.want, File)}
    for step, path in NAMES:
        if step in steps and path not in planned and machine.path(path).is_file():
            yield stale(step, None, f"old file {path}", "ours", (FileWrite(path, None),))


def _needless(machine: Machine, want: File) -> str:
    if not want.needs or any(_there(machine, need) for need in want.needs):
        return ""
    return want.lack or f"there is no {want.needs[0]}"


def _there(machine: Machine, need: str) -> bool:
    return any(machine.root.glob(need.lstrip("/")))


def _operations(machine: Machine, want: File) -> tuple[Operation, ...]:
    write = FileWrite(want.path, want.content, want.mode)
    return (write, Run(want.after, want.after)) if _asks(machine, want.after) else (write,)


def _asks(machine: Machine, after: tuple[str, ...]) -> bool:
    """Whether there is somebody to tell: systemd only where it runs (sd_booted(3))."""
    booted = not after or after[0] != "systemctl" or machine.path("/run/systemd/system").is_dir()
    return bool(after) and booted and machine.has(after[0])


def _short(content: str) -> str:
    lines = [line for line in content.splitlines() if line and not line.startswith(("#", "["))]
    return lines[0] if len(lines) == 1 else f"{len(lines)} lines"
