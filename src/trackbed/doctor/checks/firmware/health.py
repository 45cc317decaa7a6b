"""Health of a NIC's firmware: messages of mlx5_core, devlink health reporters, temperature.

The messages are those of drivers/net/ethernet/mellanox/mlx5/core (health.c, cmd.c, main.c, events.c).
"""

import json
import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    describe_log_coverage,
    describe_log_error,
    find_log_line,
    iter_pci_functions,
    read_kernel_log,
    uses_mlx5,
)
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_DEVLINK = ("devlink", "-j", "health", "show")
READS = Wanted(
    files=(f"{DEVICES}/{{pci}}/hwmon/hwmon*/temp*_input", f"{DEVICES}/{{pci}}/hwmon/hwmon*/temp*_crit"),
    commands=(_DEVLINK,),
)

_MESSAGES = {
    "fw-interface-revision-mismatch": r"(?:Driver cmdif rev|Firmware over \d+ MS in .* state, aborting)",
    "fw-health-compromised": r"(?:health compromised|assert_exit_ptr|synd 0x)",
    "fw-command-timeout": r"timeout\. Will cause a leak of a command resource",
}
"""Fault id -> pattern of its message in the kernel log."""
_TEMPERATURE_MESSAGE = r"High [Tt]emperature"
_MILLI = 1000


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the firmware health of each port; an unreadable kernel log is reported once for the host."""
    log = read_kernel_log(host)
    functions = [(port, pci) for port, pci in iter_pci_functions(view, host) if uses_mlx5(host, pci)]
    for fault_id, pattern in _MESSAGES.items() if functions else ():
        if log is None:
            yield build_finding(fault_id, view.node, None, ok=None, evidence=describe_log_error(host))
            continue
        for port, pci in functions:
            line = find_log_line(log, rf"mlx5_core {re.escape(pci)}\b.*{pattern}")
            line = line or (_describe_unhealthy_reporters(host, pci) if fault_id == "fw-health-compromised" else "")
            evidence = line or describe_log_coverage(log)
            yield build_finding(fault_id, view.node, port, ok=not line, evidence=evidence)
    for port, pci in iter_pci_functions(view, host):
        yield from check_temperature(view, host, port, pci)


def _describe_unhealthy_reporters(host: Snapshot, pci: str) -> str:
    """Describe the devlink reporters that are not healthy (devlink-health(8), -j); empty if there are none."""
    try:
        document = json.loads(host.get_output(*_DEVLINK) or "{}")
        reporters = document.get("health", {}).get(f"pci/{pci}", ())
        states = {reporter["reporter"]: reporter["state"] for reporter in reporters}
    except (ValueError, KeyError, TypeError, AttributeError):
        return ""
    return ", ".join(f"devlink reporter {name}: {state}" for name, state in states.items() if state != "healthy")


def check_temperature(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check the NIC's sensors against their critical values, and the kernel log for warnings of the driver."""
    log = read_kernel_log(host)
    line = find_log_line(log, rf"mlx5_core {re.escape(pci)}\b.*{_TEMPERATURE_MESSAGE}") if log else ""
    sensors = [
        (path, host.read_number(path), host.read_number(path.removesuffix("_input") + "_crit"))
        for path in host.glob(f"{DEVICES}/{pci}/hwmon/hwmon*/temp*_input")
    ]
    known = [(path, value, limit) for path, value, limit in sensors if value is not None and limit]
    if not known and not line:
        return
    hot = [f"{path}: {value // _MILLI} °C of {limit // _MILLI} °C" for path, value, limit in known if value >= limit]
    warmest = max((value for _, value, _ in known), default=0) // _MILLI
    evidence = "; ".join(filter(None, (*hot, line))) or f"{pci}: {warmest} °C at most"
    yield build_finding("fw-over-temperature", view.node, port, ok=not hot and not line, evidence=evidence)
