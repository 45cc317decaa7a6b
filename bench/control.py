"""A real API server with simulated nodes: how a controller rolls a change over a thousand, and what ten thousand cost.

`rolled`    1,000 nodes x 8 rails, 5 % unavailable at most, 1 % of them failing; two controllers, and the one that leads
            is killed every 30 s. Each node must be changed once, none forgotten.
`settled`   10,000 nodes as planned: how long a fresh controller takes until it has looked at all of them, its memory,
            and what the API server is asked in the last minute of two in which nothing changes.
"""

import asyncio
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from trackbed_lab.kubernetes import blocking, build, control_plane
from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.kubernetes.programs import CONTROL_PLANE

from bench.figures import Figure
from tests.kinds import installed
from trackbed.cluster.api.client import Client, connect
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller.objects import FABRICS, NODES, NodeObject
from trackbed.cluster.controller.run import LEASE
from trackbed.cluster.daemon.serving import run_until_first_ends

_NAMESPACE: Final = "trackbed-system"
_ROLLED, _SETTLED = 1_000, 10_000
_UNAVAILABLE, _FAILING = 50, 10
_KILL_S, _ROLL_S = 30.0, 1500.0
_SYNC_S, _SYNC_GOAL_S, _MB, _REQUESTS = 600.0, 60.0, 400.0, 20.0
_QUIET_S: Final = 60.0
_AT_ONCE: Final = 32
_NEXT: Final = 2
"""Generation of the Fabric after a change."""
_REQUESTS_TOTAL = re.compile(r"^apiserver_request_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


def control() -> Iterator[Figure]:
    """Figures of both."""
    programs = build.build_programs(CONTROL_PLANE, print)
    for measure in (_rolled, _settled):
        with (
            tempfile.TemporaryDirectory() as folder,
            control_plane.run_control_plane(Path(folder), programs, controllers=False) as kubeconfig,
        ):
            with blocking.connect(str(kubeconfig)) as client:
                installed(client)
                client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}})
            yield from asyncio.run(measure(kubeconfig))


@dataclass
class _Watch:
    """The most nodes that were seen tainted at once."""

    client: Client
    most: int = 0

    async def run(self) -> None:
        changed = asyncio.Event()
        nodes = Reflector(self.client, NODES, NodeObject, changed.set)

        async def look() -> None:
            while True:
                await changed.wait()
                changed.clear()
                self.most = max(self.most, sum(node.tainted for node in nodes.objects.values()))

        await run_until_first_ends(nodes.run(_quiet), look())


