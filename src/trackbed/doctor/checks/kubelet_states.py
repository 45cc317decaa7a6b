"""What keeps kubelet from starting: states of another policy, no CPUs of its own, swap, cgroup v1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.checks.kubelet_config import KubeletInfo
    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_STATES = (
    ("kubelet-cpu-manager-state-conflict", "/var/lib/kubelet/cpu_manager_state", "cpuManagerPolicy", "none"),
    ("kubelet-memory-manager-state-conflict", "/var/lib/kubelet/memory_manager_state", "memoryManagerPolicy", "None"),
)
_SWAPS = "/proc/swaps"
_CGROUP, _CONTROLLERS = "/sys/fs/cgroup", "cgroup.controllers"
_ONLY_V2 = (1, 35)
"""From this version on failCgroupV1 is true where nobody says otherwise."""

READS = Wanted(files=(*(path for _, path, _, _ in _STATES), _SWAPS), folders=(_CGROUP,))


def check(view: NodeView, host: Snapshot, told: KubeletInfo) -> Iterator[Finding]:
    """Judge what kubelet itself looks at when it starts."""
    yield from _cgroup(view, host, told)
    swaps = (host.text(_SWAPS) or "").splitlines()[1:]
    if host.text(_SWAPS) is not None:
        ok = not swaps or told.config.get("failSwapOn") is False or told.flags.get("fail-swap-on") == "false"
        evidence = f"swap on {', '.join(line.split()[0] for line in swaps if line)}" if swaps else ""
        yield judge("kubelet-swap-on", view.node, None, ok=ok, evidence=evidence)
    yield _reserved(view, told)
    for fault, path, key, usual in _STATES:
        have, want = _policy(host.text(path)), str(told.config.get(key) or usual)
        if have is not None:
            evidence = f"{path} is of policy {have}, {key} is {want}"
            yield judge(fault, view.node, None, ok=have == want, evidence=evidence)


def _policy(text: str | None) -> str | None:
    try:
        state = json.loads(text or "")
    except ValueError:
        return None
    found = state.get("policyName") if isinstance(state, dict) else None
    return found if isinstance(found, str) else None


def _reserved(view: NodeView, told: KubeletInfo) -> Finding:
    config = told.config
    kept = [config.get(key) for key in ("kubeReserved", "systemReserved")]
    shares = [one.get("cpu") for one in kept if isinstance(one, dict)]
    by_name = config.get("reservedSystemCPUs") not in {None, ""}  # "0" is the first CPU, not none
    given = by_name or any(share is not None and str(share) not in {"", "0", "0m"} for share in shares)
    ok = config.get("cpuManagerPolicy", "none") != "static" or given
    evidence = "" if ok else "cpuManagerPolicy is static, and no CPU is reserved"
    return judge("kubelet-static-policy-without-reservation", view.node, None, ok=ok, evidence=evidence)


def _cgroup(view: NodeView, host: Snapshot, told: KubeletInfo) -> Iterator[Finding]:
    names = host.folders.get(_CGROUP)
    if not names:
        return
    allowed = told.config.get("failCgroupV1") is False or (0, 0) < told.version < _ONLY_V2
    ok = _CONTROLLERS in names or allowed
    evidence = "" if ok else f"{_CGROUP} has no {_CONTROLLERS}: it is cgroup v1"
    yield judge("kubelet-cgroup-v1", view.node, None, ok=ok, evidence=evidence)
