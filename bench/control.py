"""The controller with a real API server and simulated nodes: a roll-out over 1,000 nodes, and the cost of 10,000.

Roll-out    1,000 nodes x 8 rails, at most 5 % unavailable, 1 % failing; of two controllers, the leader is killed every
            30 s. Each node must be changed exactly once.
Drift       one value is flipped on 1,000 nodes: all are repaired in place, and none is drained.
Settled     10,000 nodes as planned: the time until a new controller has read all of them, its memory, and the requests
            to the API server in the last minute of two without changes.
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
from trackbed.cluster.daemon.tasks import run_until_first_ends

_NAMESPACE: Final = "trackbed-system"
_ROLLED, _SETTLED = 1_000, 10_000
_UNAVAILABLE, _FAILING = 50, 10
_KILL_S, _ROLL_S = 30.0, 1500.0
_SYNC_S, _SYNC_GOAL_S, _MB, _REQUESTS = 600.0, 60.0, 400.0, 20.0
_QUIET_S: Final = 60.0
_DRAINED_S: Final = 10.0
"""Time in which a controller would have begun to drain."""
_AT_ONCE: Final = 32
_NEXT: Final = 2
"""Generation of the Fabric after a change."""
_REQUESTS_TOTAL = re.compile(r"^apiserver_request_total\{[^}]*\} ([0-9.e+]+)$", re.MULTILINE)


def control() -> Iterator[Figure]:
    """Yield the figures of both measurements."""
    programs = build.build_programs(CONTROL_PLANE, print)
    for measure in (_measure_roll, _measure_drift, _measure_settled):
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
    """The largest number of nodes that were tainted at once."""

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
    """Controllers as separate processes."""

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
        """Kill a controller with SIGKILL, and start another."""
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
        """Return the resident memory in MiB."""
        status = Path(f"/proc/{self.running[name].pid}/status").read_text(encoding="ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024


async def _measure_roll(kubeconfig: Path) -> list[Figure]:
    agents = Agents(needs_reboot=lambda name: name.endswith("3"), fails=lambda name: name.endswith("77"))
    controllers, watch = _Controllers(kubeconfig), None
    async with _ground(kubeconfig, _ROLLED, agents) as client:
        watch = _Watch(client)
        watching = asyncio.create_task(watch.run())
        try:
            controllers.start()
            controllers.start()
            began = killed = time.monotonic()
            while not _is_done(await _status(client)) and time.monotonic() - began < _ROLL_S:
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
        Figure(f"{_ROLLED} nodes rolled", seconds if _is_done(status) else None, _ROLL_S, "s", why=why),
        Figure("most nodes unavailable at once", watch.most, _UNAVAILABLE, "nodes"),
        Figure("nodes forgotten", _ROLLED - sound - failed, 0, "nodes"),
        Figure("nodes changed twice", sum(times > 1 for times in changed), 0, "nodes"),
        Figure("nodes failed", failed, _FAILING, "nodes", why="those that were made to fail"),
    ]


async def _measure_drift(kubeconfig: Path) -> list[Figure]:
    agents, controllers = Agents(prepared=True), _Controllers(kubeconfig)
    async with _ground(kubeconfig, _ROLLED, agents) as client:
        watch = _Watch(client)
        watching = asyncio.create_task(watch.run())
        try:
            controllers.start()
            await _wait_until(client, _is_done)
            began = time.monotonic()
            agents.flip_values()
            await _wait_until(client, lambda _: all(host.repairs for host in agents.hosts.values()))
            seconds = time.monotonic() - began
            await asyncio.sleep(_DRAINED_S)
            await _wait_until(client, _is_done)
        finally:
            watching.cancel()
            await asyncio.to_thread(controllers.end)
    repairs = [host.repairs for host in agents.hosts.values()]
    return [
        Figure(f"one value flipped on {_ROLLED} nodes, repaired", seconds, _ROLL_S, "s"),
        Figure("nodes drained for it", watch.most, 0, "nodes", why="tainted at any moment"),
        Figure("nodes not repaired once", sum(times != 1 for times in repairs), 0, "nodes"),
    ]


async def _measure_settled(kubeconfig: Path) -> list[Figure]:
    agents, controllers = Agents(prepared=True), _Controllers(kubeconfig)
    async with _ground(kubeconfig, _SETTLED, agents) as client:
        try:
            began = time.monotonic()
            controllers.kill(controllers.start())
            await _wait_until(client, _is_done)
            from_nothing = time.monotonic() - began
            await asyncio.to_thread(controllers.end)
            controllers.running.clear()
            await client.merge(f"{FABRICS}/train", {"spec": {"rollout": {"nodeMinutes": 61}}})
            began, name = time.monotonic(), controllers.start()
            await _wait_until(client, lambda status: _is_done(status) and status.get("observedGeneration") == _NEXT)
            sync = time.monotonic() - began
            await asyncio.sleep(_QUIET_S)
            before = await _requests(client)
            await asyncio.sleep(_QUIET_S)
            request_rate = (await _requests(client) - before) / _QUIET_S
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
            "requests a second when nothing changes",
            request_rate,
            _REQUESTS,
            "",
            why="of everybody, the server itself too",
        ),
    ]


@asynccontextmanager
async def _ground(kubeconfig: Path, count: int, agents: Agents) -> AsyncIterator[Client]:
    """Create nodes, their simulated agents and a Fabric; yield a client."""
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
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]
    async with gate:
        await client.create(NODES, body)
        await client.apply(f"{NODES}/{name}/status", {**body, "status": {"conditions": ready}}, "kubelet")


async def _status(client: Client) -> dict[str, Any]:
    with suppress(KubeError):
        fabric = await client.get(f"{FABRICS}/train", dict[str, Any])
        return dict(fabric.get("status", {}))
    return {}


async def _wait_until(client: Client, holds: Callable[[dict[str, Any]], bool]) -> None:
    async with asyncio.timeout(_SYNC_S):
        while not holds(await _status(client)):  # noqa: ASYNC110 - the server is asked; nothing here could set an event
            await asyncio.sleep(0.5)


def _is_done(status: dict[str, Any]) -> bool:
    """Return whether every node is sound or has failed."""
    progress = [condition for condition in status.get("conditions", ()) if condition["type"] == "Progressing"]
    return bool(progress) and progress[0]["reason"] in {"Complete", "Failed"}


async def _leader(client: Client) -> str:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{_NAMESPACE}/leases/{LEASE}"
    return str((await client.get(path, dict[str, Any]))["spec"]["holderIdentity"])


async def _requests(client: Client) -> float:
    """Return the number of requests that the API server has answered."""
    lines = [line async for line in client.iter_lines("/metrics", {})]
    return sum(map(float, _REQUESTS_TOTAL.findall(b"\n".join(lines).decode())))


def _quiet(_: str) -> None:
    """Ignore the outcome of a single request."""
