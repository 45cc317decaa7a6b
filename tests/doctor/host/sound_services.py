"""A sound host with containerd 2.2 and kubelet 1.36, and with Slurm: processes, files of their configuration.

Limits are laid out as proc_pid_limits(5) has them; the configuration as kubeadm 1.36 and `containerd config default`
write it (shortened to what is looked at).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.doctor.sound import build_sound_view, compute_small_plan
from trackbed.doctor.diagnosis import diagnose_nodes, select_finding_to_fix
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import KernelPlan, KubeletPlan
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot

STEPS = ("limits", "kubelet", "runtime")
"""Steps for which this host has all data."""

PLANNED = compute_small_plan().nodes[0]
COMMON = PLANNED.common._replace(
    kernel=KernelPlan(iommu=True, isolated_cpus="8-15"), kubelet=KubeletPlan("restricted", "0-3")
)
NODE = PLANNED._replace(common=COMMON)
KUBELET, CONTAINERD, SLURMD = 900, 800, 700
PS = ("ps", "-C", "kubelet", "-o", "args=")
ARGS = "/usr/bin/kubelet --config=/var/lib/kubelet/config.yaml --node-ip=192.0.2.10"
CONFIG = "/var/lib/kubelet/config.yaml"
KUBELET_CONFIG = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: systemd
cpuManagerPolicy: static
memoryManagerPolicy: None
reservedSystemCPUs: 0-3
topologyManagerPolicy: restricted
"""
CPU_STATE, MEMORY_STATE = "/var/lib/kubelet/cpu_manager_state", "/var/lib/kubelet/memory_manager_state"
CONTAINERD_CONFIG = """\
version = 3
imports = ['/etc/containerd/conf.d/*.toml']
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
[plugins.'io.containerd.cri.v1.runtime'.cni]
conf_dir = '/etc/cni/net.d'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
runtime_type = 'io.containerd.runc.v2'
[plugins.'io.containerd.nri.v1.nri']
disable = false
"""
CDI = '{"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0"}, {"name": "all"}]}'
SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def render_limits(files: str = "1048576", stack: str = "8388608", memlock: str = "unlimited") -> str:
    """Return the limits file of a process."""
    return (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max stack size            {stack:<20} unlimited            bytes     \n"
        f"Max open files            {files:<20} 1048576              files     \n"
        f"Max locked memory         {memlock:<20} unlimited            bytes     \n"
    )


def build_services() -> Snapshot:
    """Return the snapshot of a sound host."""
    files = {
        **{f"/proc/{number}/limits": render_limits() for number in (KUBELET, CONTAINERD, SLURMD)},
        f"/proc/{KUBELET}/comm": "kubelet\n",
        f"/proc/{CONTAINERD}/comm": "containerd\n",
        f"/proc/{SLURMD}/comm": "slurmd\n",
        "/proc/sys/fs/file-max": "9223372036854775807\n",
        "/proc/sys/fs/inotify/max_user_instances": "8192\n",
        "/proc/sys/fs/inotify/max_user_watches": "1048576\n",
        "/proc/sys/kernel/numa_balancing": "0\n",
        "/proc/swaps": SWAPS,
        "/etc/security/limits.d/90-trackbed.conf": "* soft memlock unlimited\n* hard memlock unlimited\n",
        "/etc/systemd/logind.conf": "[Login]\n#RemoveIPC=yes\n",
        "/etc/systemd/logind.conf.d/90-jobs.conf": "[Login]\nRemoveIPC=no\n",
        "/sys/fs/cgroup/kubepods.slice/rdma.max": "rail0 hca_handle=max hca_object=max\n",
        "/sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
        "/sys/fs/cgroup/kubepods.slice/hugetlb.1GB.max": str(16 << 30),
        "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "16\n",
        CONFIG: KUBELET_CONFIG,
        CPU_STATE: '{"policyName":"static","defaultCpuSet":"0-15","checksum":1}',
        MEMORY_STATE: '{"policyName":"None","machineState":{},"checksum":1}',
        "/etc/machine-id": "0123456789abcdef0123456789abcdef\n",
        "/proc/sys/kernel/hostname": "n0\n",
        "/etc/containerd/config.toml": CONTAINERD_CONFIG,
        "/var/run/cdi/nvidia.json": CDI,
        **{f"/sys/class/net/rail{rail}/device/numa_node": f"{rail}\n" for rail in (0, 1)},
    }
    folders = {
        "/sys/fs/cgroup": ("cgroup.controllers", "kubepods.slice"),
        "/var/lib/kubelet": ("config.yaml", "device-plugins", "pod-resources"),
        "/var/lib/kubelet/device-plugins": ("kubelet.sock", "kubelet_internal_checkpoint"),
        "/var/lib/kubelet/pod-resources": ("kubelet.sock",),
        "/var/lib/kubelet/plugins": ("dra.net",),
        "/etc/cni/net.d": ("10-calico.conflist",),
        "/var/run/cdi": ("nvidia.json",),
        "/var/run/nri": ("nri.sock",),
        "/run/nvidia/validations": ("toolkit-ready",),
    }
    outputs = {
        PS: ProgramResult(0, f"{ARGS}\n"),
        ("kubelet", "--version"): ProgramResult(0, "Kubernetes v1.36.3\n"),
        ("timedatectl", "show", "-p", "NTPSynchronized"): ProgramResult(0, "NTPSynchronized=yes\n"),
    }
    return Snapshot({path: text.encode() for path, text in files.items()}, {}, folders, outputs)


def build_services_view(host: Snapshot | None = None) -> NodeView:
    """Return a view of the first node as planned, on this host."""
    return replace(build_sound_view(NODE), host=build_services() if host is None else host)


def change_files(files: Mapping[str, str | None] | None = None) -> Snapshot:
    """Return the sound host with changed files; None removes a file."""
    was = build_services()
    new = {**was.files, **{path: text.encode() for path, text in (files or {}).items() if text is not None}}
    gone = {path for path, text in (files or {}).items() if text is None}
    return replace(was, files={path: content for path, content in new.items() if path not in gone})


def list_findings(view: NodeView, steps: tuple[str, ...] = STEPS) -> tuple[Finding, ...]:
    """Return doctor's findings in these steps."""
    return tuple(finding for finding in diagnose_nodes([view]).findings if finding.step in steps)


def find_first_fault(view: NodeView, steps: tuple[str, ...] = STEPS) -> str | None:
    """Return the fault that doctor names first in these steps."""
    finding = select_finding_to_fix(list_findings(view, steps))
    return finding.id if finding else None
