"""Excerpts of the archives of a whole site, read by one process for each core.

    archives ──> worker processes: excerpt_capture ──> NodeExcerpt, in the order of the archives

A few archives are read by the caller itself. Workers are forked while the caller has one thread, so they have the plan
without a copy of it. They end with the caller, also if it is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Final

from trackbed.doctor.across.excerpt import NodeExcerpt
from trackbed.doctor.captured import ForeignCaptureError, excerpt_capture
from trackbed.fabric.plan.plan import NodePlan

MAX_PROCESSES: Final = 16
"""Each may hold what is needed of one hostile archive, 64 MiB."""
ARCHIVES_PER_PROCESS: Final = 16
"""With fewer, starting a process takes longer than reading them."""
_BATCH: Final = 4
"""Archives that a process is handed at once."""
_POLL_SECONDS: Final = 0.5

_nodes: dict[str, NodePlan] = {}
"""The nodes of the plan by name, in a worker process."""


class WorkerKilledError(RuntimeError):
    """A worker process was killed, so its archives were not read."""


def excerpt_captures(
    archives: Sequence[Path], nodes: Mapping[str, NodePlan]
) -> Iterator[NodeExcerpt | ForeignCaptureError]:
    """Yield the excerpt of each archive in order, or why it is of no node. Raises WorkerKilledError."""
    count = min(len(os.sched_getaffinity(0)), len(archives) // ARCHIVES_PER_PROCESS, MAX_PROCESSES)
    if count < 2:  # noqa: PLR2004 - a single worker is no faster than the caller
        yield from (_excerpt(archive, nodes) for archive in archives)
        return
    with ProcessPoolExecutor(
        count, multiprocessing.get_context("fork"), _start_worker, (nodes, os.getpid())
    ) as workers:
        try:
            yield from workers.map(_excerpt_in_worker, archives, chunksize=_BATCH)
        except BrokenProcessPool as error:
            raise WorkerKilledError("a process that reads captures was killed; memory may have run out") from error


def _start_worker(nodes: Mapping[str, NodePlan], caller: int) -> None:
    """Leave interrupts to the caller, which ends its workers, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    threading.Thread(target=_exit_with_caller, args=(caller,), daemon=True).start()
    _nodes.update(nodes)


def _exit_with_caller(caller: int) -> None:
    """Wait until the caller has gone. The pipes of a pool stay open, since its workers have both ends of them."""
    while os.getppid() == caller:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


def _excerpt_in_worker(archive: Path) -> NodeExcerpt | ForeignCaptureError:
    return _excerpt(archive, _nodes)


def _excerpt(archive: Path, nodes: Mapping[str, NodePlan]) -> NodeExcerpt | ForeignCaptureError:
    try:
        return excerpt_capture(archive, nodes)
    except ForeignCaptureError as error:
        return error
