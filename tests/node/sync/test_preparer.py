"""A node's agent on a real API server: the host is scripted, since no test may reboot the machine that it runs on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import connect

from tests.kinds import installed
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import UnreachableError
from trackbed.cluster.resources.conditions import find
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, PREPARED, RailNodeSpec, RailNodeStatus
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fabric.plan.wire import write_node
from trackbed.fleet.outcome import Outcome
from trackbed.fleet.task import Verb
from trackbed.node.sync import preparer
from trackbed.node.sync.host import NodeHost
from trackbed.node.sync.preparer import Preparer

FABRIC = Path(__file__).parents[3] / "examples" / "shared-subnet.yaml"
SECONDS = 30.0


@pytest.fixture(scope="module")
def kubeconfig(api_server: Path) -> str:
    with connect(str(api_server)) as client:
        installed(client)
    return str(api_server)


def node() -> NodePlan:
    return compute_plan(load_fabric(FABRIC.read_bytes(), "x").fabric, {}).nodes[0]


class Scripted(NodeHost):
    """A host that answers as it is told, and remembers what it was asked."""

    def __init__(self, *answers: tuple[Verb, Outcome]) -> None:
        super().__init__(())
        self.answers, self.asked = list(answers), asyncio.Condition()
        self.did: list[Verb] = []

    async def request(self, verb: Verb, node: NodePlan) -> Outcome:
        """The next answer, to the question that it is for."""
        wanted, answer = self.answers.pop(0) if self.answers else (verb, Outcome(node.name, "same", ""))
        assert wanted == verb, f"{wanted} was to come, {verb} came"
        self.did.append(verb)
        async with self.asked:
            self.asked.notify_all()
        return answer

    async def did_so_much(self, count: int) -> None:
        """Wait until it was asked so often."""
        async with asyncio.timeout(SECONDS), self.asked:
            await self.asked.wait_for(lambda: len(self.did) >= count)


def differs(kind: str = "differs", **fields: Any) -> Outcome:
    change = {"step": "vfs", "what": "VFs of rail0", "have": "0", "want": "8", **fields}
    return Outcome("n", kind, f"told: {kind}", {"changes": [change]})


async def railnode(live: Client, name: str, **spec: Any) -> None:
    wanted = RailNodeSpec("train", 0, plan=msgspec.json.decode(write_node(node())), **spec)
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": msgspec.to_builtins(wanted)}
    await live.apply(f"{PATH}/{name}", body, "trackbed-controller")


async def said(live: Client, name: str, reason: str) -> RailNodeStatus:
    """The status, once condition Prepared has this reason."""

    class _Told(msgspec.Struct):
        status: RailNodeStatus = RailNodeStatus()

    async with asyncio.timeout(SECONDS):
        while True:
            rail_node = await live.get(f"{PATH}/{name}", _Told)
            if find(rail_node.status.conditions, PREPARED).reason == reason:
                return rail_node.status
            await asyncio.sleep(0)


def scene(kubeconfig: str, name: str, host: Scripted, act: Callable[[Client], Awaitable[None]]) -> None:
    """Run a node's agent beside what the test does as its controller."""

    async def both() -> None:
        async with kube.connect(kubeconfig) as live:
            agent = asyncio.create_task(Preparer(live, name, host, "this", lambda _: None).run())
            try:
                await act(live)
            finally:
                agent.cancel()
                await asyncio.gather(agent, return_exceptions=True)

    asyncio.run(both())


def test_a_node_that_may_not_change_is_compared_and_left_alone(kubeconfig: str) -> None:
    host = Scripted(("diff", differs(step="firmware")))

    async def act(live: Client) -> None:
        await railnode(live, "left-alone", plan_hash="p1")
        status = await said(live, "left-alone", "Differs")
        assert status.firmware
        assert (status.observed_hash, status.boot, status.needs_reboot) == ("p1", "this", False)
        assert status.differences[0].what == "VFs of rail0: 0 -> 8"

    scene(kubeconfig, "left-alone", host, act)
    assert host.did == ["diff"]


def test_a_drained_node_is_changed_and_reboots_only_when_told_of_this_boot(kubeconfig: str) -> None:
    waits = differs("applied", reboot=True)
    host = Scripted(
        *(("diff", differs()), ("diff", differs()), ("apply", waits)),
        *(("diff", differs()), ("apply", waits)),
        *(("diff", differs()), ("apply", waits), ("reboot", Outcome("n", "same", ""))),
    )

    async def act(live: Client) -> None:
        await railnode(live, "drained", plan_hash="p1")
        await said(live, "drained", "Differs")
        await railnode(live, "drained", plan_hash="p1", may_change=True, changing_since="t")
        assert (await said(live, "drained", "NeedsReboot")).needs_reboot
        await railnode(live, "drained", plan_hash="p1", may_change=True, changing_since="t", may_reboot="another")
        await host.did_so_much(5)
        await railnode(live, "drained", plan_hash="p1", may_change=True, changing_since="t", may_reboot="this")
        await said(live, "drained", "Rebooting")
        await host.did_so_much(8)

    scene(kubeconfig, "drained", host, act)
    assert host.did.count("reboot") == 1


def test_what_came_of_an_apply_is_told_although_the_server_was_away(
    kubeconfig: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparer, "AGAIN_SECONDS", 0.0)
    blinks = iter([True, False])
    real = Client.apply

    async def apply(live: Client, path: str, body: Any, manager: str, *, force: bool = True) -> Any:
        done = manager == preparer.MANAGER and body["status"]["conditions"][0]["status"] == "True"
        if done and next(blinks, False):
            await said(live, "blinks", "Applying")  # our own word has come back
            raise UnreachableError("links go down for a moment")
        return await real(live, path, body, manager, force=force)

    monkeypatch.setattr(Client, "apply", apply)
    host = Scripted(("diff", differs()), ("apply", Outcome("n", "applied", "")))

    async def act(live: Client) -> None:
        await railnode(live, "blinks", plan_hash="p1", may_change=True, changing_since="2026-01-01T00:00:00Z")
        await said(live, "blinks", "AsPlanned")

    scene(kubeconfig, "blinks", host, act)


def test_a_plan_that_cannot_be_read_is_told_and_touches_nothing(kubeconfig: str) -> None:
    host = Scripted()

    async def act(live: Client) -> None:
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "garbled"}}
        await live.apply(f"{PATH}/garbled", {**body, "spec": {"fabric": "train", "slot": 1, "plan": {"no": 1}}}, "x")
        status = await said(live, "garbled", "BadPlan")
        assert "this is no node plan of Trackbed" in find(status.conditions, PREPARED).message

    scene(kubeconfig, "garbled", host, act)
    assert host.did == []


def test_the_program_of_apply_runs_in_the_host(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("this-boot\n")
    host = NodeHost(("env", f"TRACKBED_ROOT={tmp_path}", f"PATH={os.environ['PATH']}"))
    assert asyncio.run(host.request("boot", node())).answer["boot"].strip() == "this-boot"
    assert asyncio.run(host.request("diff", node())).kind == "wrong-host"


def test_a_host_that_cannot_be_entered_is_told() -> None:
    result = asyncio.run(NodeHost(("/no/such/program",)).request("diff", node()))
    assert (result.kind, result.told) == ("failed", "/no/such/program cannot be started: No such file or directory")
