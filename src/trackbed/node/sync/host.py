"""The host below this container: asked by the program that `trackbed apply --nodes` sends to hosts over SSH.

It runs in the namespaces of the host's first process, by the host's own Python, so it sees what an operator there sees;
an apply leaves the same undo record, and one that is killed is gone on from in the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet import boot
from trackbed.fleet.outcome import Outcome, judged
from trackbed.fleet.task import Task, Verb, task
from trackbed.host.snapshot.snapshot import Wanted

IN_HOST = ("nsenter", "--target=1", "--mount", "--uts", "--ipc", "--net", "--pid", "--")
"""nsenter(1): all that a program on the host would see. Needs hostPID and a privileged container."""
_SECONDS = 600
_CAPTURE_SECONDS = 120
"""Some of the programs that only tell ask firmware, at a second for each port."""
_MORE_SECONDS = 60
"""How long the program is given beyond the time it gives itself to put everything back."""


class NodeHost:
    """One host; `prefix` is what a command is begun with to be run there."""

    def __init__(self, prefix: Sequence[str] = IN_HOST) -> None:
        self._prefix = tuple(prefix)

    async def request(self, verb: Verb, node: NodePlan) -> Outcome:
        """What came of one request: see fleet.node. Never raises for what goes wrong on the host."""
        return await self._send(task(verb, node, "auto", _SECONDS))

    async def capture(self, name: str, wanted: Wanted) -> Outcome:
        """What the host shows of what is wanted, as `snapshot.wire` writes it in the answer's `snapshot`."""
        return await self._send(Task("capture", name, None, {}, "none", _CAPTURE_SECONDS, wanted))

    async def _send(self, one: Task) -> Outcome:
        request = boot.payload(one)
        argv = (*self._prefix, "sh", "-c", boot.command())
        try:
            done = await asyncio.create_subprocess_exec(
                *argv, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
            )
        except OSError as error:
            return Outcome(one.name, "failed", f"{argv[0]} cannot be started: {error.strerror}")
        try:
            async with asyncio.timeout(one.seconds + _MORE_SECONDS):
                said, errors = await done.communicate(request)
        except TimeoutError:
            done.kill()
            await done.wait()
            return judged(one.name, None, [], [])
        lines = (text.decode(errors="replace").splitlines() for text in (said, errors))
        return judged(one.name, done.returncode, *lines)
