"""Kind kubelet drop-ins: the running kubelet has read Trackbed's drop-in.

kubelet reads a folder of drop-ins only if it is started with --config-dir, and only at startup
(kubernetes.io, "Set kubelet parameters via a configuration file", drop-in directory). RKE2 and k3s start it with a
folder of their own since 1.32, and k3s runs it in its own process; OpenShift's machine-config operator owns its
arguments.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from trackbed.host.change import Change, Skipped, build_manual_change
from trackbed.host.kinds.kind import Kind
from trackbed.host.kinds.processes import find_processes, read_start_time
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import Setting

_K3S_FOLDER = "/var/lib/rancher/k3s/agent/etc/kubelet.conf.d"
_PROCESSES = {"kubelet": "", "k3s-server": _K3S_FOLDER, "k3s-agent": _K3S_FOLDER}
"""Process that runs a kubelet -> its folder of drop-ins, if its arguments do not name one."""
_OPENSHIFT = "/etc/machine-config-daemon"
_CONFIG_DIR = re.compile(r"(?:^|\0)--config-dir[=\0]([^\0]+)")


class Want(NamedTuple):
    """The running kubelet reads drop-ins from `folder`, and has started since `file` was written."""

    folder: str
    file: str

    def __str__(self) -> str:
        return "kubelet's drop-ins"


def compare(setting: Setting, want: Want, view: View) -> Change | Skipped | None:
    """Return advice if kubelet does not read the folder, or was started before the file was written."""
    machine, subject = view.machine, str(want)
    process, pid = _find_kubelet(machine) if not machine.shared_reason else ("", "")
    if not pid:
        return Skipped(setting, subject, machine.shared_reason or "no kubelet runs here")
    folder = _find_folder(machine, pid) or _PROCESSES[process]
    if not _has_drop_in(machine, folder, want):
        return build_manual_change(setting, subject, "not read", want.folder, _advise(machine, folder, want))
    file, start = machine.locate(want.file), read_start_time(machine, pid)
    if file.is_file() and start is not None and start < file.stat().st_mtime:
        advice = "drain this node and restart kubelet: it was started before its drop-in was written"
        return build_manual_change(setting, subject, "older than its drop-in", want.folder, advice)
    return None


def _find_kubelet(machine: Machine) -> tuple[str, str]:
    """Return name and PID of the process that runs a kubelet; two empty strings if there is none."""
    pids = ((name, pid) for name in _PROCESSES for pid in find_processes(machine, name))
    return next(pids, ("", ""))


def _find_folder(machine: Machine, pid: str) -> str:
    """Return the folder of drop-ins in the arguments of a process; "" if they name none."""
    line = machine.read(f"/proc/{pid}/cmdline")
    match = _CONFIG_DIR.search(line) if isinstance(line, str) else None
    return match[1] if match else ""


def _has_drop_in(machine: Machine, folder: str, want: Want) -> bool:
    """Return whether a folder is the wanted one, or has a link to the wanted file or a copy of it."""
    if folder == want.folder:
        return True
    name = want.file.rpartition("/")[2]
    copy = machine.read(f"{folder}/{name}") if folder else None
    return isinstance(copy, str) and copy == machine.read(want.file)


def _advise(machine: Machine, folder: str, want: Want) -> str:
    if machine.locate(_OPENSHIFT).is_dir():
        return "OpenShift configures kubelet: write a KubeletConfig with the same fields as the Fabric's kubelet"
    if folder:
        return f"drain this node, ln -s {want.file} {folder}/ and restart the service of kubelet, RKE2 or k3s"
    return f"start kubelet with --config-dir={want.folder} (kubeadm: KUBELET_EXTRA_ARGS in /etc/default/kubelet)"


KIND = Kind("kubelet_reads", (Want,), compare)
