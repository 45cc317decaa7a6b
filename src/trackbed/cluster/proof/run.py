"""Workers of a proof in pods: the transport of a `fleet.sheet_run.SheetRun`, by objects of an API server.

    connect    mailbox and pod are created; the worker writes that it began. A worker that died is started again by
               kubelet in the same pod, and writes that with another token
    send       a sheet is written to the mailbox, answers of the last one are removed
    abort      the pod is deleted; `connect` creates it anew once it is gone, as it does with one that ended by itself

A pod that was made anew is asked for its ends first: what was planned and read is of the ends of the former one, and
where the two differ, tests would blame the node for addresses that nobody has any more. Its node is lost.

Two watches, of the pods and the mailboxes of this run, tell everything else. At the end, however it comes, all objects
with the run's label are deleted, and those that earlier runs left behind.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

import msgspec

from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.paths import join_path
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.proof.deadline import BEGIN_SECONDS, compute_start_seconds
from trackbed.cluster.proof.objects import PROOF, ProofSite, build_mailbox, build_pod, build_shared
from trackbed.cluster.proof.pods import MailboxObject, PodObject, explain_end, explain_wait, is_stuck
from trackbed.cluster.proof.removal import build_command, list_left_behind, remove_run, remove_runs
from trackbed.fleet.mailbox import BEGAN, ROUND_PREFIX, SHEET, name_sheet, sign, verify
from trackbed.fleet.sheet_run import LATE_SECONDS, SheetCalls, SheetRun
from trackbed.prove.pod_ends import STEP, find_ends
from trackbed.prove.ports import FACTS_SECONDS
from trackbed.prove.rungs.rung import PathEnd

LOOK_SECONDS: Final = 0.05
"""Changes that come within this time are looked at together."""
REPORT_SECONDS: Final = 10
_WRITES: Final = 64
"""Requests under way at the same time."""


@dataclass
class _Host:
    """The pod of a node."""

    index: int
    node: str
    key: str
    """What signs the entries of its mailbox."""
    is_open: bool = False
    """Whether its end has not been told yet."""
    is_live: bool = False
    """Whether its worker has begun."""
    began: str = ""
    """The entry of its mailbox in which its worker says so, as it was looked at last."""
    token: str = ""
    """The worker that has begun, or the last one that had."""
    was_seen: bool = False
    """Whether the watch has had the pod."""
    gone: asyncio.Event | None = None
    """Set once the pod that was given up is not there any more; None if none was, or another one was created."""
    read: dict[str, str] = field(default_factory=dict)
    """Answers that were handed over, by entry."""
    ends: Mapping[int, PathEnd] | None = None
    """The ends of its rails that its pod has named; None if it has named none yet."""
    comparison: int = 0
    """Number of the sheet by which a pod that was made anew is asked for its ends; 0 if it is not asked."""


async def run_sheets(
    client: DynamicClient,
    site: ProofSite,
    nodes: Sequence[str],
    calls: SheetCalls,
) -> None:
    """Run sheets in pods until there are no more; see SheetRun. Raises KubeError if nothing can be created."""
    workers = _PodWorkers(client, site, nodes, calls.report)
    workers.run = SheetRun(nodes, workers, calls)
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    if task is not None:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await workers.serve()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        await workers.remove()


class _PodWorkers:
    """The transport of a SheetRun."""

    run: SheetRun

    def __init__(
        self, client: DynamicClient, site: ProofSite, nodes: Sequence[str], report: Callable[[str], None]
    ) -> None:
        self._client, self._http, self._site, self._report = client, client.client, site, report
        self._hosts = {node: _Host(index, node, site.derive_key(index)) for index, node in enumerate(nodes)}
        self._woken = asyncio.Event()
        self._is_over = False
        self._failure: BaseException | None = None
        self._writes = asyncio.Semaphore(_WRITES)
        self._tasks: set[asyncio.Task[None]] = set()
        self._comparisons = count(-1, -1)  # sheets of the proof have numbers above 0
        self.start_seconds = compute_start_seconds(len(nodes))
        selector = f"{PROOF}={site.name}"
        pods, mailboxes = self._locate("pods"), self._locate("configmaps")
        self._pods = Reflector(self._http, pods, PodObject, self._woken.set, labels=selector)
        self._mailboxes = Reflector(self._http, mailboxes, MailboxObject, self._woken.set, labels=selector)

    async def serve(self) -> None:
        """Create what pods share, and run until `finish`. Raises KubeError."""
        for body in build_shared(self._site, len(self._hosts)):
            await self._client.create(body)
        self._report(f"{len(self._hosts)} pods in namespace {self._site.namespace}, label {PROOF}={self._site.name}")
        for reflector in (self._pods, self._mailboxes):
            self._spawn(reflector.run(self._report))
        self._spawn(self._report_begun())
        self.run.start()
        while not self._is_over:
            await self._woken.wait()
            self._woken.clear()
            self._look_at_pods()
            self._look_at_mailboxes()
            await asyncio.sleep(LOOK_SECONDS)
        if self._failure:
            raise self._failure

    async def _report_begun(self) -> None:
        """Tell how many pods have begun, while some have not."""
        while not all(host.is_live or not host.is_open for host in self._hosts.values()):
            await asyncio.sleep(REPORT_SECONDS)
            begun = sum(host.is_live for host in self._hosts.values())
            self._report(f"{begun} of {len(self._hosts)} pods have begun")

    async def remove(self) -> None:
        """Delete all objects of this run, and those of runs that have ended without it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        name, namespace = self._site.name, self._site.namespace
        try:
            await remove_run(self._client, namespace, name)
        except KubeError as error:
            self._report(f"not everything was removed: {error}; run: {build_command(namespace, name)}")
        try:
            left_behind = await list_left_behind(self._client, namespace, datetime.now(UTC))
            await remove_runs(self._client, namespace, [other for other in left_behind if other != name])
        except KubeError as error:
            self._report(f"what earlier proofs left is not removed: {error}; the next proof tries it again")

    def connect(self, host: str) -> None:
        """Create a pod, or wait for its next worker."""
        state = self._hosts[host]
        state.is_open = True
        self._spawn(self._await_worker(state))

    async def _await_worker(self, host: _Host) -> None:
        """Close a host whose worker does not begin in time."""
        token = host.token
        try:
            if host.gone:
                await self._replace_pod(host, host.gone)
            elif not token:
                async with self._writes:
                    await self._client.create(build_mailbox(self._site, host.index))
                    await self._client.create(build_pod(self._site, host.index, host.node))
        except KubeError as error:
            self._close(host, f"its pod cannot be created: {error}")
            return
        await asyncio.sleep(BEGIN_SECONDS)
        if host.token == token:
            pod = self._find_pod(host)
            self._close(host, f"its pod did not begin within {BEGIN_SECONDS} s{explain_wait(pod) if pod else ''}")

    async def _replace_pod(self, host: _Host, gone: asyncio.Event) -> None:
        """Create a pod that was given up anew, once it is gone. Raises KubeError."""
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                await gone.wait()
        except TimeoutError as error:
            raise KubeError(f"the one that was given up has not ended after {BEGIN_SECONDS} s") from error
        host.was_seen, host.gone = False, None
        host.comparison = next(self._comparisons) if host.ends is not None else 0
        async with self._writes:
            await self._client.create(build_pod(self._site, host.index, host.node))

    def _locate(self, *names: str) -> str:
        return join_path("/api/v1/namespaces", self._site.namespace, *names)

    def send(self, host: str, document: Mapping[str, Any]) -> None:
        """Write a sheet, with the time that is left when it is written."""
        self._spawn(self._send(self._hosts[host], document, self.read_clock() + document["in"]))

    async def _send(self, host: _Host, document: Mapping[str, Any], begin: float) -> None:
        old = dict.fromkeys(host.read)
        mailbox = self._locate("configmaps", self._site.name_pod(host.index))
        host.read = {}
        try:
            async with self._writes:
                sheet = msgspec.json.encode({**document, "in": max(0.0, begin - self.read_clock())}).decode()
                signed = sign(host.key, name_sheet(host.token), sheet)
                await self._http.merge(mailbox, {"data": {**old, SHEET: signed}})
        except KubeError as error:
            self._close(host, f"its sheet cannot be written: {error}")

    def abort(self, host: str, reason: str) -> None:
        """Give a pod up."""
        self._give_up(self._hosts[host], reason)

    def _give_up(self, host: _Host, reason: str) -> None:
        """Delete a pod, so that `connect` creates another one."""
        host.gone = asyncio.Event()
        if self._find_pod(host) is None:
            host.gone.set()
        self._close(host, reason)
        self._spawn(self._delete_pod(self._site.name_pod(host.index)))

    def call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        """Call back after a time."""
        self._spawn(self._call_later(seconds, callback))

    async def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        await asyncio.sleep(seconds)
        callback()

    def read_clock(self) -> float:
        """Return the loop's time in seconds."""
        return asyncio.get_running_loop().time()

    def finish(self) -> None:
        """End all pods, by the removal of everything."""
        self._is_over = True
        self._woken.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the rest; where it raises, the proof ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._take_in_end)

    def _take_in_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._failure = error
            self.finish()

    def _close(self, host: _Host, reason: str) -> None:
        """Tell the end of a worker, once; `connect` may be called for the next one."""
        if host.is_open and not self._is_over:
            host.is_open = host.is_live = False
            self.run.handle_close(host.node, reason)

    async def _delete_pod(self, name: str) -> None:
        with suppress(KubeError):  # all are deleted at the end
            await self._http.delete(self._locate("pods", name))

    def _find_pod(self, host: _Host) -> PodObject | None:
        return self._pods.objects.get(f"{self._site.namespace}/{self._site.name_pod(host.index)}")

    def _look_at_pods(self) -> None:
        for host in self._hosts.values():
            pod = self._find_pod(host)
            if host.gone:
                if pod is None:
                    host.gone.set()
            elif pod is None and host.was_seen:
                self._end(host, "its pod was deleted")
            elif pod is not None:
                host.was_seen = True
                if pod.has_ended:
                    self._end(host, explain_end(pod))
                elif not host.is_live and is_stuck(pod):
                    self._close(host, f"its pod cannot start{explain_wait(pod)}")

    def _end(self, host: _Host, reason: str) -> None:
        """Take in the end of a pod; one whose worker had begun may be made anew."""
        if host.is_live:
            self._give_up(host, reason)
        else:
            self._close(host, reason)

    def _look_at_mailboxes(self) -> None:
        for host in self._hosts.values():
            mailbox = self._mailboxes.objects.get(f"{self._site.namespace}/{self._site.name_pod(host.index)}")
            data = (mailbox.data if mailbox else None) or {}
            began = data.get(BEGAN, "")
            token = verify(host.key, BEGAN, began) if began != host.began else None
            host.began = began
            if token and token != host.token:
                if host.is_live:
                    self._close(host, "its worker died, and kubelet has started another")
                host.token = token
                if host.is_open and not host.gone:
                    self._begin(host)
            if host.is_live or host.comparison:
                self._hand_over(host, data)

    def _begin(self, host: _Host) -> None:
        """Take in a worker that has begun; that of a pod which was made anew has to name its ends first."""
        if host.comparison:
            self._spawn(self._ask_for_ends(host, host.token))
        else:
            host.is_live = True
            self.run.handle_begin(host.node)

    async def _ask_for_ends(self, host: _Host, token: str) -> None:
        """Ask a worker for its ends, and close its host if it does not name them in time."""
        rounds = [{"round": 0, "at": 0.0, "seconds": FACTS_SECONDS, "steps": [(0, STEP)]}]
        await self._send(host, {"sheet": host.comparison, "in": 0.0, "rounds": rounds}, self.read_clock())
        await asyncio.sleep(self.start_seconds + FACTS_SECONDS + LATE_SECONDS)
        if host.comparison and host.token == token:
            self._close(host, "its new pod did not say which addresses it has")

    def _hand_over(self, host: _Host, data: Mapping[str, str]) -> None:
        for entry, value in data.items():
            if entry.startswith(ROUND_PREFIX) and host.read.get(entry) != value:
                host.read[entry] = value
                for message in _parse_lines(verify(host.key, entry, value) or ""):
                    self._take_in(host, message)

    def _take_in(self, host: _Host, message: Mapping[str, Any]) -> None:
        output = message.get("output")
        if isinstance(output, dict) and "links" in output:
            ends = find_ends(self._site.common, host.node, output)
            if host.comparison:
                if message.get("sheet") == host.comparison:
                    self._compare(host, ends)
                return
            host.ends = ends
        if host.is_live:
            self.run.handle_message(host.node, message)

    def _compare(self, host: _Host, ends: Mapping[int, PathEnd]) -> None:
        host.comparison = 0
        if ends != host.ends:
            self._close(host, "its pod ended, and the new one has other addresses or devices")
        elif host.is_open:
            self._begin(host)


def _parse_lines(text: str) -> list[Mapping[str, Any]]:
    """Return the messages of a round; a pod may write anything."""
    messages = []
    for line in text.splitlines():
        with suppress(msgspec.DecodeError, RecursionError):
            messages.append(msgspec.json.decode(line))
    return [message for message in messages if isinstance(message, dict)]
