"""Rung write_bw: the rate of RDMA writes between two ports, from and to host memory (ib_write_bw of perftest)."""

from __future__ import annotations

import math

from trackbed.prove.rounds import FIRST_SOURCE_PORT, FLOWS
from trackbed.prove.rungs import perftest
from trackbed.prove.rungs.rung import (
    PathEnd,
    ProbedPath,
    Rung,
    RungReading,
    Step,
    explain_programs,
    get_text,
)

_SIZE_BYTES, _LEAST_SIZE_BYTES = 65536, 4096
_TRAFFIC_SECONDS = 5
_LEAST_MESSAGES = 256
"""Of fewer messages in the time of traffic, each is too large a part of the rate: slow ports get smaller messages."""
_DEPTH = 128
"""Messages under way of each flow, by default (DEF_TX_BW of perftest); if fewer, each is counted by itself (-Q 1)."""
_LEAST_DEPTH = 4
"""Slow ports get fewer flows rather than less depth: all flows end a message at once, and few messages are counted."""
_TIMEOUT, _MAX_TIMEOUT = 14, 31
"""Timeout of an acknowledgement by default (DEF_QP_TIME of perftest): 67 ms; and the largest (IBTA, 5 bits)."""
_TIMEOUT_UNIT_SECONDS = 4.096e-6
"""A timeout T is this times 2 to the power of T (IBTA specification, Local ACK Timeout)."""
_TIMES_ARRIVAL = 4
"""An acknowledgement waits behind as much that goes the other way, and twice that is no loss yet."""
_BURST = 8
"""Messages of a burst under a limit of the rate, so that it is far less than what switches buffer."""
_DRAIN_SECONDS = 0.3
"""All that is under way has to arrive within this time: perftest counts it as of the 3 s that it measures (of 5, less
DEF_MARGIN of 2), and a test must not outlive its round."""


def build_steps(path: ProbedPath) -> tuple[Step, Step]:
    """Return the steps of the client, a, and the server, b."""
    return perftest.build_steps(path, build_argv(path, path.a), build_argv(path, path.b))


def build_argv(path: ProbedPath, end: PathEnd, *memory: str) -> list[str]:
    """Return the command line of one end; `memory` are the options of another memory than the host's."""
    size_bytes = _compute_size(path.rate_gbps)
    options = ["-s", str(size_bytes), "-D", str(_TRAFFIC_SECONDS), "--report_gbits"]
    flows, depth = _compute_load(path.rate_gbps, size_bytes, FLOWS if path.source_port is None else 1)
    options += [] if depth == _DEPTH else ["-t", str(depth), "-Q", "1"]
    timeout = _compute_timeout(path.rate_gbps, flows * depth * size_bytes)
    options += [] if timeout == _TIMEOUT else ["-u", str(timeout)]
    if path.is_limited:
        options += ["--rate_limit", f"{path.rate_gbps:g}", "--rate_units", "g", "--rate_limit_type", "SW"]
        options += ["--burst_size", str(min(_BURST, depth))]
    if path.source_port is None:
        options += ["-b", "-q", str(flows)]
    else:
        options += ["-q", "1", "--flow_label", str(_to_flow_label(path.source_port))]
    return perftest.build_argv("ib_write_bw", path, end, *options, *memory)


def _compute_size(rate_gbps: float | None) -> int:
    """Return the size of messages at this rate, a power of two."""
    if rate_gbps is None:
        return _SIZE_BYTES
    largest = rate_gbps * 1e9 / 8 * _TRAFFIC_SECONDS / _LEAST_MESSAGES
    return min(_SIZE_BYTES, max(_LEAST_SIZE_BYTES, 1 << int(math.log2(largest))))


def _compute_load(rate_gbps: float | None, size_bytes: int, most_flows: int) -> tuple[int, int]:
    """Return how many flows there are at this rate, and how many messages of each may be under way."""
    if rate_gbps is None:
        return most_flows, _DEPTH
    messages = int(rate_gbps * 1e9 / 8 * _DRAIN_SECONDS / size_bytes)
    flows = max(1, min(most_flows, messages // _LEAST_DEPTH))
    return flows, max(1, min(_DEPTH, messages // flows))


def _compute_timeout(rate_gbps: float | None, size_bytes: int) -> int:
    """Return the timeout of an acknowledgement, for this many bytes under way at this rate.

    On a slow port the default passes before a message has arrived, and all is sent again without end.
    """
    if rate_gbps is None:
        return _TIMEOUT
    seconds = _TIMES_ARRIVAL * size_bytes * 8 / (rate_gbps * 1e9)
    return min(_MAX_TIMEOUT, max(_TIMEOUT, math.ceil(math.log2(seconds / _TIMEOUT_UNIT_SECONDS))))


def _to_flow_label(source_port: int) -> int:
    """Return the flow label of a source port, never 0, which lets the kernel choose.

    The kernel makes the low 14 bits of the port of the label's bits 0 to 13, exclusive or bits 14 to 19
    (rdma_flow_label_to_udp_sport, include/rdma/ib_verbs.h).
    """
    return 1 << 14 | (source_port - FIRST_SOURCE_PORT) ^ 1


def read(path: ProbedPath, a: object, b: object) -> RungReading:
    """Return the rate of one direction in Gb/s; perftest adds up both directions of a bidirectional test."""
    if reading := explain_programs(path, b, a):
        return reading
    directions = 2 if path.source_port is None else 1
    test = "RDMA_Write_Bidirectional_BW_Test" if directions == 2 else "RDMA_Write_BW_Test"  # noqa: PLR2004 - as above
    try:
        results = perftest.parse_results(get_text(a, "stderr"), path.a, test, _compute_size(path.rate_gbps))
        return RungReading("measured", perftest.read_value(results, "BW_average", "bw_avg") / directions)
    except perftest.PerftestError as error:
        return perftest.build_unclear("ib_write_bw", path, str(error))


RUNG = Rung("write_bw", "rdma", "Gb/s", 12.0, build_steps, read, "ib_write_bw", scale="rate")