@dataclass
class _Controllers:
    """Controllers as processes of their own."""

    kubeconfig: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: int = 0
    begun: int = 0

    def start(self) -> str:
        name = f"c{self.begun}"
        self.begun += 1
        argv = [sys.executable, "-m", "trackbed", "controller", "--kubeconfig", str(self.kubeconfig), "--name", name]
        log = self.kubeconfig.with_name("controllers.log").open("ab")
        self.running[name] = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return name

    def kill(self, name: str) -> None:
        """As a power cut does it, and another one in its place."""
        process = self.running.pop(name, None)
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            self.kills += 1
            self.start()

    def end(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(30)

    def megabytes(self, name: str) -> float:
        """Resident memory now."""
        status = Path(f"/proc/{self.running[name].pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def _rolled(kubeconfig: Path) -> list[Figure]:
    agents = Agents(needs_reboot=lambda name: name.endswith("3"), fails=lambda name: name.endswith("77"))
    controllers, watch = _Controllers(kubeconfig), None
    async with _ground(kubeconfig, _ROLLED, agents) as client:
        watch = _Watch(client)
        watching = asyncio.create_task(watch.run())
        try:
            controllers.start()
            controllers.start()
            began = killed = time.monotonic()
            while not _done(await _status(client)) and time.monotonic() - began < _ROLL_S:
                await asyncio.sleep(1)
                if time.monotonic() - killed > _KILL_S:
                    controllers.kill(await _leader(client))
                    killed = time.monotonic()
            seconds, status = time.monotonic() - began, await _status(client)
        finally:
            watching.cancel()
            await asyncio.to_thread(controllers.end)
    changed = [host.changes for host in agents.hosts.values()]
    sound, failed = status.get("sound", 0), status.get("failed", 0)
    why = f"{controllers.kills} leaders killed; {sound} sound, {failed} failed"
    return [
        Figure(f"{_ROLLED} nodes rolled", seconds if _done(status) else None, _ROLL_S, "s", why=why),
        Figure("most nodes unavailable at once", watch.most, _UNAVAILABLE, "nodes"),
        Figure("nodes forgotten", _ROLLED - sound - failed, 0, "nodes"),
        Figure("nodes changed twice", sum(times > 1 for times in changed), 0, "nodes"),
        Figure("nodes failed", failed, _FAILING, "nodes", why="those that were made to fail"),
    ]


async def _settled(kubeconfig: Path) -> list[Figure]:
    agents, controllers = Agents(prepared=True), _Controllers(kubeconfig)
    async with _ground(kubeconfig, _SETTLED, agents) as client:
        try:
            began = time.monotonic()
            controllers.kill(controllers.start())
            await _until(client, _done)
            from_nothing = time.monotonic() - began
            await asyncio.to_thread(controllers.end)
            controllers.running.clear()
            await client.merge(f"{FABRICS}/train", {"spec": {"rollout": {"nodeMinutes": 61}}})
            began, name = time.monotonic(), controllers.start()
            await _until(client, lambda status: _done(status) and status.get("observedGeneration") == _NEXT)
            sync = time.monotonic() - began
            await asyncio.sleep(_QUIET_S)
            before = await _requests(client)
            await asyncio.sleep(_QUIET_S)
            asked = (await _requests(client) - before) / _QUIET_S
            memory = controllers.megabytes(name)
        finally:
            await asyncio.to_thread(controllers.end)
    return [
        Figure(f"{_SETTLED} RailNodes made, compared, told", from_nothing, _SYNC_S, "s"),
        Figure(
            f"first sync of a new leader, {_SETTLED} nodes", sync, _SYNC_GOAL_S, "s", why="a new generation included"
        ),
        Figure("its memory", memory, _MB, "MB"),
        Figure(
            "requests a second when nothing changes", asked, _REQUESTS, "", why="of everybody, the server itself too"
        ),
    ]


@asynccontextmanager
async def _ground(kubeconfig: Path, count: int, agents: Agents) -> AsyncIterator[Client]:
    """Nodes, agents that answer for them, and a Fabric."""
    async with connect(str(kubeconfig)) as client:
        gate = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(_node(client, gate, f"n{number}") for number in range(count)))
        answering = asyncio.create_task(agents.run(client, _quiet))
        spec = {
            "nodes": [{"hosts": f"n[0-{count - 1}]"}],
            "rails": 8,
            "addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/8"},
            "rollout": {"maxUnavailable": "5%", "maxFailures": "1%"},
        }
        kind = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "train"}}
        await client.create(FABRICS, {**kind, "spec": spec})
        try:
            yield client
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


async def _node(client: Client, gate: asyncio.Semaphore, name: str) -> None:
    one: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]
    async with gate:
        await client.create(NODES, one)
        await client.apply(f"{NODES}/{name}/status", {**one, "status": {"conditions": ready}}, "kubelet")


async def _status(client: Client) -> dict[str, Any]:
    with suppress(KubeError):
        found = await client.get(f"{FABRICS}/train", dict[str, Any])
        return dict(found.get("status", {}))
    return {}


async def _until(client: Client, holds: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(_SYNC_S):
        while not holds(await _status(client)):  # noqa: ASYNC110 - the server is asked; nothing here could set an event
            await asyncio.sleep(0.5)


def _done(status: dict[str, Any]) -> bool:
    """Whether every node has come to its end, sound or failed."""
    progress = [one for one in status.get("conditions", ()) if one["type"] == "Progressing"]
    return bool(progress) and progress[0]["reason"] in {"Complete", "Failed"}


async def _leader(client: Client) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{_NAMESPACE}/leases/{LEASE}"
    return str((await client.get(path, dict[str, Any]))["spec"]["holderIdentity"])


async def _requests(client: Client) -> float:
    """All requests that the API server has answered."""
    lines = [line async for line in client.iter_lines("/metrics", {})]
    return sum(map(float, _REQUESTS_TOTAL.findall(b"\n".join(lines).decode())))


def _quiet(_: str) -> None:
    """What becomes of single requests is nobody's business here."""
