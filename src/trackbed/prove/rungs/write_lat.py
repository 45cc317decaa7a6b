"""Rung write_lat: the latency of small RDMA writes, half a round trip (ib_write_lat of perftest)."""

from __future__ import annotations

from trackbed.prove.rungs import perftest
from trackbed.prove.rungs.rung import (
    ProbedPath,
    Rung,
    RungReading,
    Step,
    explain_programs,
    get_text,
)

_SIZE_BYTES = 8
_ITERATIONS = 50
"""Enough for a median, and few enough for emulated ports, where one takes milliseconds."""


def build_steps(path: ProbedPath) -> tuple[Step, Step]:
    """Return the steps of the client, a, and the server, b."""
    options = ("-s", str(_SIZE_BYTES), "-n", str(_ITERATIONS))
    client, server = (perftest.build_argv("ib_write_lat", path, end, *options) for end in (path.a, path.b))
    return perftest.build_steps(path, client, server)


def read(path: ProbedPath, a: object, b: object) -> RungReading:
    """Return the typical latency in microseconds."""
    if reading := explain_programs(path, b, a):
        return reading
    try:
        results = perftest.parse_results(get_text(a, "stderr"), path.a, "RDMA_Write_Latency_Test", _SIZE_BYTES)
        return RungReading("measured", perftest.read_value(results, "t_typical", "avg_lat"))
    except perftest.PerftestError as error:
        return perftest.build_unclear("ib_write_lat", path, str(error))


RUNG = Rung("write_lat", "rdma", "us", 6.0, build_steps, read, "ib_write_lat", scale="latency")
