"""Starts agents that die at a chosen moment, one after another, each forked from here so that it starts at once.

    standard input   one line an agent: `never 0`; `reading N`: killed at the Nth reading of its clock, that is at the
                     end of a phase of a request; `after N`: killed N microseconds after its first reading
    standard output  its pid, then `ready`, then `ended`

Use: python -m tests.node.rails.nursery PLAN STATE SOCKET NETNS
"""

import itertools
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from trackbed.fabric.plan.node_document import decode_node
from trackbed.kernel.netlink.netns import setns
from trackbed.node.rails.agent import AgentPaths, run_agent


def main() -> None:
    """Fork an agent for each line of input."""
    plan, state, socket, netns = map(Path, sys.argv[1:])
    node = decode_node(plan.read_bytes())
    logging.basicConfig(level=logging.INFO)
    with netns.open() as namespace:
        setns(namespace.fileno())
    for line in sys.stdin:
        kind, number = line.split()
        pid = os.fork()
        if pid == 0:
            _say(os.getpid())  # here, so that it comes before "ready" whoever runs first
            run_agent(node, AgentPaths(state, socket), lambda: _say("ready"), clock=_clock(kind, int(number)))
            os._exit(0)
        os.waitpid(pid, 0)
        _say("ended")


def _say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def _clock(kind: str, number: int) -> Callable[[], float]:
    readings = itertools.count(1)

    def clock() -> float:
        reading = next(readings)
        if kind == "reading" and reading == number:
            os.kill(os.getpid(), signal.SIGKILL)
        if kind == "after" and reading == 1:
            signal.setitimer(signal.ITIMER_REAL, number / 1e6)  # SIGALRM, not handled: the process is gone
        return time.perf_counter()

    return clock


if __name__ == "__main__":
    main()
