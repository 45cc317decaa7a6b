"""PCIe links of the ports: lanes, speed, errors, power of the slot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
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
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

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
"""Correctable errors that nobody wonders about, however young the host is."""
_TOTAL = re.compile(r"^TOTAL_ERR_\w+ (\d+)$", re.MULTILINE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_POWER = r"(?:Detected insufficient power on the PCIe slot|powered down due to insufficient)"


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge each port's link."""
    for port, pci in iter_functions(view, host):
        for fault_id, what in (("bios-pcie-width-reduced", "width"), ("bios-pcie-speed-reduced", "speed")):
            told = _trained(host, pci, what)
            if told is not None:
                yield judge(fault_id, view.node, port, ok=told[0], evidence=told[1])
        errors = _counted(host, pci)
        if errors is not None:
            yield judge("bios-pcie-errors", view.node, port, ok=not errors, evidence=errors)
        log = read_kernel_log(host)
        if log is not None and uses_mlx5(host, pci):
            said = find_log_line(log, rf"mlx5_core {re.escape(pci)}.*{_POWER}")
            yield judge(
                "bios-slot-power-insufficient", view.node, port, ok=not said, evidence=said or describe_log_reach(log)
            )


def _trained(host: Snapshot, pci: str, what: str) -> tuple[bool, str] | None:
    """(as good as both ends can, what was read); None where there is no link to speak of (emulated, or `Unknown`)."""
    now, most = (read_attribute(host, pci, f"{when}_link_{what}") for when in ("current", "max"))
    above = host.text(to_bridge_path(pci, f"max_link_{what}"))
    have, can = _value(now), [value for value in map(_value, (most, above)) if value]
    if not have or not can:
        return None
    return have >= min(can), f"{what} {now} of {most}; the slot can {above or 'not say'}"


def _value(text: str | None) -> float:
    """`32.0 GT/s PCIe` and `16` as numbers; 0 for `Unknown`, for nothing, and for the 255 of a port without link."""
    found = _NUMBER.match(text or "")
    value = float(found[0]) if found else 0.0
    return 0.0 if value == 255 else value  # noqa: PLR2004 - PCIE_LNK_WIDTH_UNKNOWN, include/linux/pci.h


def _counted(host: Snapshot, pci: str) -> str | None:
    """What is too much on both ends of the link, empty for nothing; None where the kernel does not count."""
    places = {pci: f"{DEVICES}/{pci}/", "the port above": to_bridge_path(pci, "")}
    counts = {(who, name): _total(host, path + name) for who, path in places.items() for name in _ERRORS}
    known = {key: count for key, count in counts.items() if count is not None}
    if not known:
        return None
    bad = [f"{who}: {name} {count}" for (who, name), count in known.items() if count > _allowed(host, name)]
    return "; ".join(bad)


def _total(host: Snapshot, path: str) -> int | None:
    found = _TOTAL.search(host.text(path) or "")
    return int(found[1]) if found else None


def _allowed(host: Snapshot, name: str) -> float:
    if name != "aer_dev_correctable":
        return 0
    seconds = _value((host.text(UPTIME) or "").partition(" ")[0])
    return max(_TRAINING, CORRECTABLE_PER_HOUR * seconds / 3600)
