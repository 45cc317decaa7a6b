"""The rounds of a proof on one host: run the steps of a sheet at their times, and answer in lines of JSON.

    standard input    {"sheet": 1, "in": 1.0, "rounds": [{"at": 0.0, "seconds": 4.0, "steps": [[6, {step}], ...]}, ...]}
    standard output   trackbed {"sheet": 1, "round": 0, "id": 6, "output": {...}}      for each step
                      trackbed {"sheet": 1, "round": 0, "done": true}                   for each round

`in` counts from the arrival of the line, on the host's own monotonic clock, so that no clocks have to agree. Steps are
programs, pings, streams, files or links, as `prove/rungs/rung.py` describes them. The worker ends with its input, so it
dies with its connection, and it kills its programs first; the kernel kills them if the worker is killed. It writes no
file.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from trackbed.fleet.link_reading import list_links_with_addresses, list_names
from trackbed.fleet.programs import Start, run_programs
from trackbed.fleet.sheet_input import InputClosedError, SheetInput
from trackbed.fleet.streams import run_streams
from trackbed.host.machine import Machine
from trackbed.host.runner import start_program
from trackbed.kernel.netlink.addresses import FAMILY
from trackbed.kernel.wire import icmp
from trackbed.kernel.wire.addresses import format_address
from trackbed.kernel.wire.errors import ProbeError

_MAX_FILES, _MAX_FILE_CHARACTERS = 128, 256
"""Of a folder. A table of GIDs has 255 places in mlx5 and 1,024 in rxe, and is filled from its beginning."""
_PING_SECONDS, _PING_TRIES = 0.8, 3
"""A lost packet is no finding, so a silent ping is repeated."""

Emit = Callable[[Mapping[str, Any]], None]
NumberedSteps = Sequence[tuple[int, Mapping[str, Any]]]
Outputs = Iterator[tuple[int, Mapping[str, Any]]]


def serve_sheets(
    machine: Machine, descriptor: int, emit: Emit, arm: Callable[[int], object], start: Start = start_program
) -> None:
    """Run sheets from a descriptor until its end. `arm` gets the seconds in which the next line is due."""
    sheets = SheetInput(descriptor)
    try:
        while True:
            sheet = json.loads(sheets.read_line())
            arm(math.ceil(sheet["in"] + sum(number["seconds"] for number in sheet["rounds"])))
            _run_sheet(machine, sheet, sheets, emit, start)
    except InputClosedError:
        return


def _run_sheet(machine: Machine, sheet: Mapping[str, Any], sheets: SheetInput, emit: Emit, start: Start) -> None:
    origin = time.monotonic() + sheet["in"]
    for number in sheet["rounds"]:
        place = {"sheet": sheet["sheet"], "round": number["round"]}
        begin = origin + number["at"]
        sheets.sleep_until(begin)
        for step_id, output in run_steps(machine, number["steps"], begin + number["seconds"], sheets, start):
            emit({**place, "id": step_id, "output": output})
        emit({**place, "done": True})


def run_steps(
    machine: Machine, steps: NumberedSteps, deadline: float, sheets: SheetInput, start: Start = start_program
) -> Outputs:
    """Run the steps of a round that begins now; programs end by `deadline`, by the monotonic clock.

    Raises InputClosedError if the input ends meanwhile.
    """
    yield from ((step_id, {"links": list_links_with_addresses(machine)}) for step_id, step in steps if "links" in step)
    yield from _read_files(machine, [(step_id, step) for step_id, step in steps if "files" in step])
    yield from _ping(machine, [(step_id, step["pings"]) for step_id, step in steps if "pings" in step])
    streams = [(step_id, step) for step_id, step in steps if "stream" in step]
    yield from run_streams(streams, deadline, sheets) if streams else ()
    programs = [(step_id, step) for step_id, step in steps if "argv" in step]
    if machine.root != Path("/"):
        yield from ((step_id, {"missing": step["argv"][0]}) for step_id, step in programs)
    else:
        yield from run_programs(programs, deadline, sheets, start)


def _read_files(machine: Machine, steps: NumberedSteps) -> Outputs:
    for step_id, step in steps:
        paths = [path for pattern in step["files"] for path in _expand(machine, pattern)]
        texts = {path: machine.read(path) for path in paths}
        files = {path: text[:_MAX_FILE_CHARACTERS] for path, text in texts.items() if isinstance(text, str)}
        missing = [name for name in step["programs"] if not machine.has_program(name)]
        yield step_id, {"files": files, "missing": missing}


def _expand(machine: Machine, pattern: str) -> list[str]:
    """Return the path itself, or for a pattern with `/*` the first that a folder has: 9 comes before 10."""
    folder, star, below = pattern.partition("/*")
    if not star:
        return [pattern]
    return [f"{folder}/{name}{below}" for name in list_names(machine, folder)[:_MAX_FILES]]


def _ping(machine: Machine, requests: Sequence[tuple[int, Sequence[Mapping[str, Any]]]]) -> Outputs:
    pings = [_build_ping(ping) for _, group in requests for ping in group]
    try:
        results = _ping_patiently(machine, pings) if pings else []
    except (ProbeError, OSError) as error:
        yield from ((step_id, {"failure": str(error)}) for step_id, _ in requests)
        return
    for step_id, group in requests:
        yield step_id, {"pings": [_describe(result) for result in results[: len(group)]]}
        results = results[len(group) :]


def _ping_patiently(machine: Machine, pings: Sequence[icmp.Ping]) -> list[icmp.PingResult]:
    results = list(icmp.ping(machine.netns, pings, _PING_SECONDS))
    for _ in range(_PING_TRIES - 1):
        silent = [index for index, result in enumerate(results) if result.outcome == "silent"]
        repeats = icmp.ping(machine.netns, [pings[index] for index in silent], _PING_SECONDS) if silent else ()
        for index, result in zip(silent, repeats):
            results[index] = result
    return results


def _build_ping(ping: Mapping[str, Any]) -> icmp.Ping:
    source, target = ip_address(ping["source"]), ip_address(ping["target"])
    return icmp.Ping(
        int(source),
        int(target),
        FAMILY[source.version],
        payload_bytes=ping["payloadBytes"],
        dont_fragment=True,
    )


def _describe(result: icmp.PingResult) -> Mapping[str, Any]:
    reporter = None if result.reported_by is None else format_address(result.ping.family, result.reported_by)
    return {
        "outcome": result.outcome,
        "rttMs": result.rtt_ms,
        "mtuBytes": result.mtu_bytes,
        "by": reporter,
        "reason": result.reason,
    }
