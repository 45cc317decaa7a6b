"""Roll-outs during a soak: a Fabric on the API server that changes again and again, and simulated hosts that follow.

The next change comes only after a roll-out is complete, so at the end each host was changed once for each generation.
"""

import asyncio
import random
import re
import threading
import time
from contextlib import suppress
from typing import Any

from trackbed.cluster.api.client import Client, connect
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES
from trackbed.cluster.daemon.tasks import run_until_first_ends
from trackbed.cluster.resources.railnode import RETRY, TAINT
from trackbed_lab.kubernetes.agents import Agents

NODE_COUNT = 12
FABRIC = "train"
_MTUS = (9000, 4200)
_PAUSE_SECONDS = (2.0, 8.0)
_END_SECONDS = 240.0
_CREATION_SECONDS = 60.0
_TIME_LIMIT = re.compile(r"[0-9]+ minutes")
_NODE_NAMES = tuple(f"n{number}" for number in range(NODE_COUNT))


class Rollouts:
    """Changes the Fabric in a thread of its own until `stop` is called."""

    def __init__(self, kubeconfig: str, chance: random.Random) -> None:
        self._kubeconfig, self._chance = kubeconfig, chance
        self._agents = Agents(needs_reboot=lambda name: name.endswith("3"))
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="rollouts", daemon=True)
        self.generation = 0
        """The latest generation of the Fabric that every host has reached."""
        self.progress = "not started"
        """The Fabric's condition Progressing: reason and message."""
        self.retries = 0
        """Nodes that were retried after they had failed by a time limit."""
        self.failure = ""
        """Why the thread has ended before its time."""

    def start(self) -> None:
        """Create nodes and Fabric, and begin. Raises KubeError."""
        deadline = time.monotonic() + _CREATION_SECONDS
        while True:
            try:
                asyncio.run(self._apply_objects())
                break
            except KubeError:  # a busy machine: the webhook did not answer in time
                if time.monotonic() > deadline:
                    raise
        self._thread.start()

    def stop(self) -> list[str]:
        """Wait until the present roll-out is complete; return what is wrong with the hosts and the nodes."""
        self._stopping.set()
        if not self._ended.wait(_END_SECONDS):
            return [f"the last roll-out is not complete after {_END_SECONDS:.0f} s: {self.progress}"]
        if self.failure:
            return [f"the roll-outs ended: {self.failure}"]
        return [*self._compare_changes(), *asyncio.run(self._find_drains())]

    def _compare_changes(self) -> list[str]:
        return [
            f"host {name} was changed {host.changes} times in {self.generation} generations of the Fabric"
            for name, host in sorted(self._agents.hosts.items())
            if host.changes != self.generation
        ]

    async def _find_drains(self) -> list[str]:
        findings = []
        async with connect(self._kubeconfig) as client:
            for name in _NODE_NAMES:
                spec = (await client.get(f"{NODES}/{name}", dict[str, Any])).get("spec", {})
                if spec.get("unschedulable") or any(taint["key"] == TAINT for taint in spec.get("taints", ())):
                    findings.append(f"node {name} is still tainted or cordoned")
        return findings

    async def _apply_objects(self) -> None:
        async with connect(self._kubeconfig) as client:
            for name in _NODE_NAMES:
                body: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
                ready = [{"type": "Ready", "status": "True", "reason": "Soak", "message": "simulated"}]
                await client.apply(f"{NODES}/{name}", body, "soak")
                await client.apply(f"{NODES}/{name}/status", {**body, "status": {"conditions": ready}}, "kubelet")
            spec = {
                "nodes": [{"hosts": f"n[0-{NODE_COUNT - 1}]"}],
                "rails": 8,
                "mtu": _MTUS[0],
                "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/10"},
                "rollout": {"maxUnavailable": "50%"},
                "kubernetes": {"stack": "native"},
            }
            kind = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": FABRIC}}
            await client.apply(f"{FABRICS}/{FABRIC}", {**kind, "spec": spec}, "soak")

    async def _run(self) -> None:
        try:
            async with connect(self._kubeconfig) as client:
                await run_until_first_ends(self._agents.run(client, lambda _: None), self._change_until_stop(client))
        except Exception as error:  # noqa: BLE001 - told at the end; a thread has nobody else to tell
            self.failure = f"{type(error).__name__}: {error}"
        self._ended.set()

    async def _change_until_stop(self, client: Client) -> None:
        while True:
            with suppress(KubeError):
                if await self._is_complete(client):
                    if self._stopping.is_set():
                        return
                    await asyncio.sleep(self._chance.uniform(*_PAUSE_SECONDS))
                    await self._change_fabric(client)
            await asyncio.sleep(0.5)

    async def _is_complete(self, client: Client) -> bool:
        """Return whether every host is as planned by the present generation."""
        fabric = await client.get(f"{FABRICS}/{FABRIC}", dict[str, Any])
        status, generation = fabric.get("status", {}), fabric["metadata"]["generation"]
        condition: dict[str, Any] = next(
            (item for item in status.get("conditions", ()) if item["type"] == "Progressing"), {}
        )
        self.progress = f"{condition.get('reason')}: {condition.get('message')}"
        if condition.get("reason") == "Halted":
            await self._retry_late_nodes(client)
        complete = bool(status.get("observedGeneration") == generation and condition.get("reason") == "Complete")
        if complete:
            self.generation = generation
        return complete

    async def _retry_late_nodes(self, client: Client) -> None:
        """Retry nodes that failed by a time limit, as an operator does who has set a clock right.

        A controller whose clock was two hours behind has written when their stage began.
        """
        async for railnode in client.iter_objects(RAILNODES, dict[str, Any]):
            conditions = railnode.get("status", {}).get("conditions", ())
            if any(item["type"] == "Rolled" and _TIME_LIMIT.search(item.get("message", "")) for item in conditions):
                name = railnode["metadata"]["name"]
                await client.merge(f"{RAILNODES}/{name}", {"metadata": {"annotations": {RETRY: ""}}})
                self.retries += 1

    async def _change_fabric(self, client: Client) -> None:
        fabric = await client.get(f"{FABRICS}/{FABRIC}", dict[str, Any])
        mtu = _MTUS[fabric["spec"]["mtu"] == _MTUS[0]]
        await client.merge(f"{FABRICS}/{FABRIC}", {"spec": {"mtu": mtu}})
