"""What a rung is: steps for the two ends of a path, and the reading of their outputs.

A step is a JSON object; a worker on the node runs it and answers with a JSON object:

    {"argv": [...], "after": 1.0}      {"status": 0, "stdout": "...", "stderr": "..."}; status null: it was ended
    with "relay": {...}                a connection that the program makes, carried on (fleet/relay.py)
                                       {"missing": "rping"} if the node has no such program
    {"pings": [{"source", "target", "payloadBytes"}, ...]}
                                       {"pings": [{"outcome", "rttMs", "mtuBytes", "by", "reason"}, ...]}
                                       {"failure": "..."} if the node may not ping
    {"files": [pattern, ...], "programs": [name, ...]}
                                       {"files": {path: text, ...}, "missing": [name, ...]}
    {"stream": {"source", "target", "port", "listens", "seconds"}, "after": 1.0}
                                       {"receivedBytes", "seconds", "segmentBytes"}, or {"failure": "..."}
    {"links": true}                    {"links": [{"netdev", "address", "rdma"}, ...]}: every global address

`after` is in seconds from the start of the round. A node may answer anything, so readings trust no shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from trackbed.prove.findings import Transport

Step = Mapping[str, Any]
CLIENT_AFTER_SECONDS = 1.0
"""Clients start later than servers, which have to load their libraries and to listen."""
_FIRST_PORT = 18515
"""TCP port of rail 0, for servers of perftest and rping: perftest's default."""
_LONGEST_REASON = 200
_MOST = 1e18
"""An integer of JSON may have hundreds of digits, of which no float is made."""
_MOST_STATUS = 255


class PathEnd(NamedTuple):
    """One end of a path: a port with its interface, RDMA device and address."""

    node: str
    rail: int
    netdev: str
    rdma: str
    address: str
    gid_index: int | None = None
    """Index of the address in the port's table of GIDs; None for InfiniBand, or if it was not read."""
    gpu_options: tuple[str, ...] = ()
    """perftest's options for the memory of the port's GPU."""


class ProbedPath(NamedTuple):
    """A path between two ports, and what the Fabric plans for it."""

    a: PathEnd
    b: PathEnd
    packet_bytes: int
    """Length of the largest IP packet that RDMA sends."""
    path_mtu_bytes: int
    traffic_class: int
    is_isolated: bool = False
    """Whether the Fabric isolates the two rails, so that the test passes if nothing arrives."""
    source_port: int | None = None
    """UDP source port of a single flow from a to b; None: many flows in both directions."""
    rate_gbps: float | None = None
    """The lower of the rates of both ports, or the share of it that the test may load; None: unknown."""
    is_limited: bool = False
    """Whether the test may load no more than `rate_gbps`."""


class RungReading(NamedTuple):
    """What the outputs of both ends say: a value in the rung's unit, a failure, nothing certain, or no test."""

    state: Literal["measured", "failed", "unclear", "not-tested"]
    value: float | None = None
    reason: str = ""
    node: str = ""
    """The node that the reason is about, where it is one; the reason does not name it."""


class Rung(NamedTuple):
    """A rung of the ladder that tests paths."""

    name: str
    transport: Transport
    unit: str
    """Unit of the value."""
    seconds: float
    """Length of a round, with the start of servers and clients."""
    build_steps: Callable[[ProbedPath], tuple[Step, Step]]
    """Steps of the ends a and b."""
    read: Callable[[ProbedPath, object, object], RungReading]
    """Reading of the answers of a and b."""
    program: str = ""
    """Program that both ends need."""
    scale: Literal["reach", "rate", "latency"] = "reach"
    """What decides: whether it was reached, the share of the ports' rate, or the median latency of its class."""
    tests_isolation: bool = False
    """Whether the rung can show that two rails are isolated."""
    needs_gpu: bool = False
    """Whether both ends need the GPU that the plan gives their port."""
    look: str = ""
    """What to look at where a port is blamed; empty: as on other rungs."""


def choose_server_port(end: PathEnd) -> int:
    """Return the TCP port on which a server for this port listens; a node has one test on a rail at a time."""
    return _FIRST_PORT + end.rail


def get_mapping(document: object, key: str = "") -> Mapping[str, Any]:
    """Return a JSON object, or the one below a key of it; empty if it is none."""
    chosen = document.get(key) if key and isinstance(document, Mapping) else document
    return chosen if isinstance(chosen, Mapping) else {}


def get_text(document: object, key: str) -> str:
    """Return a text below a key; empty if it is none."""
    text = get_mapping(document).get(key)
    return text if isinstance(text, str) else ""


def get_number(document: object, key: str) -> float | None:
    """Return a number of at least 0 below a key; None if it is none, or larger than anything that is measured."""
    number = get_mapping(document).get(key)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return number if 0 <= number < _MOST else None


def shorten(text: str) -> str:
    """Return the last line of a text that is not empty, of bounded length; a node may answer any text."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:_LONGEST_REASON] if lines else ""


def explain_programs(path: ProbedPath, server: object, client: object) -> RungReading | None:
    """Return the reading of two programs that did not both end well: missing, silent or failed; else None.

    The server is path.b, the client path.a. The client's status counts: servers end as their client does. One that was
    ended after its result has measured: closing its connections belongs to no measurement.
    """
    for end, output in ((path.a, client), (path.b, server)):
        if program := get_text(output, "missing"):
            return RungReading("not-tested", reason=explain_missing(program), node=end.node)
    status, errors = get_mapping(client).get("status", -1), get_text(client, "stderr")
    has_result, message = _split_result(errors)
    if status == 0 or (status is None and has_result):
        return None
    ending = "did not end in time" if status is None else f"failed with status {_check_status(status)}"
    message = shorten(message) or shorten(get_text(client, "stdout")) or "it printed nothing"
    return RungReading("failed", reason=f"{path.a.node} to {path.b.node}: the client {ending}: {message}")


def _split_result(errors: str) -> tuple[bool, str]:
    """Return whether perftest's JSON is in a standard error, and what comes after it; else all of it.

    No pattern: a node may print a megabyte of braces.
    """
    begin, end = f"\n{errors}".find("\n{\n"), errors.rfind("\n}\n")
    if begin < 0 or end < begin:
        return False, errors
    return True, errors[end + 3 :].strip() or "it had printed its result"


def explain_missing(program: str) -> str:
    """Return what is missing on a node, and what to install."""
    return f"it has no {shorten(program)}: install {_PACKAGES.get(program, 'it')}"


def _check_status(status: object) -> object:
    """Return an exit status as it is shown: a node may answer a list of a thousand depths."""
    return status if isinstance(status, int) and abs(status) <= _MOST_STATUS else "unknown"


_PACKAGES = {
    "rping": "rdmacm-utils (Debian, Ubuntu) or librdmacm-utils (RHEL)",
    "ib_write_bw": "perftest",
    "ib_write_lat": "perftest",
}
