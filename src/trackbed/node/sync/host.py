"""The host of this container, through the program that `trackbed apply --nodes` sends to hosts over SSH.

The program runs in the namespaces of the host's first process with this container's Python (`sync.interpreter`), so it
sees the same as an operator on the host, and a host needs no Python. An apply leaves the same undo record, and a killed
one is resumed in the same way.
"""

import asyncio
from collections.abc import Sequence

import msgspec

from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet import boot
from trackbed.fleet.outcome import Outcome, judge_output
from trackbed.fleet.task import HostTask, Verb, build_task
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.node.sync.interpreter import open_interpreter

IN_HOST = ("nsenter", "--target=1", "--mount", "--uts", "--ipc", "--net", "--pid", "--")
"""Prefix of commands for the namespaces of the host, see nsenter(1). It needs hostPID and a privileged container."""
_SECONDS = 600
_CAPTURE_SECONDS = 120
"""Time limit of a snapshot. Some of the programs that it runs query firmware, which takes a second for each port."""
_GRACE_SECONDS = 60
"""Time that the program has after its own deadline to roll back."""


class NodeHost:
    """One host; `host_command` is the prefix of a command that runs on it."""

    def __init__(self, host_command: Sequence[str] = IN_HOST) -> None:
        self._prefix = tuple(host_command)

    async def run_request(self, verb: Verb, node: NodePlan, removals: int | None = None) -> Outcome:
        """Run one request on the host (see `trackbed.fleet.node`) and return its outcome. A failure does not raise.

        `removals` is the confirmed number of removals, for an apply of a plan that does not fit.
        """
        return await self._run_task(build_task(verb, node, "auto", _SECONDS, removals))

    async def repair_settings(self, node: NodePlan, settings: Sequence[tuple[str, str]]) -> Outcome:
        """Change only these settings (step and subject) on the host, in place. A failure does not raise."""
        task = build_task("apply", node, "auto", _SECONDS)
        return await self._run_task(msgspec.structs.replace(task, repairs=settings))

    async def capture_snapshot(self, node_name: str, wanted: Wanted) -> Outcome:
        """Capture a snapshot of the host; it is in the answer's `snapshot`, encoded by `snapshot.wire`."""
        return await self._run_task(HostTask("capture", node_name, None, {}, "none", _CAPTURE_SECONDS, wanted))

    async def _run_task(self, task: HostTask) -> Outcome:
        request = boot.build_payload(task)
        try:
            process = await self._start_program()
        except OSError as error:
            return Outcome(task.name, "failed", f"{self._prefix[0]} cannot be started: {error.strerror}")
        try:
            async with asyncio.timeout(task.seconds + _GRACE_SECONDS):
                output, errors = await process.communicate(request)
        except TimeoutError:
            process.kill()
            await process.wait()
            return judge_output(task.name, task.verb, None, [], [])
        lines = (text.decode(errors="replace").splitlines() for text in (output, errors))
        return judge_output(task.name, task.verb, process.returncode, *lines)

    async def _start_program(self) -> asyncio.subprocess.Process:
        """Start the program, which reads its request from standard input. Raises OSError."""
        with open_interpreter() as interpreter:
            return await asyncio.create_subprocess_exec(
                *(*self._prefix, *interpreter.argv, "-c", boot.PROGRAM),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=interpreter.variables,
                pass_fds=(interpreter.root,),
            )
