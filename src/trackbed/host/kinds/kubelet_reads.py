"""Kind kubelet's drop-ins: whether the kubelet that runs has read ours.

kubelet reads a folder of drop-ins only where it is started with --config-dir, and only at its start
(kubernetes.io, "Set kubelet parameters via a configuration file", drop-in directory).
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, advise
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.processes import find_processes, read_start
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting


class Want(NamedTuple):
    """The running kubelet reads drop-ins from `folder`, and has started since `file` was written."""

    folder: str
    file: str

    def __str__(self) -> str:
        return "kubelet's drop-ins"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return the change where kubelet does not read the folder, or was started before our file was written."""
    machine, subject = view.machine, str(want)
    pid = "" if machine.shared_reason else next(find_processes(machine, "kubelet"), "")
    if not pid:
        return Skipped(setting, subject, machine.shared_reason or "no kubelet runs here")
    if not _reads(machine, pid, want.folder):
        advice = f"start kubelet with --config-dir={want.folder} (kubeadm: KUBELET_EXTRA_ARGS in /etc/default/kubelet)"
        return advise(setting, subject, "not read", want.folder, advice)
    file, start = machine.locate(want.file), read_start(machine, pid)
    if file.is_file() and start is not None and start < file.stat().st_mtime:
        advice = "drain this node and restart kubelet: it was started before its drop-in was written"
        return advise(setting, subject, "older than its drop-in", want.folder, advice)
    return None


def _reads(machine: Machine, pid: str, folder: str) -> bool:
    line = machine.read(f"/proc/{pid}/cmdline")
    words = line.split("\0") if isinstance(line, str) else []
    return f"--config-dir={folder}" in words or any(pair == ("--config-dir", folder) for pair in pairwise(words))


KIND = Kind("kubelet_reads", (Want,), compare)
