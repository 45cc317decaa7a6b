"""Controller and agent together, on a real API server and a host in a namespace: what does not fit is refused."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import connect

from tests.host.places import MACS, Host, host
from tests.kinds import installed
from tests.waiting import wait_for
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import Client
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES
from trackbed.cluster.controller.run import Controller
from trackbed.node.sync.host import NodeHost
from trackbed.node.sync.preparer import Preparer

pytestmark = pytest.mark.needs("root", "ip")

NAME = os.uname().nodename.partition(".")[0].lower()
"""A plan is for the host of its name."""
NAMESPACE = "trackbed-system"
OTHER_PORTS = ("enp1s0f0np0", "enp1s0f1np1")
NETWORK = "ip -d addr; ip rule; ip -6 rule; ip route show table all; ip -6 route show table all"


@pytest.fixture(scope="module")
def kubeconfig(api_server: Path) -> str:
    with connect(str(api_server)) as client:
        installed(client)
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return str(api_server)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as made:
        yield made


def enter(place: Host) -> tuple[str, ...]:
    """The command that enters the host's network, with its files."""
    return ("nsenter", f"--net={place.machine.netns}", "env", f"TRACKBED_ROOT={place.machine.root}")


def show_network(place: Host) -> str:
    command = [*enter(place), "sh", "-c", NETWORK]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


async def apply_fabric(live: Client, ports: tuple[str, ...]) -> None:
    spec = {
        "nodes": [{"hosts": NAME, "hostPorts": {NAME: list(ports)}}],
        "rails": 2,
        "addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/15"},
        "rollout": {"canary": 0, "maxUnavailable": 1},
    }
    kind = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "refusal"}}
    await live.apply(f"{FABRICS}/refusal", {**kind, "spec": spec}, "user")


async def stage(live: Client, reason: str) -> str:
    """The message of a node's stage, once it is there."""
    rolled: dict[str, Any] = {}

    async def is_at_stage() -> bool:
        nonlocal rolled
        rail_node = await live.find(f"{RAILNODES}/{NAME}", dict[str, Any])
        conditions = (rail_node or {}).get("status", {}).get("conditions", [])
        rolled = next((entry for entry in conditions if entry["type"] == "Rolled"), {})
        return rolled.get("reason") == reason

    await wait_for(is_at_stage, lambda: f"{NAME} is {reason}: {rolled}")
    return str(rolled.get("message", ""))


def scene(kubeconfig: str, place: Host, act: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        async with kube.connect(kubeconfig) as live:
            body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NAME}}
            await live.apply(f"{NODES}/{NAME}", body, "kubelet")
            ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]
            await live.apply(f"{NODES}/{NAME}/status", {**body, "status": {"conditions": ready}}, "kubelet")
            agent = Preparer(live, NAME, NodeHost(enter(place)), "this", lambda _: None)
            tasks = [
                asyncio.create_task(agent.run()),
                asyncio.create_task(Controller(live, NAMESPACE, lambda _: None).run()),
            ]
            try:
                await act(live)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(run())


def test_a_fabric_of_other_ports_is_refused_before_any_drain_and_the_network_stays_byte_for_byte(
    kubeconfig: str, place: Host
) -> None:
    async def act(live: Client) -> None:
        await apply_fabric(live, MACS)
        await stage(live, "Sound")
        before = show_network(place)
        assert "rail1" in before
        undisturbed = await live.get(f"{NODES}/{NAME}", dict[str, Any])
        assert not undisturbed["spec"].get("unschedulable")
        await apply_fabric(live, OTHER_PORTS)
        message = await stage(live, "Held")
        assert message.startswith("the plan does not fit it: this host has none of the 2 planned ports (here: ")
        assert show_network(place) == before
        # A drain begins by a cordon, and each write of the node would give it another resourceVersion.
        assert await live.get(f"{NODES}/{NAME}", dict[str, Any]) == undisturbed
        assert "mayChange" not in (await live.get(f"{RAILNODES}/{NAME}", dict[str, Any]))["spec"]
        await apply_fabric(live, MACS)
        await stage(live, "Sound")
        assert show_network(place) == before

    scene(kubeconfig, place, act)
