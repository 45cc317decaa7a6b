"""A worker of a proof in a pod: a `proof_worker` in a process of its own, between pipes, and its mailbox.

    mailbox ──> iter_sheets ──> pipe ──> proof_worker, which starts programs ──> pipe ──> rounds ──> mailbox

The worker has a process without threads, since it starts programs. It ends with its input, and the container ends with
it; where it died instead, with status 1, so that kubelet starts the container again, in the same network.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from trackbed.fleet import proof_worker
from trackbed.fleet.mailbox import BEGAN, ROUND_PREFIX, Mailbox
from trackbed.host.machine import Machine
from trackbed.host.runner import start_program

PROGRAMS = frozenset({"rping", "ib_write_bw", "ib_write_lat"})
"""What a pod starts: the programs of the ladder's rungs."""
_TERMINATED = 128 + signal.SIGTERM
_SHOWN = 40


def serve_mailbox(machine: Machine, mailbox: Mailbox, idle_seconds: int) -> None:
    """Run the sheets of a mailbox until it is gone, or no sheet comes for a time.

    The first process of a pod ignores a signal that it has no handler for (pid_namespaces(7)), so SIGTERM gets one.
    """
    sheets, answers = os.pipe(), os.pipe()
    worker = os.fork()
    if not worker:
        os.close(sheets[1])
        os.close(answers[0])
        _work(machine, sheets[0], answers[1], idle_seconds)
        os._exit(0)
    os.close(sheets[0])
    os.close(answers[1])
    signal.signal(signal.SIGTERM, lambda *_: os._exit(_TERMINATED))
    threading.Thread(target=_carry_sheets, args=(mailbox, sheets[1]), daemon=True).start()
    with os.fdopen(answers[0]) as lines, ThreadPoolExecutor(1) as writer:  # a slow server does not delay the worker
        writer.submit(mailbox.write, {BEGAN: mailbox.token})
        for key, text in _collect_rounds(lines):
            writer.submit(mailbox.write, {key: text})
    status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
    if status not in {0, -signal.SIGALRM}:  # the alarm ends a worker that nobody needs any more
        os._exit(1)


def _work(machine: Machine, reading: int, writing: int, idle_seconds: int) -> None:
    for number in (signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.alarm(idle_seconds)
    with os.fdopen(writing, "w", buffering=1) as stream:

        def emit(message: Mapping[str, Any]) -> None:
            stream.write(json.dumps(message) + "\n")

        proof_worker.serve_sheets(
            machine, reading, emit, lambda seconds: signal.alarm(seconds + idle_seconds), start_proof_program
        )


def start_proof_program(argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a program of a proof. Raises OSError, also for any other program.

    Whoever may read pods knows their keys, and whoever may write ConfigMaps too can then write a sheet.
    """
    if argv[0] not in PROGRAMS:
        raise PermissionError(f"{argv[0][:_SHOWN]} is no program of a proof")
    return start_program(argv)


def _carry_sheets(mailbox: Mailbox, writing: int) -> None:
    with suppress(BrokenPipeError), os.fdopen(writing, "w", buffering=1) as stream:
        for sheet in mailbox.iter_sheets():
            stream.write(sheet + "\n")


def _collect_rounds(lines: Iterable[str]) -> Iterable[tuple[str, str]]:
    """Yield the key and the lines of each round when it is done."""
    rounds: dict[int, list[str]] = {}
    for line in lines:
        message = json.loads(line)
        rounds.setdefault(message["round"], []).append(line)
        if message.get("done"):
            yield f"{ROUND_PREFIX}{message['round']}", "".join(rounds.pop(message["round"]))
