"""PCIe links of the ports: width, speed, errors, and slot power."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    BUSES,
    DEVICES,
    describe_log_coverage,
    find_log_line,
    iter_pci_functions,
    read_kernel_log,
    read_pci_attribute,
    to_bridge_path,
    uses_mlx5,
)
from trackbed.doctor.view import NodeView
from trackbed.fabric.plan.plan import PortPlan
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_LINK = ("current_link_width", "max_link_width", "current_link_speed", "max_link_speed")
_ERRORS = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
UPTIME = "/proc/uptime"
READS = Wanted(
    files=(
        *(f"{DEVICES}/{{pci}}/{name}" for name in (*_LINK, *_ERRORS)),
        *(f"{BUSES}/*/device/{name}" for name in ("max_link_width", "max_link_speed", *_ERRORS)),
        UPTIME,
    )
)

ACCEPTED_ERRORS_PER_HOUR = 10
"""Accepted correctable errors per hour: a good link has a few a day, a bad one thousands per hour."""
_TRAINING_ERRORS = 100
"""Correctable errors that are accepted regardless of uptime, because link training causes some."""
_TOTAL = re.compile(r"^TOTAL_ERR_\w+ (\d{1,20})$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_POWER_MESSAGE = (
    r"(?:Detected insufficient power on the PCIe slot|PCIe slot advertised sufficient power|"
    r"powered down due to insufficient)"
)
"""Messages of mlx5_pcie_event and of port_module_event; the last of a function is how it is now."""


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port's PCIe link, its errors, and the power of the slot.

    That the slot advertises too little is a warning of mlx5, and no fault of a port that has a link.
    """
    log = read_kernel_log(host)
    for port, pci in iter_pci_functions(view, host):
        yield from check_link(view, host, port, pci)
        yield from check_errors(view, host, port, pci)
        if log is not None and uses_mlx5(host, pci):
            line = find_log_line(log, rf"mlx5_core {re.escape(pci)}.*{_POWER_MESSAGE}")
            link = view.find_link(port)
            works = "advertised sufficient" in line or ("Detected" in line and link is not None and link.carrier)
            evidence = line or describe_log_coverage(log)
            ok = not line or works
            yield build_finding("bios-slot-power-insufficient", view.node, port, ok=ok, evidence=evidence)


def check_link(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check that the link has the width and the speed that both of its ends support.

    Functions without a real link are skipped: emulated ones, and those for which the kernel reports `Unknown`.
    """
    for fault_id, quantity in (("bios-pcie-width-reduced", "width"), ("bios-pcie-speed-reduced", "speed")):
        current, maximum = (read_pci_attribute(host, pci, f"{prefix}_link_{quantity}") for prefix in ("current", "max"))
        slot = host.read_text(to_bridge_path(pci, f"max_link_{quantity}"))
        value, limits = (
            _parse_link_value(current),
            [limit for limit in map(_parse_link_value, (maximum, slot)) if limit],
        )
        if value and limits:
            end, bridge = (text or "an unknown value" for text in (maximum, slot))
            evidence = f"{quantity} {current} of {end}; the slot supports {bridge}"
            yield build_finding(fault_id, view.node, port, ok=value >= min(limits), evidence=evidence)


def _parse_link_value(text: str | None) -> float:
    """Parse `32.0 GT/s PCIe` or `16`; 0 for `Unknown`, for None, and for 255, the width of a port without a link."""
    match = _NUMBER.match(text or "")
    value = float(match[0]) if match else 0.0
    return 0.0 if value == 255 else value  # noqa: PLR2004 - PCIE_LNK_WIDTH_UNKNOWN, include/linux/pci.h


def check_errors(view: NodeView, host: Snapshot, port: PortPlan, pci: str) -> Iterator[Finding]:
    """Check the error counters of both ends of the link; skipped if the kernel has no counters."""
    folders = {pci: f"{DEVICES}/{pci}/", "the port above": to_bridge_path(pci, "")}
    totals = {
        f"{end}: {name}": _TOTAL.search(host.read_text(folder + name) or "")
        for end, folder in folders.items()
        for name in _ERRORS
    }
    known = {counter: int(match[1]) for counter, match in totals.items() if match}
    high = [f"{counter} {total}" for counter, total in known.items() if total > _compute_error_limit(host, counter)]
    if known:
        yield build_finding("bios-pcie-errors", view.node, port, ok=not high, evidence="; ".join(high))


def _compute_error_limit(host: Snapshot, counter: str) -> float:
    """Return the accepted value of an error counter: by uptime for correctable errors, otherwise 0."""
    if not counter.endswith("aer_dev_correctable"):
        return 0
    seconds = _parse_link_value((host.read_text(UPTIME) or "").partition(" ")[0])
    return max(_TRAINING_ERRORS, ACCEPTED_ERRORS_PER_HOUR * seconds / 3600)
