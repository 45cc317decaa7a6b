"""A pod that ends while it is tested is made anew; it goes on if it has the addresses and devices of the one before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, cast

import msgspec
import pytest

from tests.prove.hosts import Hosts, build_plan
from trackbed.cluster.api.dynamic import DynamicClient
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.proof import run as run_module
from trackbed.cluster.proof.objects import ProofSite
from trackbed.cluster.proof.pods import MailboxObject, PodObject
from trackbed.cluster.proof.run import run_sheets
from trackbed.cluster.stacks import load_stack
from trackbed.fleet.mailbox import BEGAN, ROUND_PREFIX, SHEET, name_sheet, sign, verify
from trackbed.fleet.sheet_run import SheetCalls
from trackbed.prove.sheets import Sheet, SheetRound

PLAN = build_plan(2)
SITE = ProofSite(
    "proof-x", "jobs", "x", build_requirements(load_stack("network-operator-macvlan"), PLAN), 600, b"s", PLAN.common
)
NODES, POD = ("n1", "n2"), "proof-x-0"
TURNS = 50
"""Turns of the loop in which all that is under way comes to its next wait."""
EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}


def build_sheets(step: Mapping[str, Any]) -> list[Sheet]:
    """Return a sheet in which pods name their ends, and a second one."""
    return [Sheet(title, (SheetRound(1.0, {"n1": [(0, step)], "n2": [(2, step)]}, {}),)) for title in ("pods", "ping")]


class FakeReflector:
    """What is known of objects of one kind, as a test sets it."""

    def __init__(
        self, cluster: Cluster, path: str, _: type[object], notify: Callable[[], None], **_labels: str
    ) -> None:
        self.objects: dict[str, Any] = {}
        self.notify = notify
        cluster.reflectors[path.rpartition("/")[2]] = self

    async def run(self, _: object) -> None:
        """Wait until the proof ends."""
        await asyncio.Event().wait()


class Cluster:
    """An API server with the objects of a proof, whose pods answer when a test says so."""

    def __init__(self) -> None:
        self.reflectors: dict[str, FakeReflector] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.mailboxes: dict[str, dict[str, str]] = {}
        self.created: list[str] = []
        self.tokens = ["", ""]
        self.begun, self.failures = 0, dict[str, str]()
        self.events: list[str] = []
        self.sheets = iter(build_sheets({"links": True}))

    def advance(self, _: Mapping[int, Any], failures: Mapping[str, str]) -> Sheet | None:
        """Return the next sheet."""
        self.failures = dict(failures)
        return next(self.sheets, None)

    @property
    def client(self) -> Cluster:
        """The client of paths."""
        return self

    async def create(self, body: Mapping[str, Any]) -> None:
        """Create an object."""
        name = body["metadata"]["name"]
        if body["kind"] == "Pod":
            self.created.append(name)
            self.pods[name] = {"phase": "Running"}
        elif body["kind"] == "ConfigMap":
            self.mailboxes[name] = {}

    async def merge(self, path: str, change: Mapping[str, Any]) -> None:
        """Set entries of a mailbox, and remove those without a value."""
        name = path.rpartition("/")[2]
        mailbox = self.mailboxes[name] | change["data"]
        self.mailboxes[name] = {entry: value for entry, value in mailbox.items() if value}

    async def delete(self, path: str) -> None:
        """Delete a pod."""
        self.pods.pop(path.rpartition("/")[2], None)

    async def delete_all(self, _path: str, _selector: str) -> None:
        """Delete the objects of a run."""

    async def iter_objects(self, *_: str, selector: str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the objects of other runs: none."""
        for body in list[Mapping[str, Any]]():
            yield {**body, "selector": selector}

    async def look(self) -> None:
        """Let everything come to its next wait, with looks at what is there between."""
        for _ in range(TURNS):
            pods = {name: {"status": status} for name, status in self.pods.items()}
            self.show("pods", pods, PodObject)
            self.show("configmaps", {name: {"data": data} for name, data in self.mailboxes.items()}, MailboxObject)
            await asyncio.sleep(0)

    def show(
        self, plural: str, bodies: Mapping[str, Mapping[str, Any]], shape: type[PodObject | MailboxObject]
    ) -> None:
        """Let the reflector of a kind have these objects."""
        if reflector := self.reflectors.get(plural):
            metadata = {"uid": "u", "resourceVersion": "1"}
            objects = {name: {"metadata": {"name": name, **metadata}, **body} for name, body in bodies.items()}
            reflector.objects = {f"jobs/{name}": msgspec.convert(body, shape) for name, body in objects.items()}
            reflector.notify()

    async def begin(self, index: int) -> None:
        """Let the worker of a pod begin."""
        self.begun += 1
        self.tokens[index] = f"token-{self.begun}"
        self.write(index, {BEGAN: self.tokens[index]})
        await self.look()

    def write(self, index: int, data: Mapping[str, str]) -> None:
        """Set entries of a mailbox as its pod does."""
        signed = {entry: sign(SITE.derive_key(index), entry, text) for entry, text in data.items()}
        self.mailboxes[SITE.name_pod(index)] |= signed

    async def answer(self, index: int, output: object) -> None:
        """Let a pod answer every step of the sheet that it has."""
        data = self.mailboxes[SITE.name_pod(index)]
        sheet = json.loads(verify(SITE.derive_key(index), name_sheet(self.tokens[index]), data[SHEET]) or "")
        for part in sheet["rounds"]:
            place = {"sheet": sheet["sheet"], "round": part["round"]}
            lines = [
                *({**place, "id": number, "output": output} for number, _ in part["steps"]),
                {**place, "done": True},
            ]
            self.write(index, {f"{ROUND_PREFIX}{part['round']}": "\n".join(map(json.dumps, lines))})
        await self.look()


