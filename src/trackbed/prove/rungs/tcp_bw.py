"""Rung tcp_bw: the rate of one TCP stream in each direction, both at once. IP says nothing of RDMA.

One stream fills slow ports alone (up to some 10 Gb/s), so the rung is climbed only where it is named. It needs no
program on the nodes: the worker sends and receives (fleet/streams.py).
"""

from __future__ import annotations

from trackbed.prove.rungs.rung import (
    CLIENT_AFTER_SECONDS,
    PathEnd,
    ProbedPath,
    Rung,
    RungReading,
    Step,
    choose_server_port,
    get_number,
    get_text,
    shorten,
)

_TRAFFIC_SECONDS = 5.0
_ROUND_SECONDS = 10.0
"""Connection, 2 s in which the rate settles, the traffic, half a second for the other end."""
_ETHERNET_BYTES = 38
"""Preamble, header, checksum and gap of a frame (IEEE 802.3)."""
_TCP_BYTES = {False: 52, True: 72}
"""Headers of IP and of TCP with time stamps, by whether the address is of IPv6."""
_BITS = 8e-9


def build_steps(path: ProbedPath) -> tuple[Step, Step]:
    """Return the steps of a, which connects, and of b, which listens."""
    return (
        _build_step(path.a, path.b, path.source_port, listens=False),
        _build_step(path.b, path.a, None, listens=True),
    )


def _build_step(source: PathEnd, target: PathEnd, source_port: int | None, *, listens: bool) -> Step:
    stream = {
        "source": source.address,
        "target": target.address,
        "port": choose_server_port(source if listens else target),
        "listens": listens,
        "sourcePort": source_port or 0,
        "seconds": _TRAFFIC_SECONDS,
    }
    return {"stream": stream, "after": 0.0 if listens else CLIENT_AFTER_SECONDS}


def read(path: ProbedPath, a: object, b: object) -> RungReading:
    """Return the rate in Gb/s, with the headers of its frames: of a single flow from a to b, else of the slower way."""
    rates = {}
    for source, target, output in ((path.b, path.a, a), (path.a, path.b, b)):
        if failure := get_text(output, "failure"):
            return RungReading("failed", reason=f"{source.node} to {target.node}: {shorten(failure)}")
        received, seconds = get_number(output, "receivedBytes"), get_number(output, "seconds")
        segment = get_number(output, "segmentBytes")
        if received is None or not seconds or not segment:
            return RungReading("unclear", reason="its answer cannot be read", node=target.node)
        headers = _TCP_BYTES[":" in target.address] + _ETHERNET_BYTES
        rates[target] = received * (segment + headers) / segment * _BITS / seconds
    return RungReading("measured", min(rates.values()) if path.source_port is None else rates[path.b])


RUNG = Rung("tcp_bw", "ip", "Gb/s", _ROUND_SECONDS, build_steps, read, scale="rate")
