"""A node's agent on a real API server: the host is scripted, since no test may reboot the machine that it runs on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import connect

from tests.kinds import installed
from tests.waiting import wait_for
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import UnreachableError
from trackbed.cluster.api.times import format_time
from trackbed.cluster.resources.conditions import find_condition
from trackbed.cluster.resources.railnode import API_VERSION, KIND, PATH, PREPARED, RailNodeSpec, RailNodeStatus
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import NodePlan
from trackbed.fleet.outcome import Outcome
from trackbed.fleet.task import Verb
from trackbed.node.sync import preparer
from trackbed.node.sync.host import NodeHost
from trackbed.node.sync.preparer import Preparer

pytestmark = pytest.mark.needs("processes")

FABRIC = Path(__file__).parents[3] / "examples" / "shared-subnet.yaml"
SECONDS = 30.0


@pytest.fixture(scope="module")
def kubeconfig(api_server: Path) -> str:
    with connect(str(api_server)) as client:
        installed(client)
    return str(api_server)


def node() -> NodePlan:
    return compute_plan(load_fabric(FABRIC.read_bytes(), "x").fabric, {}).nodes[0]


Answer = tuple[Verb | Literal["repair"], Outcome]
"""A request, and the answer to it."""


class Scripted(NodeHost):
    """A host that gives scripted answers and records the requests."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(())
        self.answers, self.requested = list(answers), asyncio.Condition()
        self.did: list[Verb | Literal["repair"]] = []
        self.removals: list[int | None] = []
        self.repaired: list[tuple[str, str]] = []

    async def run_request(self, verb: Verb, node: NodePlan, removals: int | None = None) -> Outcome:
        """The next answer, to the question that it is for."""
        self.removals.append(removals)
        return await self._answer(verb, node)

    async def repair_settings(self, node: NodePlan, settings: Sequence[tuple[str, str]]) -> Outcome:
        """The next answer, which must be to a repair."""
        self.repaired += settings
        return await self._answer("repair", node)

    async def _answer(self, verb: Verb | Literal["repair"], node: NodePlan) -> Outcome:
        wanted, answer = self.answers.pop(0) if self.answers else (verb, Outcome(node.name, "same", ""))
        assert wanted == verb, f"{wanted} was to come, {verb} came"
        self.did.append(verb)
        async with self.requested:
            self.requested.notify_all()
        return answer

    async def did_so_much(self, count: int) -> None:
        """Wait until there were `count` requests."""
        async with asyncio.timeout(SECONDS), self.requested:
            await self.requested.wait_for(lambda: len(self.did) >= count)


def differs(kind: str = "differs", **fields: Any) -> Outcome:
    change = {"step": "vfs", "what": "VFs of rail0", "have": "0", "want": "8", "drain": True, **fields}
    return Outcome("n", kind, f"told: {kind}", {"changes": [change]})


async def railnode(live: Client, name: str, **spec: Any) -> None:
    wanted = RailNodeSpec("train", 0, plan=msgspec.json.decode(encode_node(node())), **spec)
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": msgspec.to_builtins(wanted)}
    await live.apply(f"{PATH}/{name}", body, "trackbed-controller")


async def status_when(live: Client, name: str, holds: Callable[[RailNodeStatus], bool]) -> RailNodeStatus:
    """The status, once this holds."""

    class _Told(msgspec.Struct):
        status: RailNodeStatus = RailNodeStatus()

    async def read() -> RailNodeStatus | None:
        status = (await live.get(f"{PATH}/{name}", _Told)).status
        return status if holds(status) else None

    status = await wait_for(read, f"the status of {name} is as it should be")
    assert status is not None
    return status


async def said(live: Client, name: str, reason: str) -> RailNodeStatus:
    """The status, once condition Prepared has this reason."""
    return await status_when(live, name, lambda status: find_condition(status.conditions, PREPARED).reason == reason)


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


def test_a_plan_that_does_not_fit_is_applied_only_with_permission_and_the_number_compared(kubeconfig: str) -> None:
    answer = {**differs().answer, "misfit": "34 of 40 would be removed", "totals": {"remove": 34}}
    misfit = msgspec.structs.replace(differs(), answer=answer)
    host = Scripted(("diff", misfit), ("diff", misfit), ("apply", Outcome("n", "applied", "")))

    async def act(live: Client) -> None:
        await railnode(live, "misfit", plan_hash="p1", may_change=True)
        await said(live, "misfit", "DoesNotFit")
        await railnode(live, "misfit", plan_hash="p1", may_change=True, allow_removal=True)
        await said(live, "misfit", "AsPlanned")

    scene(kubeconfig, "misfit", host, act)
    assert (host.did, host.removals) == (["diff", "diff", "apply"], [None, None, 34])


