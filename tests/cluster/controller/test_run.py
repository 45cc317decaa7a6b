"""A controller on a real API server, with nodes that do not exist and agents that answer for them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY
from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.kubernetes.blocking import connect

from tests.kinds import installed
from tests.waiting import wait_for
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import Client
from trackbed.cluster.controller import fabric_reconciler, slices
from trackbed.cluster.controller.objects import CORDONED, FABRICS, NODES, RAILNODES
from trackbed.cluster.controller.run import Controller
from trackbed.cluster.resources.railnode import RETRY, TAINT
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import load_lock
from trackbed.fabric.plan.lock import render_lock

NAMESPACE = "trackbed-system"
SECONDS = 60.0
_numbers = itertools.count()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kubeconfig(api_server: Path) -> str:
    with connect(str(api_server)) as client:
        installed(client)
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    return str(api_server)


@dataclass(slots=True)
class Ground:
    """A fabric of a test's own."""

    live: Client
    name: str
    agents: Agents
    messages: list[str] = field(default_factory=list)

    def nodes(self, count: int) -> list[str]:
        """Names for so many nodes."""
        return [f"{self.name}-{number}" for number in range(count)]

    async def node(self, name: str) -> None:
        """A node whose kubelet is ready."""
        kind = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        await self.live.create(NODES, kind)
        ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]
        await self.live.apply(f"{NODES}/{name}/status", {**kind, "status": {"conditions": ready}}, "kubelet")

    async def fabric(self, hosts: str, rollout: dict[str, Any] | None = None, **spec: Any) -> None:
        """Create or change the Fabric."""
        body = {
            "nodes": [{"hosts": hosts}],
            "rails": 2,
            "addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/8"},
            "rollout": {"maxUnavailable": 2, **(rollout or {})},
            **spec,
        }
        kind = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": self.name}}
        await self.live.apply(f"{FABRICS}/{self.name}", {**kind, "spec": body}, "user")

    async def mark(self, **marks: str | None) -> None:
        """Annotate the Fabric with trackbed.dev/NAME; None takes one away."""
        annotations = {f"trackbed.dev/{name}": value for name, value in marks.items()}
        await self.live.merge(f"{FABRICS}/{self.name}", {"metadata": {"annotations": annotations}})

    async def status(self) -> dict[str, Any]:
        """The Fabric's status, its conditions by type, and whether it is about the newest generation."""
        body = await self.live.get(f"{FABRICS}/{self.name}", dict[str, Any])
        status: dict[str, Any] = body.get("status", {})
        conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
        current = status.get("observedGeneration") == body["metadata"]["generation"]
        return {**status, "current": current, **conditions}

    async def until(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The Fabric's status, once something holds of it."""
        status: dict[str, Any] = {}

        async def is_met() -> bool:
            nonlocal status
            status = await self.status()
            return holds(status)

        await wait_for(is_met, lambda: f"{status}; {self.messages}")
        return status

    async def complete(self) -> dict[str, Any]:
        """The status once every node that is there is sound."""
        return await self.until(lambda s: s["current"] and s.get("Progressing", {}).get("reason") == "Complete")

    async def stage(self, name: str, wanted: str) -> str:
        """Why a node is at a stage, once it is there."""
        rolled: dict[str, Any] = {}

        async def is_at_stage() -> bool:
            nonlocal rolled
            railnode = await self.live.find(f"{RAILNODES}/{name}", dict[str, Any])
            conditions = (railnode or {}).get("status", {}).get("conditions", [])
            rolled = next((condition for condition in conditions if condition["type"] == "Rolled"), {})
            return rolled.get("reason") == wanted

        await wait_for(is_at_stage, lambda: f"{name} is {wanted}: {rolled}; {self.messages}")
        return str(rolled.get("message", ""))

    async def offers(self, name: str, **rails: str) -> None:
        """Have a node's kubelet say what it has to give; a heartbeat beside."""
        kind = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        names = {rail if rail == "cpu" else f"trackbed.dev/{rail}": count for rail, count in rails.items()}
        status = {"capacity": names, "allocatable": names}
        await self.live.apply(f"{NODES}/{name}/status", {**kind, "status": status}, "device-plugins")

    async def condition(self, name: str, kind: str) -> dict[str, Any]:
        """A condition of a node's RailNode; empty where it has none."""
        rail_node = await self.live.get(f"{RAILNODES}/{name}", dict[str, Any])
        return next((entry for entry in rail_node["status"].get("conditions", ()) if entry["type"] == kind), {})

    async def rails(self, name: str, wanted: str) -> str:
        """The status of a node's RailsOffered, once it says what is wanted."""
        rail_node: dict[str, Any] = {}

        async def is_told() -> bool:
            nonlocal rail_node
            rail_node = await self.condition(name, "RailsOffered")
            return rail_node.get("message") == wanted

        await wait_for(is_told, lambda: f"{name} is {wanted}: {rail_node}; {self.messages}")
        return str(rail_node["status"])

    async def permission(self, name: str, wanted: bool | None) -> None:
        """Wait until a node's permission to repair drift is as wanted, and its agent has read it."""

        async def is_as_wanted() -> bool:
            spec = (await self.live.get(f"{RAILNODES}/{name}", dict[str, Any]))["spec"]
            return spec.get("mayRepair") is wanted and self.agents.hosts[name].may_repair is bool(wanted)

        await wait_for(is_as_wanted, lambda: f"mayRepair of {name} is {wanted}; {self.messages}")

    async def version(self, name: str) -> str:
        """The version of a node's RailNode: another one after each write."""
        rail_node = await self.live.get(f"{RAILNODES}/{name}", dict[str, Any])
        return str(rail_node["metadata"]["resourceVersion"])

    async def gone(self, name: str) -> None:
        """Wait until a node has no RailNode any more."""

        async def has_gone() -> bool:
            return await self.live.find(f"{RAILNODES}/{name}", dict[str, Any]) is None

        await wait_for(has_gone, lambda: f"{name} has no RailNode; {self.messages}")

    async def events(self, name: str) -> list[str]:
        """Reasons of the events about a RailNode, in order."""
        path = "/apis/events.k8s.io/v1/namespaces/default/events"
        events = self.live.iter_objects(path, dict[str, Any], fieldSelector=f"regarding.name={name}")
        reasons = [event async for event in events]
        return [event["reason"] for event in sorted(reasons, key=lambda event: str(event["eventTime"]))]

    async def slots(self) -> dict[str, int]:
        """The lock that the cluster keeps."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/trackbed-lock-{self.name}"
        body = await self.live.get(path, dict[str, Any])
        return dict(load_lock(body["data"]["trackbed.lock.yaml"].encode(), "lock").nodes)

    async def taints(self, name: str) -> set[str]:
        """Keys of a node's taints."""
        body = await self.live.get(f"{NODES}/{name}", dict[str, Any])
        return {taint["key"] for taint in body["spec"].get("taints", ())}


@asynccontextmanager
async def _ground(kubeconfig: str, agents: Agents) -> AsyncIterator[Ground]:
    async with kube.connect(kubeconfig) as live:
        here = Ground(live, f"fabric{next(_numbers)}", agents)
        tasks = [
            asyncio.create_task(Controller(live, NAMESPACE, here.messages.append).run()),
            asyncio.create_task(agents.run(live, here.messages.append)),
        ]
        try:
            yield here
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await live.delete(f"{FABRICS}/{here.name}")
            for name in (await live.get(RAILNODES, dict[str, Any]))["items"]:
                await live.delete(f"{RAILNODES}/{name['metadata']['name']}")


def counted(name: str, fabric: str, **labels: str) -> float | None:
    """What a metric says of a fabric."""
    return REGISTRY.get_sample_value(f"trackbed_{name}", {"fabric": fabric, **labels})


def scene(kubeconfig: str, act: Callable[[Ground], Awaitable[None]], agents: Agents | None = None) -> None:
    async def run() -> None:
        async with _ground(kubeconfig, agents or Agents()) as here:
            await act(here)

    asyncio.run(run())


def test_a_fabric_is_carried_out_and_nobody_is_renumbered_by_the_next(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        for name in here.nodes(3):
            await here.node(name)
        await here.fabric(f"{here.name}-[0-2]")
        status = await here.complete()
        assert (status["nodes"], status["sound"], status["goodGeneration"]) == (3, 3, 1)
        assert TAINT not in await here.taints(here.nodes(1)[0])
        before = await here.slots()
        await here.node(f"{here.name}-a")
        await here.fabric(f"{here.name}-a,{here.name}-[0,2]")
        await here.complete()
        after = await here.slots()
        assert after == {**before, f"{here.name}-a": 3}
        assert [counted("nodes", here.name, stage=stage) for stage in ("Sound", "Left")] == [3, 1]
        assert "its addresses are kept for it until 168 h after" in await here.stage(f"{here.name}-1", "Left")

    scene(kubeconfig, act)


def test_the_lock_of_the_command_line_is_taken_over(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        first, second = here.nodes(2)
        for name in (first, second):
            await here.node(name)
        slots = {first: 7, second: 3}
        metadata = {"name": f"trackbed-lock-{here.name}"}
        config_map = {"metadata": metadata, "data": {"trackbed.lock.yaml": render_lock(here.name, slots)}}
        await here.live.create(f"/api/v1/namespaces/{NAMESPACE}/configmaps", config_map)
        await here.fabric(f"{first},{second}")
        await here.complete()
        assert await here.slots() == slots

    scene(kubeconfig, act)


def test_a_value_flipped_on_all_nodes_is_repaired_and_drains_nobody(kubeconfig: str) -> None:
    agents = Agents()

    async def act(here: Ground) -> None:
        names = here.nodes(20)
        for name in names:
            await here.node(name)
        await here.fabric(f"{here.name}-[0-19]", {"maxUnavailable": "100%", "canary": 0})
        await here.complete()
        before = [await here.events(name) for name in names]
        agents.flip_values()
        await here.until(lambda _: all(host.repairs == 1 for host in agents.hosts.values()))
        await here.complete()
        assert [await here.events(name) for name in names] == before
        assert {host.changes for host in agents.hosts.values()} == {1}

    scene(kubeconfig, act, agents)


def test_drift_of_a_paused_fabric_waits_and_drains_nobody(kubeconfig: str) -> None:
    agents = Agents()

    async def act(here: Ground) -> None:
        (name,) = here.nodes(1)
        await here.node(name)
        await here.fabric(name)
        await here.complete()
        await here.mark(paused="")
        await here.permission(name, None)
        agents.flip_values()
        assert (await here.stage(name, "Held")).startswith("drifted, and not repaired in place while it is paused")
        assert TAINT not in await here.taints(name)
        await here.mark(paused=None)
        await here.stage(name, "Sound")
        assert agents.hosts[name].repairs == 1

    scene(kubeconfig, act, agents)


def test_a_contest_holds_the_node_until_an_operator_ends_it(kubeconfig: str) -> None:
    agents = Agents(is_contested=lambda _: True)

    async def act(here: Ground) -> None:
        (name,) = here.nodes(1)
        await here.node(name)
        await here.fabric(name)
        await here.complete()
        agents.flip_values()
        assert (await here.stage(name, "Held")).startswith("another program sets it: 1 differ: qos: PFC of rail0")
        await here.live.merge(f"{RAILNODES}/{name}", {"metadata": {"annotations": {RETRY: ""}}})
        await here.stage(name, "Sound")
        assert (agents.hosts[name].repairs, TAINT in await here.taints(name)) == (1, False)
        assert RETRY not in (await here.live.get(f"{RAILNODES}/{name}", dict[str, Any]))["metadata"].get(
            "annotations", {}
        )

    scene(kubeconfig, act, agents)


def test_rails_that_a_node_offers_are_told_and_hold_nothing_up(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        first, second = here.nodes(2)
        for name in (first, second):
            await here.node(name)
        await here.fabric(f"{here.name}-[0-1]")
        assert (await here.complete())["offered"] == 0
        assert TAINT not in await here.taints(first)
        lacks = "0 of 2 rails: the node's allocatable has no trackbed.dev/rail0 and 1 more"
        assert await here.rails(first, lacks) == "False"
        await here.offers(first, rail0="8", rail1="8")
        assert await here.rails(first, "2 of 2 rails") == "True"
        assert (await here.until(lambda s: s["offered"] == 1))["sound"] == 2
        before = await here.version(first)
        await here.offers(first, cpu="8", rail0="7", rail1="8")
        await here.offers(second, rail0="8", rail1="0")
        await here.rails(second, "1 of 2 rails: the node's allocatable has no trackbed.dev/rail1")
        assert await here.version(first) == before
        await here.fabric(f"{here.name}-[0-1]", kubernetes={"stack": "dranet"})
        await here.until(lambda s: s["current"] and "offered" not in s)
        assert await here.condition(first, "RailsOffered") == {}

    scene(kubeconfig, act)


def test_a_node_that_joins_later_is_absent_until_then(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        first, second = here.nodes(2)
        await here.node(first)
        await here.fabric(f"{here.name}-[0-1]")
        status = await here.complete()
        assert (status["sound"], status["absent"]) == (1, 1)
        assert "prepared as soon as it joins" in await here.stage(second, "Absent")
        await here.node(second)
        await here.until(lambda s: s.get("sound") == 2)

    scene(kubeconfig, act)


def test_a_failed_canary_halts_and_a_retry_goes_on(kubeconfig: str) -> None:
    broken: set[str] = set()

    async def act(here: Ground) -> None:
        for name in here.nodes(3):
            await here.node(name)
        broken.add(here.nodes(1)[0])
        await here.fabric(f"{here.name}-[0-2]")
        status = await here.until(lambda s: s.get("Progressing", {}).get("reason") == "Halted")
        assert status["Progressing"]["message"].startswith(
            f"a canary failed: {here.name}-0: rail 3: no such device; mend it"
        )
        assert (status["failed"], status["waiting"]) == (1, 2)
        assert TAINT in await here.taints(here.nodes(1)[0])
        assert counted("fabric_halted", here.name) == 1
        broken.clear()
        retry = {"metadata": {"annotations": {"trackbed.dev/retry": ""}}}
        await here.live.merge(f"{RAILNODES}/{here.nodes(1)[0]}", retry)
        assert (await here.complete())["sound"] == 3
        assert counted("fabric_halted", here.name) == 0

    scene(kubeconfig, act, Agents(fails=broken.__contains__))


def test_a_rollback_carries_out_what_was_good_until_the_next_generation(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.complete()
        good = here.agents.hosts[only].applied
        await here.fabric(only, mtu=8000)
        await here.until(lambda s: s.get("goodGeneration") == 2)
        assert here.agents.hosts[only].applied != good
        await here.mark(rollback="2")
        await here.until(lambda _: here.agents.hosts[only].applied == good)
        await here.fabric(only, mtu=8500)
        await here.until(lambda s: s.get("goodGeneration") == 3)
        assert here.agents.hosts[only].applied != good

    scene(kubeconfig, act)


def test_a_generation_that_was_rolled_back_is_good_only_once_it_was_carried_out(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.complete()
        here.agents.fails = lambda _: True
        await here.fabric(only, mtu=8000)
        await here.stage(only, "Failed")
        await here.mark(rollback="2")
        assert (await here.complete())["goodGeneration"] == 1
        here.agents.fails = lambda _: False
        await here.mark(rollback=None)
        await here.until(lambda s: s.get("goodGeneration") == 2)
        second = here.agents.hosts[only].applied
        await here.fabric(only, mtu=8500)
        await here.until(lambda s: s.get("goodGeneration") == 3)
        await here.mark(rollback="3")
        await here.until(lambda _: here.agents.hosts[only].applied == second)

    scene(kubeconfig, act)


def test_a_rollback_of_a_fabric_that_was_created_again_carries_out_nothing_of_the_deleted_one(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.complete()
        await here.live.delete(f"{FABRICS}/{here.name}")
        await here.gone(only)
        await here.fabric(only, mtu=8000)
        await here.complete()
        good = here.agents.hosts[only].applied
        await here.fabric(only, mtu=8500)
        await here.until(lambda s: s.get("goodGeneration") == 2)
        before = here.agents.hosts[only].changes
        await here.mark(rollback="2")
        await here.until(lambda _: here.agents.hosts[only].changes > before)
        assert here.agents.hosts[only].applied == good

    scene(kubeconfig, act)


def test_a_cordon_whose_taint_somebody_took_away_ends_with_the_preparation(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.complete()
        cordon = {"metadata": {"annotations": {CORDONED: ""}}, "spec": {"unschedulable": True}}
        await here.live.merge(f"{NODES}/{only}", cordon)

        async def is_released() -> bool:
            node = await here.live.get(f"{NODES}/{only}", dict[str, Any])
            return "unschedulable" not in node["spec"] and CORDONED not in node["metadata"].get("annotations", {})

        await wait_for(is_released, lambda: f"the node takes pods again; {here.messages}")

    scene(kubeconfig, act)


def test_a_fabric_that_nobody_foresaw_stops_no_other(kubeconfig: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def build_slices(model: Fabric, lock: Mapping[str, int]) -> slices.Slices:
        if model.spec.mtu == 4321:
            raise TypeError("'int' object is not subscriptable")
        return slices.build_slices(model, lock)

    monkeypatch.setattr(fabric_reconciler, "build_slices", build_slices)

    async def act(here: Ground) -> None:
        other = Ground(here.live, f"a-{here.name}", here.agents)
        await other.fabric(other.nodes(1)[0], mtu=4321)
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.complete()
        status = await other.until(lambda s: s.get("Accepted", {}).get("status") == "False")
        assert "'int' object is not subscriptable" in status["Accepted"]["message"]
        assert counted("fabric_accepted", other.name) == 0
        assert (counted("fabric_defects_total", other.name) or 0) > 0
        events = await here.live.get("/apis/events.k8s.io/v1/namespaces/default/events", dict[str, Any])
        assert ("Refused", other.name) in {(event["reason"], event["regarding"]["name"]) for event in events["items"]}
        await here.live.delete(f"{FABRICS}/{other.name}")

    scene(kubeconfig, act)


def test_a_fabric_that_cannot_be_planned_says_why_and_changes_nothing(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.complete()
        good = here.agents.hosts[only].applied
        await here.fabric(only, addressing={"scheme": "shared-subnet", "ipv4": "10.0.0.0/30"})
        status = await here.until(lambda s: s.get("Accepted", {}).get("status") == "False")
        assert "has room for 0 nodes, 1 are wanted; take a larger range" in status["Accepted"]["message"]
        assert here.agents.hosts[only].applied == good
        assert counted("fabric_accepted", here.name) == 0

    scene(kubeconfig, act)


def test_reboots_happen_once_and_only_where_allowed(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only, {"reboots": 0})
        assert "it asks for another reboot after 0 (rollout.reboots)" in await here.stage(only, "Failed")
        await here.fabric(only, {"reboots": 1})
        await here.complete()
        assert here.agents.hosts[only].boot == 2
        assert (counted("node_failures_total", here.name), counted("reboots_total", here.name)) == (1, 1)
        assert await here.events(only) == ["Preparing", "Failed", "Rebooting", "Sound"]

    scene(kubeconfig, act, Agents(needs_reboot=lambda _: True))


def test_nodes_whose_firmware_differs_change_last_and_only_when_they_may(kubeconfig: str) -> None:
    tried: list[str] = []
    flash: set[str] = set()

    def fails(name: str) -> bool:
        if name not in tried:
            tried.append(name)
        return False

    async def act(here: Ground) -> None:
        first, second, third = here.nodes(3)
        for name in (first, second, third):
            await here.node(name)
        flash.update((first, second))
        wave = {"maxUnavailable": 1, "canary": 0}
        await here.fabric(f"{here.name}-[0-2]", {"firmware": {**wave, "paused": True}})
        status = await here.until(lambda s: s.get("Progressing", {}).get("reason") == "Paused")
        assert status["Progressing"]["message"] == "firmware wave paused: 2 nodes to go (rollout.firmware.paused)"
        await here.until(lambda s: s.get("sound") == 1)
        assert tried == [third]
        await here.fabric(f"{here.name}-[0-2]", {"firmware": wave})
        await here.complete()
        assert tried == [third, first, second]
        assert [await _spec(here, name, "firmware") for name in (first, second, third)] == [True, True, None]

    scene(kubeconfig, act, Agents(fails=fails, changes_firmware=flash.__contains__))


async def _spec(here: Ground, name: str, key: str) -> Any:
    """A field of a RailNode's spec."""
    rail_node = await here.live.get(f"{RAILNODES}/{name}", dict[str, Any])
    return rail_node["spec"].get(key)


def test_a_node_that_left_gives_its_slot_free_after_a_while(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        for name in here.nodes(2):
            await here.node(name)
        await here.fabric(f"{here.name}-[0-1]", {"keepSlotsHours": 0})
        await here.complete()
        await here.fabric(f"{here.name}-1", {"keepSlotsHours": 0})
        await here.gone(here.nodes(1)[0])
        assert await here.slots() == {f"{here.name}-1": 1}
        await here.fabric(f"{here.name}-1,{here.name}-new", {"keepSlotsHours": 0})
        await here.until(lambda s: s.get("absent") == 1)
        assert await here.slots() == {f"{here.name}-1": 1, f"{here.name}-new": 0}

    scene(kubeconfig, act)


def test_a_deleted_fabric_lets_go_of_its_nodes_and_keeps_their_addresses(kubeconfig: str) -> None:
    async def act(here: Ground) -> None:
        (only,) = here.nodes(1)
        await here.node(only)
        await here.fabric(only)
        await here.stage(only, "Failed")
        assert TAINT in await here.taints(only)
        await here.live.delete(f"{FABRICS}/{here.name}")
        await here.gone(only)
        assert counted("fabric_accepted", here.name) is None
        assert TAINT not in await here.taints(only)
        assert await here.slots() == {only: 0}
        await here.fabric(only)

    scene(kubeconfig, act, Agents(fails=lambda _: True))
