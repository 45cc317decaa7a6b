"""The log of an all-reduce of nccl-tests or rccl-tests: ranks, times, and what NCCL says of ports and channels.

Formats: nccl-tests a0b82b2, src/util.cu (lines of devices, the table of results, the JSON of `-J`), and earlier ones
without groups; NCCL 2.31, src/transport/net_ib/init.cc and net.cc (`NCCL_DEBUG=INFO`). Words may stand before a line,
of `mpirun --tag-output` or a log collector. A log may hold anything: what is no such line is left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from statistics import median
from typing import Final, NamedTuple

import msgspec

MAX_BYTES: Final = 256 << 20
"""Longest log that is read: with NCCL_DEBUG=INFO a rank writes some hundred lines."""
_MOST_WARNINGS: Final = 3
_MOST_CHARACTERS: Final = 200
_LINE_BYTES: Final = 4096
"""Of a line that is no JSON, what is looked at; NCCL's own are shorter."""

_RANK = re.compile(
    r"# +Rank +(?P<rank>\d{1,6})(?: +Group +(?P<group>\d{1,6}))? +Pid +\d+"
    r" +on +(?P<host>[\w.-]{1,253}) +device +(?P<gpu>\d{1,3}) (?:\[(?P<address>[\w:.]{1,20})\])?",
    re.ASCII,
)
_PROGRAM = re.compile(r"# Collective test starting: (\S{1,80})")
_RESULT = re.compile(r"(?:^|>:|\s)(?P<size>\d{1,15}) +\d{1,15} +\w{1,20} +(?:sum|prod|max|min|avg|mulsum) (?P<rest>.+)")
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d")
_INFO = re.compile(
    r"(?<![\w.-])(?P<host>[\w.-]{1,253}):\d+:\d+ \[\d+\] (?:\S+ )?NCCL (?P<level>INFO|WARN) (?P<text>.+)", re.ASCII
)
_PORTS = re.compile(r"NET/IB : Using((?: \[\d+\]\S+:\d+/\w+(?:/SHARP)?)+)")
_PORT = re.compile(r"\[\d+\](\S+:\d+/\w+)")
_CHANNEL = re.compile(r"(?:Channel|Ring) \d+(?:/\d+)? : .+ via NET/(?P<network>[^/]{1,40})/\d+(?P<options>\S*)")


class GpuRank(NamedTuple):
    """A rank of a job, with one GPU."""

    group: int
    """The group that it reduces with: all ranks, or those of one rail."""
    host: str
    gpu: int
    """Number of its GPU, of those that the process sees."""
    address: str = ""
    """PCI address of its GPU, as 0000:1b:00; empty where its version does not say it."""


class AllReduce(NamedTuple):
    """An all-reduce of one size, the better of both placements (in another buffer, in the same one)."""

    size: int
    """Bytes of each rank's buffer."""
    seconds: float
    wrong: float
    """Elements that were not what they should be; 0 where they were not compared."""
    group_seconds: Mapping[int, float]
    """By group, where each process was timed: the median of the iterations, each as long as its slowest process."""


class Channels(NamedTuple):
    """Channels of a host's ranks to other hosts that go one way."""

    host: str
    network: str
    """IB (InfiniBand and RoCE), Socket, or the name of a plugin."""
    is_direct: bool
    """Whether the NIC reads and writes the GPU's memory (GPUDirect RDMA)."""


class NcclLog(NamedTuple):
    """What a log says."""

    program: str
    """The program of nccl-tests; empty where its version does not say it."""
    ranks: tuple[GpuRank, ...]
    results: tuple[AllReduce, ...]
    ports: Mapping[str, tuple[str, ...]]
    """By host: the ports that NCCL uses, as `mlx5_0:1/RoCE`."""
    channels: Mapping[Channels, int]
    warnings: tuple[str, ...]
    """The first warnings of NCCL."""


class _Device(msgspec.Struct):
    hostname: str = ""
    group: int = 0
    device: int = 0


class _Config(msgspec.Struct):
    devices: list[_Device] = []


class _Timing(msgspec.Struct):
    per_process_max_times_us: list[list[float]] = []


class _Result(msgspec.Struct):
    size: int
    out_of_place_per_iter: _Timing | None = None
    in_place_per_iter: _Timing | None = None


class _Report(msgspec.Struct):
    version: int
    config: _Config = msgspec.field(default_factory=_Config)
    results: list[_Result] = []


