"""Logs of nccl-tests, made of the lines that its source and NCCL's print (see `prove.nccl_log`)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

RAILS, HOSTS = 8, ("all-reduce-worker-0", "all-reduce-worker-1")
SIZE = 1 << 30
HEADER = "#       size         count      type   redop    root" + "     time   algbw   busbw  #wrong" * 2
END = "# Out of bounds values : 0 OK"
"""What nccl-tests writes after the table, whether or not values are compared (`-c 0`)."""


def build_ranks(
    hosts: Sequence[str] = HOSTS, *, by_rail: bool = False, gpus: int = RAILS, devices: Sequence[int] = range(RAILS)
) -> list[str]:
    """Return the lines of the devices, with the numbers by which processes see them; each host has the next ranks."""
    return [
        f"#  Rank {gpus * number + gpu:2} Group {gpu if by_rail else 0:2} Pid {900 + gpu:6} on {host:>10} "
        f"device {devices[gpu]:2} [0000:{24 + gpu:02x}:00] NVIDIA H100 80GB HBM3"
        for number, host in enumerate(hosts)
        for gpu in range(gpus)
    ]


def build_result(seconds: float, size: int = SIZE, wrong: str = "0", root: str = "    -1 ") -> str:
    """Return a line of the table, whose second placement is a little slower."""
    columns = [f"{seconds * factor * 1e6:7.0f}  {1.0:6.2f}  {1.0:6.2f}  {wrong:>6}" for factor in (1, 1.01)]
    return f"{size:12}  {size // 4:12}     float     sum {root} {columns[0]}  {columns[1]}"


def build_ports(host: str, ports: Iterable[str]) -> str:
    """Return the line in which NCCL says which ports it uses."""
    listed = "".join(f" [{number}]{port}" for number, port in enumerate(ports))
    return f"{host}:57:81 [0] NCCL INFO NET/IB : Using{listed} [RO]; OOB eth0:10.0.0.5<0>"


def build_channel(host: str, transport: str) -> str:
    """Return the line of a channel to another host."""
    return f"{host}:57:92 [3] NCCL INFO Channel 03/0 : 3[3] -> 11[3] [send] via NET/{transport}"


def build_report(rail_seconds: Mapping[int, float], hosts: int = 2, **others: object) -> str:
    """Return a report of `-J` with `-I 1`, in which one process of each rail is the slowest in each iteration."""
    devices = [
        {"rank": RAILS * host + gpu, "group": gpu, "pid": 9, "hostname": f"w-{host}", "device": gpu, "device_hex": "0"}
        for host in range(hosts)
        for gpu in range(RAILS)
    ]
    rows = [
        [rail_seconds[number % RAILS] * 1e6 * factor * (1 if number >= RAILS else 0.5) for factor in (3, 1, 1, 1, 2)]
        for number in range(hosts * RAILS)
    ]
    timing = {"skipped_iterations": 0, "times_us": [1.0], "per_process_max_times_us": rows}
    result = {"size": SIZE, "out_of_place": {"time": 1.0}, "out_of_place_per_iter": timing, "in_place": None}
    document = {"version": 3, "config": {"devices": devices}, "results": [result], **others}
    return json.dumps(document, separators=(",", ":"))


def compute_seconds(gbps: float, ranks: int, size: int = SIZE) -> float:
    """Return the seconds in which ranks reach a bus bandwidth."""
    return 2 * (ranks - 1) / ranks * size * 8 / gbps / 1e9