def list_links(node: str, *, renamed: bool = False, pod_address: str = "10.0.0.7") -> object:
    """Return what a pod names: its rails, and an address of the cluster's network."""
    links = [{"netdev": "eth0", "address": pod_address, "rdma": None}]
    rails = cast("dict[str, list[dict[str, str]]]", Hosts(PLAN).answer(node, {"links": True}))["links"]
    return {"links": links + [link | {"rdma": "mlx5_9"} if renamed else link for link in rails]}


def run(work: Callable[[Cluster], Any]) -> Cluster:
    """Let both pods begin and name their ends, do something in the second sheet, and wait for the end of the proof."""

    async def drive() -> Cluster:
        cluster = Cluster()
        calls = SheetCalls(cluster.advance, cluster.events.append, lambda *_: None)
        proof = asyncio.create_task(run_sheets(cast("DynamicClient", cluster), SITE, NODES, calls))
        await cluster.look()
        for index in range(2):
            await cluster.begin(index)
        for index, node in enumerate(NODES):
            await cluster.answer(index, list_links(node))
        cluster.created.clear()
        await work(cluster)
        async with asyncio.timeout(10):
            await proof
        return cluster

    return asyncio.run(drive())


@pytest.fixture(autouse=True)
def _set_objects_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "Reflector", FakeReflector)
    monkeypatch.setattr(run_module, "LOOK_SECONDS", 0)


async def end_pod(cluster: Cluster, status: Mapping[str, Any] | None) -> None:
    """End the first node's pod: it gets a status, or is deleted."""
    if status is None:
        del cluster.pods[POD]
    else:
        cluster.pods[POD] = dict(status)
    await cluster.look()


@pytest.mark.parametrize(
    ("status", "reason"),
    [(None, "its pod was deleted"), (EVICTED, "its pod ended: The node was low on resource: memory.")],
    ids=["deleted", "evicted"],
)
def test_a_pod_that_ended_is_made_anew_and_goes_on_with_the_same_ends(
    status: Mapping[str, Any] | None, reason: str
) -> None:
    async def work(cluster: Cluster) -> None:
        await end_pod(cluster, status)
        assert cluster.created == [POD]
        await cluster.begin(0)
        await cluster.answer(0, list_links("n1", pod_address="10.0.0.8"))
        await cluster.answer(1, {})
        await cluster.answer(0, {})

    cluster = run(work)
    assert f"n1 was lost: {reason}; its worker is started again" in cluster.events
    assert (cluster.created, cluster.failures) == (["proof-x-0"], {})


def test_a_new_pod_with_other_devices_is_lost_and_gets_no_tests() -> None:
    async def work(cluster: Cluster) -> None:
        await end_pod(cluster, None)
        await cluster.begin(0)
        await cluster.answer(0, list_links("n1", renamed=True))
        await cluster.answer(1, {})

    cluster = run(work)
    assert cluster.failures == {"n1": "its pod ended, and the new one has other addresses or devices"}


def test_a_pod_that_ends_again_and_again_is_given_up() -> None:
    async def work(cluster: Cluster) -> None:
        await end_pod(cluster, None)
        await cluster.begin(0)
        await cluster.answer(0, list_links("n1"))
        await end_pod(cluster, EVICTED)
        await cluster.answer(1, {})

    cluster = run(work)
    assert cluster.created == ["proof-x-0"]
    assert list(cluster.failures) == ["n1"]
