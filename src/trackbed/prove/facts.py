"""What a node's files say of a port: negotiated rate, what PCIe allows, GIDs, and counters before and after a run.

Sources: the kernel's Documentation/ABI/stable/sysfs-class-infiniband, testing/sysfs-class-net, testing/sysfs-bus-pci.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from trackbed.fabric.bounds import LEAST_PORT_GBPS, LINK_GBPS
from trackbed.prove.rungs import PATH_RUNGS, gid
from trackbed.prove.rungs.rung import PathEnd, Step, get_mapping

_COUNTERS: Mapping[str, tuple[str, ...]] = {
    "drops": (
        "out_of_buffer", "rx_out_of_buffer", "rx_roce_discards", "rx_drops", "port_xmit_discards", "port_rcv_errors",
        "rx_dropped", "tx_dropped", "rx_errors",
    ),
    "retransmits": (
        "out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "req_transport_retries_exceeded",
        "rnr_nak_retry_err", "roce_adp_retrans", "roce_slow_restart", "oos_drop_count", "seq_err_naks_rcvd",
        "to_retransmits", "max_retry_exceeded", "rnr_naks_rcvd", "out_of_seq_request", "rcvd_seq_err",
        "completer_retry_err", "retry_exceeded_err", "rcvd_rnr_err", "retrans_timeout_events",
    ),
    "pauses": ("port_xmit_wait",),
    "CNPs": (
        "np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored", "tx_cnp_pkts", "rx_cnp_pkts",
    ),
    "symbol errors": ("symbol_error", "link_error_recovery", "link_downed", "rx_icrc_encapsulated", "rx_crc_errors"),
}  # fmt: skip
"""Counters that matter, by what they count: of mlx5, bnxt_re, irdma, efa, rxe, ports of InfiniBand, and interfaces."""
_KIND_OF = {name: kind for kind, names in _COUNTERS.items() for name in names}
_LANE_RATE = re.compile(r"^([\d.]+) GT/s")
_RDMA_RATE = re.compile(r"^([\d.]+) Gb/sec")
_ENCODED_GTS, _NEW_CODE, _OLD_CODE = 8.0, 128 / 130, 0.8
"""From 8 GT/s on, PCIe sends 128 bits of data in 130; before, 8 in 10 (PCI Express Base Specification)."""
_MODEL = "/sys/class/dmi/id/product_name"
_LONGEST_NAME = 64
_WRAP = 1 << 32
"""Counters of mlx5 that its firmware keeps have 32 bits."""


class PortFacts(NamedTuple):
    """What was read of a port; None: it could not be read."""

    gid: gid.GidReading
    rate_gbps: float | None
    pcie_gbps: float | None
    counters: Mapping[str, int]
    missing_programs: frozenset[str] = frozenset()
    server: str = ""
    """Model of the server, as its firmware tells it."""
    firmware: str = ""
    """Board and version of the NIC's firmware."""


class CounterChange(NamedTuple):
    """A counter that rose during the run; `delta` is None if it started anew in between."""

    name: str
    kind: str
    delta: int | None


def build_step(end: PathEnd) -> Step:
    """Return the step that reads a port."""
    port, device = f"/sys/class/infiniband/{end.rdma}/ports/1", f"/sys/class/infiniband/{end.rdma}/device"
    netdev = f"/sys/class/net/{end.netdev}"
    patterns = [*gid.list_patterns(end), f"{port}/rate", f"{netdev}/speed"]
    patterns += [f"{device}/current_link_speed", f"{device}/current_link_width"]
    folders = (f"{port}/counters", f"{port}/hw_counters", f"{netdev}/statistics")
    patterns += [_MODEL, *(f"/sys/class/infiniband/{end.rdma}/{name}" for name in ("board_id", "fw_ver"))]
    files = patterns + [f"{folder}/{name}" for folder in folders for name in _KIND_OF]
    return {"files": files, "programs": sorted({rung.program for rung in PATH_RUNGS.values() if rung.program})}


def parse_facts(output: object, end: PathEnd, link_type: str) -> PortFacts:
    """Parse the answer to `build_step`; a node may answer anything."""
    texts = {path: text for path, text in get_mapping(output, "files").items() if isinstance(text, str)}
    port, device = f"/sys/class/infiniband/{end.rdma}/ports/1", f"/sys/class/infiniband/{end.rdma}/device"
    rate = _parse_match(_RDMA_RATE, texts.get(f"{port}/rate")) or _parse_speed(
        texts.get(f"/sys/class/net/{end.netdev}/speed")
    )
    lanes = _parse_count(texts.get(f"{device}/current_link_width"))
    lane_gts = _parse_match(_LANE_RATE, texts.get(f"{device}/current_link_speed"))
    code = _NEW_CODE if (lane_gts or 0) >= _ENCODED_GTS else _OLD_CODE
    counters = {
        path.rpartition("/")[2]: count
        for path, text in texts.items()
        if path.rpartition("/")[2] in _KIND_OF and (count := _parse_count(text)) is not None
    }
    return PortFacts(
        gid.find_gid(end, link_type, texts),
        rate if rate and LEAST_PORT_GBPS <= rate <= LINK_GBPS.high else None,
        lane_gts * lanes * code if lane_gts and lanes else None,
        counters,
        frozenset(name for name in _list_missing(output) if isinstance(name, str)),
        _parse_name(texts.get(_MODEL)),
        " ".join(
            name
            for file in ("board_id", "fw_ver")
            if (name := _parse_name(texts.get(f"/sys/class/infiniband/{end.rdma}/{file}")))
        ),
    )


def _list_missing(output: object) -> list[object]:
    names = get_mapping(output).get("missing")
    return names if isinstance(names, list) else []


def compare_counters(before: Mapping[str, int], after: Mapping[str, int]) -> list[CounterChange]:
    """Return the counters that changed, by kind in the order above; one that wrapped at 32 bits has its true change."""
    changes = []
    for name, kind in _KIND_OF.items():
        if name in before and name in after and before[name] != after[name]:
            delta = after[name] - before[name]
            wrapped = delta + _WRAP if max(before[name], after[name]) < _WRAP else -1
            changes.append(
                CounterChange(name, kind, delta if delta > 0 else wrapped if 0 < wrapped < _WRAP // 2 else None)
            )
    return changes


def _parse_name(text: str | None) -> str:
    return " ".join((text or "").split())[:_LONGEST_NAME]


def _parse_match(pattern: re.Pattern[str], text: str | None) -> float | None:
    match = pattern.match(text or "")
    try:
        return float(match[1]) if match else None
    except ValueError:
        return None


def _parse_count(text: str | None) -> int | None:
    stripped = (text or "").strip()
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) < 20 else None  # noqa: PLR2004 - 64 bits


def _parse_speed(text: str | None) -> float | None:
    """Return Gb/s of Mb/s; None for a port that is down (-1)."""
    megabits = _parse_count(text)
    return megabits / 1000 if megabits else None
