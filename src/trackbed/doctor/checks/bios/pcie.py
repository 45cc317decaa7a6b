"""PCIe links of the ports: lanes, speed, errors, slot power."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import judge
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    BUSES,
    DEVICES,
    describe_log_reach,
    find_log_line,
    iter_functions,
    read_attribute,
    read_kernel_log,
    to_bridge_path,
    uses_mlx5,
)
from trackbed.doctor.view import NodeView
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

CORRECTABLE_PER_HOUR = 10
"""A good link corrects a few errors a day, most of them while it trains; a marginal one thousands an hour."""
_TRAINING = 100
"""Correctable errors that are accepted at any uptime."""
_TOTAL = re.compile(r"^TOTAL_ERR_\w+ (\d+)$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_POWER = r"(?:Detected insufficient power on the PCIe slot|powered down due to insufficient)"


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check each port's link."""
    for port, pci in iter_functions(view, host):
        for fault_id, quantity in (("bios-pcie-width-reduced", "width"), ("bios-pcie-speed-reduced", "speed")):
            comparison = _compare_link(host, pci, quantity)
            if comparison is not None:
                ok, evidence = comparison
                yield judge(fault_id, view.node, port, ok=ok, evidence=evidence)
        errors = _describe_errors(host, pci)
        if errors is not None:
            yield judge("bios-pcie-errors", view.node, port, ok=not errors, evidence=errors)
        log = read_kernel_log(host)
        if log is not None and uses_mlx5(host, pci):
            line = find_log_line(log, rf"mlx5_core {re.escape(pci)}.*{_POWER}")
            evidence = line or describe_log_reach(log)
            yield judge("bios-slot-power-insufficient", view.node, port, ok=not line, evidence=evidence)


def _compare_link(host: Snapshot, pci: str, quantity: str) -> tuple[bool, str] | None:
    """Return whether a link's width or speed is what both ends support, with the evidence.

    None where the function has no real link: it is emulated, or the kernel reports `Unknown`.
    """
    current, maximum = (read_attribute(host, pci, f"{prefix}_link_{quantity}") for prefix in ("current", "max"))
    bridge_maximum = host.read_text(to_bridge_path(pci, f"max_link_{quantity}"))
    value, limits = _parse_value(current), [limit for limit in map(_parse_value, (maximum, bridge_maximum)) if limit]
    if not value or not limits:
        return None
    return value >= min(
        limits
    ), f"{quantity} {current} of {maximum}; the slot supports {bridge_maximum or 'an unknown value'}"


def _parse_value(text: str | None) -> float:
    """Parse `32.0 GT/s PCIe` or `16`; 0 for `Unknown`, for None, and for 255, the width of a port without link."""
    match = _NUMBER.match(text or "")
    value = float(match[0]) if match else 0.0
    return 0.0 if value == 255 else value  # noqa: PLR2004 - PCIE_LNK_WIDTH_UNKNOWN, include/linux/pci.h


def _describe_errors(host: Snapshot, pci: str) -> str | None:
    """Return the error counters of both ends that are too high; None where the kernel has no counters."""
    folders = {pci: f"{DEVICES}/{pci}/", "the port above": to_bridge_path(pci, "")}
    totals = {(end, name): _read_total(host, path + name) for end, path in folders.items() for name in _ERRORS}
    known = {key: total for key, total in totals.items() if total is not None}
    if not known:
        return None
    return "; ".join(
        f"{end}: {name} {total}" for (end, name), total in known.items() if total > _compute_limit(host, name)
    )


def _read_total(host: Snapshot, path: str) -> int | None:
    match = _TOTAL.search(host.read_text(path) or "")
    return int(match[1]) if match else None


def _compute_limit(host: Snapshot, name: str) -> float:
    """Return how many errors of a kind are accepted: none but correctable ones, by uptime."""
    if name != "aer_dev_correctable":
        return 0
    seconds = _parse_value((host.read_text(UPTIME) or "").partition(" ")[0])
    return max(_TRAINING, CORRECTABLE_PER_HOUR * seconds / 3600)
