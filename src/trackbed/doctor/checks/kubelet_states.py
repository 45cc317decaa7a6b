"""Conditions that keep kubelet from starting: state files of another policy, no reserved CPUs, swap, cgroup v1."""

import json
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.kubelet_config import KubeletInfo
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_STATES = (
    ("kubelet-cpu-manager-state-conflict", "/var/lib/kubelet/cpu_manager_state", "cpuManagerPolicy", "none"),
    ("kubelet-memory-manager-state-conflict", "/var/lib/kubelet/memory_manager_state", "memoryManagerPolicy", "None"),
)
"""(fault id, state file, configuration key of the policy, default policy)."""
_SWAPS = "/proc/swaps"
_CGROUP, _CONTROLLERS = "/sys/fs/cgroup", "cgroup.controllers"
_CGROUP_V2_ONLY = (1, 35)
"""The first version of kubelet in which failCgroupV1 is true by default."""

READS = Wanted(files=(*(path for _, path, _, _ in _STATES), _SWAPS), folders=(_CGROUP,))


def check(view: NodeView, host: Snapshot, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check the conditions that kubelet verifies when it starts."""
    yield from check_cgroup_version(view, host, kubelet)
    swaps = (host.read_text(_SWAPS) or "").splitlines()[1:]
    if host.read_text(_SWAPS) is not None:
        ok = not swaps or kubelet.config.get("failSwapOn") is False or kubelet.flags.get("fail-swap-on") == "false"
        evidence = f"swap on {', '.join(line.split()[0] for line in swaps if line)}" if swaps else ""
        yield build_finding("kubelet-swap-on", view.node, None, ok=ok, evidence=evidence)
    yield check_reserved_cpus(view, kubelet)
    for fault_id, path, key, default in _STATES:
        state_policy, policy = _parse_policy(host.read_text(path)), str(kubelet.config.get(key) or default)
        if state_policy is not None:
            evidence = f"{path} is of policy {state_policy}, {key} is {policy}"
            yield build_finding(fault_id, view.node, None, ok=state_policy == policy, evidence=evidence)


def _parse_policy(text: str | None) -> str | None:
    """Return the policy that a manager's state file names; None if the file is absent or malformed."""
    try:
        state = json.loads(text or "")
    except ValueError:
        return None
    policy = state.get("policyName") if isinstance(state, dict) else None
    return policy if isinstance(policy, str) else None


def check_reserved_cpus(view: NodeView, kubelet: KubeletInfo) -> Finding:
    """Check that CPUs are reserved for the system if the CPU manager's policy is static."""
    config = kubelet.config
    reserves = [config.get(key) for key in ("kubeReserved", "systemReserved")]
    shares = [reserve.get("cpu") for reserve in reserves if isinstance(reserve, dict)]
    numbers = config.get("reservedSystemCPUs")
    by_number = numbers is not None and str(numbers) != ""  # "0" is a list with the first CPU
    is_reserved = by_number or any(share is not None and str(share) not in {"", "0", "0m"} for share in shares)
    ok = config.get("cpuManagerPolicy", "none") != "static" or is_reserved
    evidence = "" if ok else "cpuManagerPolicy is static, and no CPU is reserved"
    return build_finding("kubelet-static-policy-without-reservation", view.node, None, ok=ok, evidence=evidence)


def check_cgroup_version(view: NodeView, host: Snapshot, kubelet: KubeletInfo) -> Iterator[Finding]:
    """Check that the host has cgroup v2, or that kubelet accepts v1."""
    names = host.folders.get(_CGROUP)
    if not names:
        return
    accepts_v1 = kubelet.config.get("failCgroupV1") is False or (0, 0) < kubelet.version < _CGROUP_V2_ONLY
    ok = _CONTROLLERS in names or accepts_v1
    evidence = "" if ok else f"{_CGROUP} has no {_CONTROLLERS}: it is cgroup v1"
    yield build_finding("kubelet-cgroup-v1", view.node, None, ok=ok, evidence=evidence)