SAME = Outcome("n", "same", "")
PFC = {"step": "qos", "what": "PFC of rail0", "have": "none", "want": "3", "repairable": True}


def drifted(**answer: Any) -> Outcome:
    """A host on which somebody has changed PFC."""
    return Outcome("n", "differs", "", {"changes": [PFC], **answer})


class _ListedEvent(msgspec.Struct):
    reason: str
    note: str
    regarding: dict[str, str]


class _Events(msgspec.Struct):
    items: list[_ListedEvent]


async def events(live: Client, name: str) -> list[tuple[str, str]]:
    """The reasons and notes of the events about a RailNode."""
    listing = await live.get("/apis/events.k8s.io/v1/namespaces/default/events", _Events)
    return sorted((event.reason, event.note) for event in listing.items if event.regarding.get("name") == name)


def test_drift_is_repaired_in_place_with_an_event(kubeconfig: str) -> None:
    host = Scripted(("diff", SAME), ("diff", drifted()), ("repair", Outcome("n", "applied", "")), ("diff", SAME))

    async def act(live: Client) -> None:
        await railnode(live, "drifts", plan_hash="p1", may_repair=True)
        assert (await said(live, "drifts", "AsPlanned")).reached_hash == "p1"
        await railnode(live, "drifts", plan_hash="p1", may_repair=True, changing_since="again")
        await host.did_so_much(4)
        status = await status_when(live, "drifts", lambda status: bool(status.repairs))
        assert [(repair.step, repair.subject, len(repair.times)) for repair in status.repairs] == [
            ("qos", "PFC of rail0", 1)
        ]
        assert await events(live, "drifts") == [("Repaired", "qos: PFC of rail0 was none, not 3")]

    scene(kubeconfig, "drifts", host, act)
    assert (host.did, host.repaired) == (["diff", "diff", "repair", "diff"], [("qos", "PFC of rail0")])


@pytest.mark.parametrize(
    ("name", "spec", "reason"),
    [
        ("new-plan", {"plan_hash": "p2", "may_repair": True}, "Differs"),
        ("not-permitted", {"plan_hash": "p1", "changing_since": "again"}, "Drifted"),
    ],
)
def test_neither_a_new_plan_nor_a_paused_node_is_repaired(
    kubeconfig: str, name: str, spec: dict[str, Any], reason: str
) -> None:
    host = Scripted(("diff", SAME), ("diff", drifted()))

    async def act(live: Client) -> None:
        await railnode(live, name, plan_hash="p1", may_repair=True)
        await said(live, name, "AsPlanned")
        await live.merge(f"{PATH}/{name}", {"spec": {"mayRepair": None}})
        await host.did_so_much(2)  # or the agent may see both changes as one, and compare once
        await railnode(live, name, **spec)
        await said(live, name, reason)

    host.answers.insert(1, ("diff", SAME))
    scene(kubeconfig, name, host, act)
    assert "repair" not in host.did


def test_a_restarted_agent_knows_what_was_repaired_and_ends_the_war(kubeconfig: str) -> None:
    repaired: tuple[Answer, ...] = (("diff", drifted()), ("repair", Outcome("n", "applied", "")), ("diff", SAME))
    writers = {"writers": {"PFC of rail0": ["lldpad runs (PID 812)"]}}

    async def repair(live: Client, *, count: int) -> None:
        status = await status_when(
            live, "contested", lambda status: any(len(repair.times) == count for repair in status.repairs)
        )
        assert find_condition(status.conditions, PREPARED).status == "True"

    async def prepare(live: Client) -> None:
        await railnode(live, "contested", plan_hash="p1", may_repair=True)
        await said(live, "contested", "AsPlanned")

    async def contest(live: Client) -> None:
        status = await said(live, "contested", "Contested")
        condition = find_condition(status.conditions, "Contested")
        assert (condition.status, "set by: lldpad runs (PID 812)" in condition.message) == ("True", True)
        assert [reason for reason, _ in await events(live, "contested")] == ["Contested", *["Repaired"] * 3]
        ended = format_time(datetime.now(UTC) + timedelta(seconds=1))
        await railnode(live, "contested", plan_hash="p1", may_repair=True, repairs_after=ended)
        await said(live, "contested", "AsPlanned")

    scene(kubeconfig, "contested", Scripted(("diff", SAME)), prepare)
    for count in (1, 2, 3):
        scene(kubeconfig, "contested", Scripted(*repaired), partial(repair, count=count))
    last = Scripted(("diff", drifted(**writers)), *repaired)
    scene(kubeconfig, "contested", last, contest)
    assert last.did == ["diff", "diff", "repair", "diff"]


