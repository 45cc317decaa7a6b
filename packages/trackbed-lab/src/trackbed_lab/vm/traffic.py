"""Tests between the pods of two emulated servers: writes over RDMA, and connections by the RDMA CM.

All pairs of a round start at once. A pair that fails though the plan lets it speak starts again in a further round,
with a new server: perftest's and rping's servers do not listen while they wait for a client that has failed.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from trackbed.fabric.plan.plan import Plan, PortPlan
from trackbed_lab.run_result import PhaseOutcome
from trackbed_lab.vm import pods
from trackbed_lab.vm.channel import Channel, execute_command

ROUNDS = 4
SECONDS = 240.0
"""Time limit of a command on a server; more than `pods.TRIES` tries of a client take."""
_WORDS = re.compile(r"^.*[a-z].*$", re.MULTILINE)
_FIGURES = re.compile(r"^[ \t]*65536\s+\d+\s+[\d.]+\s+([\d.]+)", re.MULTILINE)
"""The line of perftest with size, iterations, peak and average in MB/s; the group is the average."""

PortPair = tuple[PortPlan, PortPlan]
"""A sender and its receiver: a port of the first server and one of the second."""


def pair_same_rails(plan: Plan) -> list[PortPair]:
    """Return a pair within each rail."""
    first, second = plan.nodes[:2]
    return list(zip(first.ports, second.ports, strict=True))


def pair_cross_rails(plan: Plan) -> list[PortPair]:
    """Return a pair from each rail to the next one."""
    first, second = plan.nodes[:2]
    return [(port, second.ports[(index + 1) % len(second.ports)]) for index, port in enumerate(first.ports)]


class PairTest(NamedTuple):
    """A test between two pods: its server and client by pair and the pair's number, and how a good output is told."""

    render_server: Callable[[PortPair, int], str]
    render_client: Callable[[PortPair, int], str]
    is_good: Callable[[str], bool]


BANDWIDTH = PairTest(
    lambda pair, number: pods.render_bandwidth_server(pair[1], number),
    lambda pair, number: pods.render_bandwidth_client(*pair, number),
    lambda output: bool(_FIGURES.search(output)),
)
CM = PairTest(
    lambda pair, number: pods.render_cm_server(pair[1], number),
    lambda pair, _: f"{pods.render_cm_client(*pair)} && echo connected",
    lambda output: "connected" in output,
)


class Servers(NamedTuple):
    """The server that sends, and the one that receives."""

    first: Channel
    second: Channel


@dataclass(slots=True)
class PairOutput:
    """What a pair's last client and server printed, and in which round that was (from 1)."""

    client: str = ""
    server: str = ""
    rounds: int = 0


def check_rdma(servers: Servers, pairs: Sequence[PortPair], *, routed: bool) -> PhaseOutcome:
    """Write over RDMA within all pairs; check that those succeed that the plan lets speak, and no others.

    Args:
        servers: the servers with the pods.
        pairs: the pairs.
        routed: whether the plan lets rails speak with each other.
    """
    planned = [pair for pair in pairs if routed or pair[0].rail == pair[1].rail]
    outputs = run_rounds(BANDWIDTH, servers, pairs, planned)
    rates = [float(match[1]) for output in outputs if (match := _FIGURES.search(output.client))]
    summary = f"{len(rates)} of {len(pairs)} pairs, {len(planned)} planned"
    if rates:
        summary += f"; {min(rates):.1f} to {max(rates):.1f} MB/s each"
    good = [BANDWIDTH.is_good(output.client) for output in outputs] == [pair in planned for pair in pairs]
    return summary + (summarize_repeats if good else summarize_failures)(BANDWIDTH, pairs, outputs), good


def check_cm(servers: Servers, pairs: Sequence[PortPair]) -> PhaseOutcome:
    """Connect the pods of all pairs by the RDMA CM."""
    outputs = run_rounds(CM, servers, pairs, pairs)
    connected = sum(CM.is_good(output.client) for output in outputs)
    good = connected == len(pairs)
    words = (summarize_repeats if good else summarize_failures)(CM, pairs, outputs)
    return f"rping over {connected} of {len(pairs)} rails{words}", good


def run_rounds(
    test: PairTest, servers: Servers, pairs: Sequence[PortPair], planned: Sequence[PortPair]
) -> list[PairOutput]:
    """Run a test for all pairs; repeat it for the planned ones that fail, in at most ROUNDS rounds."""
    outputs = [PairOutput() for _ in pairs]
    waiting = list(enumerate(pairs))
    while waiting and outputs[waiting[0][0]].rounds < ROUNDS:
        for (number, _), (client, server) in zip(waiting, _run_round(test, servers, waiting), strict=True):
            outputs[number] = PairOutput(client, server, outputs[number].rounds + 1)
        failed = [(number, pair) for number, pair in waiting if not test.is_good(outputs[number].client)]
        waiting = [(number, pair) for number, pair in failed if pair in planned]
    return outputs


def _run_round(test: PairTest, servers: Servers, waiting: Sequence[tuple[int, PortPair]]) -> list[tuple[str, str]]:
    """Run a test for some pairs at once, with servers of its own; return what each client and server printed."""
    script = "".join(test.render_server(pair, number) for number, pair in waiting)
    _run(servers.second, f"setsid -f sh -c {shlex.quote(script)}")
    clients = [pods.render_tries(test.render_client(pair, number)) for number, pair in waiting]
    with ThreadPoolExecutor(max_workers=len(clients)) as pool:
        outputs = list(pool.map(lambda command: _run(servers.first, command), clients))
    _run(servers.second, pods.STOP_SERVERS)
    logs = [_run(servers.second, f"cat {pods.name_log(number)}") for number, _ in waiting]
    return list(zip(outputs, logs, strict=True))


def _run(server: Channel, script: str) -> str:
    result = execute_command(server, ["sh", "-c", script], SECONDS)
    return (result.output + result.errors).decode(errors="replace")


def summarize_failures(test: PairTest, pairs: Sequence[PortPair], outputs: Sequence[PairOutput]) -> str:
    """Return the last words of client and server of each pair that failed; perftest also prints rulers."""
    return "".join(
        f"; {_name(pair)}: {_find_last_words(output.client)} (its server: {_find_last_words(output.server)})"
        for pair, output in zip(pairs, outputs, strict=True)
        if not test.is_good(output.client)
    )


def summarize_repeats(_: PairTest, pairs: Sequence[PortPair], outputs: Sequence[PairOutput]) -> str:
    """Return which pairs needed more than one round."""
    return "".join(
        f"; {_name(pair)} in round {output.rounds}"
        for pair, output in zip(pairs, outputs, strict=True)
        if output.rounds > 1
    )


def _name(pair: PortPair) -> str:
    return f"{pair[0].netdev} to {pair[1].netdev}"


def _find_last_words(output: str) -> str:
    lines: list[str] = _WORDS.findall(output)
    return lines[-1] if lines else "no output"
