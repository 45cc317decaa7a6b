"""Kinds CPU state and kubelet's reading: what kubelet remembers of an old policy, and whether it knows our drop-in.

kubelet reads a folder of drop-ins only where it is started with --config-dir, and only at its start
(kubernetes.io, "Set kubelet parameters via a configuration file", drop-in directory). Its state of the CPU manager is
/var/lib/kubelet/cpu_manager_state; with another policyName than the configured one kubelet ends at once.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

from trackbed.host.change import Change, FileWrite, Skipped, refused, wanted
from trackbed.host.machine import Absent

if TYPE_CHECKING:
    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.host.setting import CpuState, KubeletReads, Setting

STATE = "/var/lib/kubelet/cpu_manager_state"


class _State(msgspec.Struct, rename="camel"):
    policy_name: str


def state(setting: Setting, want: CpuState, view: View) -> Change | Skipped | None:
    """The state of another policy: removed while kubelet is stopped, told while it runs."""
    machine, what = view.state.machine, "state of kubelet's CPU manager"
    text = Absent() if machine.shared else machine.read(STATE)
    if isinstance(text, Absent):
        return Skipped(setting, what, machine.shared) if machine.shared else None
    have = _policy(text)
    if have is None:
        return Skipped(setting, what, f"{STATE} cannot be read")
    if have == want.policy:
        return None
    if process(machine, "kubelet"):
        advice = f"drain this node, systemctl stop kubelet, apply again (it removes {STATE}), systemctl start kubelet"
        return refused(setting, what, have, want.policy, advice)
    return wanted(setting, what, have, want.policy, (FileWrite(STATE, None, 0o600),))


def reads(setting: Setting, want: KubeletReads, view: View) -> Change | Skipped | None:
    """Whether the kubelet that runs was told of the drop-ins, and started after ours was written."""
    machine, what = view.state.machine, "kubelet's drop-ins"
    number = "" if machine.shared else process(machine, "kubelet")
    if not number:
        return Skipped(setting, what, machine.shared or "no kubelet runs here")
    if not _told(machine, number, want.folder):
        advice = f"start kubelet with --config-dir={want.folder} (kubeadm: KUBELET_EXTRA_ARGS in /etc/default/kubelet)"
        return refused(setting, what, "not read", want.folder, advice)
    file, began = machine.path(want.file), started(machine, number)
    if file.is_file() and began is not None and began < file.stat().st_mtime:
        advice = "drain this node and restart kubelet: it was started before its drop-in was written"
        return refused(setting, what, "older than its drop-in", want.folder, advice)
    return None


def process(machine: Machine, name: str) -> str:
    """The number of a process of this name; empty if none runs."""
    for place in machine.path("/proc").glob("[0-9]*/comm"):
        if machine.read(f"/proc/{place.parent.name}/comm") == name:
            return place.parent.name
    return ""


def started(machine: Machine, number: str) -> float | None:
    """When a process was started, in seconds since 1970 (proc_pid_stat(5) field 22, proc_stat(5) btime)."""
    fields, boot = machine.read(f"/proc/{number}/stat"), machine.read("/proc/stat")
    if not isinstance(fields, str) or not isinstance(boot, str):
        return None
    since = next((line.split()[1] for line in boot.splitlines() if line.startswith("btime ")), None)
    ticks = fields.rpartition(")")[2].split()[19:20]
    return int(since) + int(ticks[0]) / os.sysconf("SC_CLK_TCK") if since and ticks else None


def _policy(text: object) -> str | None:
    try:
        return msgspec.json.decode(text, type=_State).policy_name if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None


def _told(machine: Machine, number: str, folder: str) -> bool:
    line = machine.read(f"/proc/{number}/cmdline")
    words = line.split("\0") if isinstance(line, str) else []
    return f"--config-dir={folder}" in words or any(pair == ("--config-dir", folder) for pair in pairwise(words))
