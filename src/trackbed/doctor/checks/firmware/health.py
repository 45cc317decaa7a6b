"""What mlx5_core logs about a NIC's firmware, what devlink says of its health, and how warm it is.

The texts are those of drivers/net/ethernet/mellanox/mlx5/core (health.c, cmd.c, main.c, events.c).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import (
    DEVICES,
    describe_log_error,
    describe_log_reach,
    find_log_line,
    iter_functions,
    read_kernel_log,
    uses_mlx5,
)
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.fabric.plan.plan import PortPlan
    from trackbed.host.snapshot.snapshot import Snapshot

_DEVLINK = ("devlink", "-j", "health", "show")
READS = Wanted(
    files=(f"{DEVICES}/{{pci}}/hwmon/hwmon*/temp*_input", f"{DEVICES}/{{pci}}/hwmon/hwmon*/temp*_crit"),
    commands=(_DEVLINK,),
)

_LOGGED = {
    "fw-interface-revision-mismatch": r"(?:Driver cmdif rev|Firmware over \d+ MS in .* state, aborting)",
    "fw-health-compromised": r"(?:health compromised|assert_exit_ptr|synd 0x)",
    "fw-command-timeout": r"timeout\. Will cause a leak of a command resource",
}
_HOT = r"High [Tt]emperature"
_MILLI = 1000


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port; a log that nobody may read is told once."""
    log, ours = read_kernel_log(host), [(port, pci) for port, pci in iter_functions(view, host) if uses_mlx5(host, pci)]
    if log is None:
        for fault_id in _LOGGED if ours else ():
            yield judge(fault_id, view.node, None, ok=None, evidence=describe_log_error(host))
    for port, pci in ours if log is not None else ():
        for fault_id, pattern in _LOGGED.items():
            said = find_log_line(log or "", rf"mlx5_core {re.escape(pci)}\b.*{pattern}")
            said = said or (_reporter(host, pci) if fault_id == "fw-health-compromised" else "")
            yield judge(fault_id, view.node, port, ok=not said, evidence=said or describe_log_reach(log or ""))
    for port, pci in iter_functions(view, host):
        yield from _heat(view, host, port, pci)


def _reporter(host: Snapshot, pci: str) -> str:
    """A reporter of devlink that is not well (devlink-health(8), -j); empty where all are, or none tells."""
    try:
        told = json.loads(host.said(*_DEVLINK) or "{}")
        states = {one["reporter"]: one["state"] for one in told.get("health", {}).get(f"pci/{pci}", ())}
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return ", ".join(f"devlink reporter {name}: {state}" for name, state in states.items() if state != "healthy")


def _heat(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    log = read_kernel_log(host)
    said = find_log_line(log, rf"mlx5_core {re.escape(pci)}\b.*{_HOT}") if log else ""
    pairs = [
        (path, host.number(path), host.number(path.removesuffix("_input") + "_crit"))
        for path in host.glob(f"{DEVICES}/{pci}/hwmon/hwmon*/temp*_input")
    ]
    known = [(path, now, limit) for path, now, limit in pairs if now is not None and limit]
    if not known and not said:
        return
    hot = [f"{path}: {now // _MILLI} °C of {limit // _MILLI} °C" for path, now, limit in known if now >= limit]
    warmest = max((now for _, now, _ in known), default=0) // _MILLI
    evidence = "; ".join(filter(None, (*hot, said))) or f"{pci}: {warmest} °C at most"
    yield judge("fw-over-temperature", view.node, port, ok=not hot and not said, evidence=evidence)
