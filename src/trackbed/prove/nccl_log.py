"""The log of an all-reduce of nccl-tests or rccl-tests: ranks, times, and what NCCL says of ports and channels.

Formats: nccl-tests a0b82b2, src/util.cu (lines of devices, the table of results, the JSON of `-J`), and earlier ones
without groups; NCCL 2.31, src/transport/net_ib/init.cc and net.cc (`NCCL_DEBUG=INFO`). Words may stand before a line,
of `mpirun --tag-output` or a log collector. A log may hold anything: what is no such line is left out. It may hold
several runs: each begins with the header of nccl-tests, and ends with the count of values out of bounds.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
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
_HEADER = re.compile(r"# (?:nThread \d|Collective test starting: )")
_TABLE = re.compile(r"# +size +count +type")
_TRAILER = re.compile(r"# Out of bounds values *: (-?\d{1,18}) (?:OK|FAILED)", re.ASCII)
_FAILURE = re.compile(r"(?:[\w.-]{1,253}: )?Test (?:NCCL |CUDA |HIP )?failure [\w.-]{1,80}:\d.*", re.ASCII)
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
    """What a log says of a run."""

    program: str
    """The program of nccl-tests; empty where its version does not say it."""
    ranks: tuple[GpuRank, ...]
    results: tuple[AllReduce, ...]
    ports: Mapping[str, tuple[str, ...]]
    """By host: the ports that NCCL uses, as `mlx5_0:1/RoCE`."""
    channels: Mapping[Channels, int]
    warnings: tuple[str, ...]
    """The first warnings of NCCL."""
    wrong_values: int | None
    """Values that its last lines count as wrong; None where the log ends before them."""
    failure: str
    """The line in which the test says that it failed; empty if there is none."""


@dataclass
class _Run:
    """What the lines of a run that were read say."""

    program: str = ""
    ranks: dict[int, GpuRank] = field(default_factory=dict)
    results: dict[int, AllReduce] = field(default_factory=dict)
    ports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    channels: Counter[Channels] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    times: Mapping[int, Mapping[int, float]] = field(default_factory=dict)
    wrong_values: int | None = None
    failure: str = ""


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


def read_nccl_runs(content: bytes) -> list[NcclLog]:
    """Return what a log says of each run, of one at least; nothing of it where it is no log of nccl-tests."""
    runs = [_Run()]
    for raw_line in BytesIO(content):
        line = raw_line[:_LINE_BYTES].decode(errors="replace").rstrip("\r\n")
        if _begins_run(runs[-1], line):
            runs.append(_Run())
        run = runs[-1]
        if (start := raw_line.find(b'{"version":', 0, _LINE_BYTES)) >= 0:
            run.times = _read_times(raw_line[start:]) or run.times
        elif match := _INFO.search(line):
            _read_info(match, run)
        elif match := _RESULT.search(line):
            _read_result(match, run.results)
        else:
            _read_frame(line, run)
    return [_complete(run) for run in runs]


def _begins_run(run: _Run, line: str) -> bool:
    """Return whether a line is the header of another run than the one that was read so far."""
    if "# " not in line:
        return False
    has_results = bool(run.results) or run.wrong_values is not None
    if has_results and (_TABLE.search(line) or _RANK.search(line)):
        return True
    return bool((has_results or run.ranks) and _HEADER.search(line))


def _complete(run: _Run) -> NcclLog:
    results = tuple(run.results[size]._replace(group_seconds=run.times.get(size, {})) for size in sorted(run.results))
    ranks = tuple(run.ranks[number] for number in sorted(run.ranks))
    warnings = tuple(run.warnings)
    return NcclLog(run.program, ranks, results, run.ports, run.channels, warnings, run.wrong_values, run.failure)


def _read_info(match: re.Match[str], run: _Run) -> None:
    """Take in a line of NCCL itself."""
    host, text = match["host"], match["text"]
    if match["level"] == "WARN":
        if len(run.warnings) < _MOST_WARNINGS:
            run.warnings.append(f"{host}: {text[:_MOST_CHARACTERS]}")
    elif listed := _PORTS.match(text):
        run.ports[host] = tuple(_PORT.findall(listed[1]))
    elif channel := _CHANNEL.match(text):
        run.channels[Channels(host, channel["network"], "/GDRDMA" in channel["options"])] += 1


def _read_frame(line: str, run: _Run) -> None:
    """Take in a line that stands around the table: a rank, the program, how the test ended."""
    if match := _RANK.search(line):
        number, group = int(match["rank"]), int(match["group"] or 0)
        run.ranks[number] = GpuRank(group, match["host"], int(match["gpu"]), match["address"] or "")
    elif match := _PROGRAM.search(line):
        run.program = match[1]
    elif match := _TRAILER.search(line):
        run.wrong_values = int(match[1])
    elif match := _FAILURE.search(line):
        run.failure = run.failure or match[0][:_MOST_CHARACTERS]


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
