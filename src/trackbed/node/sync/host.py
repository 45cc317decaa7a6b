"""The host of this container, through the program that `trackbed apply --nodes` sends to hosts over SSH.

The program runs in the namespaces of the host's first process with the host's own Python, so it sees the same as an
operator on the host. An apply leaves the same undo record, and a killed one is resumed in the same way.
"""

import asyncio
from collections.abc import Sequence

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet import boot
from trackbed.fleet.outcome import Outcome, judged
from trackbed.fleet.task import Task, Verb, task
from trackbed.host.snapshot.snapshot import Wanted

IN_HOST = ("nsenter", "--target=1", "--mount", "--uts", "--ipc", "--net", "--pid", "--")
"""nsenter(1) with all namespaces of the host. Needs hostPID and a privileged container."""
_SECONDS = 600
_CAPTURE_SECONDS = 120
"""Some of the programs that are run for a snapshot query firmware, which takes a second for each port."""
_GRACE_SECONDS = 60
"""Time that the program gets beyond its own deadline, to roll back."""


class NodeHost:
    """One host; `prefix` is the command that runs another command on it."""

    def __init__(self, prefix: Sequence[str] = IN_HOST) -> None:
        self._prefix = tuple(prefix)

    async def request(self, verb: Verb, node: NodePlan) -> Outcome:
        """Return the outcome of one request (see `trackbed.fleet.node`). A failure on the host does not raise."""
        return await self._send(task(verb, node, "auto", _SECONDS))

    async def capture(self, name: str, wanted: Wanted) -> Outcome:
        """Capture a snapshot of the host; it is in the answer's `snapshot`, encoded by `snapshot.wire`."""
        return await self._send(Task("capture", name, None, {}, "none", _CAPTURE_SECONDS, wanted))

    async def _send(self, task: Task) -> Outcome:
        request = boot.payload(task)
        argv = (*self._prefix, "sh", "-c", boot.command())
        try:
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            return Outcome(task.name, "failed", f"{argv[0]} cannot be started: {error.strerror}")
        try:
            async with asyncio.timeout(task.seconds + _GRACE_SECONDS):
                output, errors = await process.communicate(request)
        except TimeoutError:
            process.kill()
            await process.wait()
            return judged(task.name, None, [], [])
        lines = (text.decode(errors="replace").splitlines() for text in (output, errors))
        return judged(task.name, process.returncode, *lines)