def test_where_all_repairs_together_are_refused_each_is_made_alone(kubeconfig: str) -> None:
    ets = {**PFC, "what": "ETS of rail0"}
    refused = Outcome("n", "failed", "ETS of rail0: refused; everything was put back")
    host = Scripted(
        *(("diff", SAME), ("diff", drifted(changes=[PFC, ets])), ("repair", refused)),
        *(("repair", Outcome("n", "applied", "")), ("repair", refused), ("diff", drifted(changes=[ets]))),
    )

    async def act(live: Client) -> None:
        await railnode(live, "alone", plan_hash="p1", may_repair=True)
        await said(live, "alone", "AsPlanned")
        await railnode(live, "alone", plan_hash="p1", may_repair=True, changing_since="again")
        status = await said(live, "alone", "NotRepaired")
        message = find_condition(status.conditions, PREPARED).message
        assert message.startswith("ETS of rail0: refused; everything was put back: 1 differ: qos: ETS of rail0")

    scene(kubeconfig, "alone", host, act)
    assert host.repaired[2:] == [("qos", "PFC of rail0"), ("qos", "ETS of rail0")]


def test_a_plan_that_the_host_has_in_other_words_is_no_new_plan(kubeconfig: str) -> None:
    host = Scripted(("diff", drifted(has_plan=True)), ("repair", Outcome("n", "applied", "")), ("diff", SAME))

    async def act(live: Client) -> None:
        await railnode(live, "other-words", plan_hash="p2", may_repair=True)
        await said(live, "other-words", "AsPlanned")

    scene(kubeconfig, "other-words", host, act)
    assert host.did == ["diff", "repair", "diff"]


def test_what_a_driver_refuses_is_said_and_does_not_undo_the_rest(kubeconfig: str) -> None:
    refused = Outcome("n", "left", "", {"changes": [{**PFC, "advice": "PFC of rail0: setting 3 was refused"}]})
    host = Scripted(("diff", SAME), ("diff", drifted()), ("repair", refused), ("diff", drifted()))

    async def act(live: Client) -> None:
        await railnode(live, "refused", plan_hash="p1", may_repair=True)
        await said(live, "refused", "AsPlanned")
        await railnode(live, "refused", plan_hash="p1", may_repair=True, changing_since="again")
        message = find_condition((await said(live, "refused", "NotRepaired")).conditions, PREPARED).message
        assert message.startswith("PFC of rail0: setting 3 was refused: 1 differ: qos: PFC of rail0")

    scene(kubeconfig, "refused", host, act)


def test_a_node_that_may_not_change_is_compared_and_left_alone(kubeconfig: str) -> None:
    host = Scripted(("diff", differs(step="firmware")))

    async def act(live: Client) -> None:
        await railnode(live, "left-alone", plan_hash="p1")
        status = await said(live, "left-alone", "Differs")
        assert status.firmware
        assert (status.observed_hash, status.boot, status.needs_reboot) == ("p1", "this", False)
        assert status.differences[0].description == "VFs of rail0: 0 -> 8"

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
    monkeypatch.setattr(preparer, "RETRY_SECONDS", 0.0)
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
        assert "this is no node plan of Trackbed" in find_condition(status.conditions, PREPARED).message

    scene(kubeconfig, "garbled", host, act)
    assert host.did == []


def test_a_plan_with_a_command_in_a_name_is_told_and_touches_nothing(kubeconfig: str) -> None:
    host = Scripted()

    async def act(live: Client) -> None:
        plan = msgspec.json.decode(encode_node(node()))
        plan["fabric"]["rails"][0]["rdma"] = "y0\ntouch /x #"
        body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "hostile"}}
        spec = {"fabric": "train", "slot": 0, "mayChange": True, "planHash": "p1", "plan": plan}
        await live.apply(f"{PATH}/hostile", {**body, "spec": spec}, "x")
        status = await said(live, "hostile", "BadPlan")
        assert (
            "rdma is 'y0\\ntouch /x #', which no Fabric gives it" in find_condition(status.conditions, PREPARED).message
        )

    scene(kubeconfig, "hostile", host, act)
    assert host.did == []


def test_the_program_of_apply_runs_in_the_host(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("this-boot\n")
    host = NodeHost(("env", f"TRACKBED_ROOT={tmp_path}", f"PATH={os.environ['PATH']}"))
    assert asyncio.run(host.run_request("boot", node())).answer["boot"].strip() == "this-boot"
    assert asyncio.run(host.run_request("diff", node())).kind == "wrong-host"


def test_a_host_that_cannot_be_entered_is_told() -> None:
    result = asyncio.run(NodeHost(("/no/such/program",)).run_request("diff", node()))
    assert (result.kind, result.message) == ("failed", "/no/such/program cannot be started: No such file or directory")