def read_nccl_log(content: bytes) -> NcclLog:
    """Return what a log says; nothing of it where it is no log of nccl-tests."""
    ranks: dict[int, GpuRank] = {}
    results: dict[int, AllReduce] = {}
    ports: dict[str, tuple[str, ...]] = {}
    channels: Counter[Channels] = Counter()
    warnings: list[str] = []
    times: Mapping[int, Mapping[int, float]] = {}
    program = ""
    for raw_line in BytesIO(content):
        line = raw_line[:_LINE_BYTES].decode(errors="replace").rstrip("\r\n")
        if match := _INFO.search(line):
            _read_info(match, ports, channels, warnings)
        elif match := _RANK.search(line):
            number, group = int(match["rank"]), int(match["group"] or 0)
            ranks[number] = GpuRank(group, match["host"], int(match["gpu"]), match["address"] or "")
        elif match := _RESULT.search(line):
            _read_result(match, results)
        elif match := _PROGRAM.search(line):
            program = match[1]
        elif (start := raw_line.find(b'{"version":', 0, _LINE_BYTES)) >= 0:
            times = _read_times(raw_line[start:]) or times
    ordered = tuple(results[size]._replace(group_seconds=times.get(size, {})) for size in sorted(results))
    by_rank = tuple(ranks[number] for number in sorted(ranks))
    return NcclLog(program, by_rank, ordered, ports, channels, tuple(warnings))


def _read_info(
    match: re.Match[str], ports: dict[str, tuple[str, ...]], channels: Counter[Channels], warnings: list[str]
) -> None:
    """Take in a line of NCCL itself."""
    host, text = match["host"], match["text"]
    if match["level"] == "WARN":
        if len(warnings) < _MOST_WARNINGS:
            warnings.append(f"{host}: {text[:_MOST_CHARACTERS]}")
    elif listed := _PORTS.match(text):
        ports[host] = tuple(_PORT.findall(listed[1]))
    elif channel := _CHANNEL.match(text):
        channels[Channels(host, channel["network"], "/GDRDMA" in channel["options"])] += 1


def _read_result(match: re.Match[str], results: dict[int, AllReduce]) -> None:
    """Take in a line of the table: the root, which old versions lack, and as many columns for each placement."""
    words = [word for word in match["rest"].split() if not _TIMESTAMP.match(word)]
    columns = words[len(words) % 2 :]
    size, half = int(match["size"]), len(columns) // 2
    placements = [read for part in (columns[:half], columns[half:]) if (read := _read_columns(part))]
    if placements:
        wrong = max(wrong for _, wrong in placements)
        results[size] = AllReduce(size, min(seconds for seconds, _ in placements), wrong, {})


def _read_columns(columns: Sequence[str]) -> tuple[float, float] | None:
    """Return seconds and wrong elements of a placement: time in us, two bandwidths, wrong (N/A: not compared).

    Old versions have the largest deviation there (`error`), which is under 1: no element is called wrong for it.
    """
    with suppress(ValueError, IndexError):
        seconds, wrong = float(columns[0]) / 1e6, 0.0 if columns[3] == "N/A" else float(columns[3])
        if 0 < seconds < float("inf"):
            return seconds, wrong if wrong >= 1 else 0.0
    return None


def _read_times(line: bytes) -> Mapping[int, Mapping[int, float]] | None:
    """Return seconds by size and group of a JSON report; None where it has none."""
    try:
        report = msgspec.json.decode(line, type=_Report)
    except (msgspec.MsgspecError, RecursionError):
        return None
    groups = [device.group for device in report.config.devices]
    return {result.size: _compute_group_seconds(groups, result) for result in report.results}


def _compute_group_seconds(groups: Sequence[int], result: _Result) -> Mapping[int, float]:
    """Return the seconds of each group, in the placement that was faster."""
    best: dict[int, float] = {}
    for timing in (result.out_of_place_per_iter, result.in_place_per_iter):
        rows: dict[int, list[list[float]]] = defaultdict(list)
        for group, row in zip(groups, timing.per_process_max_times_us if timing else (), strict=False):
            rows[group].append(row)
        for group, times in rows.items():
            slowest = [max(iteration) for iteration in zip(*times, strict=False)]
            seconds = median(slowest) / 1e6 if slowest else 0.0
            if seconds > 0:
                best[group] = min(seconds, best.get(group, seconds))
    return best
