"""A screen of 128 nodes with 8 rails from simulated pods, on a real API server: 1,024 ports in three minutes."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.proof.kubelets import find_node
from tests.prove.hosts import Hosts, build_plan
from trackbed.cluster.api.dynamic import DynamicClient, connect
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.proof.objects import PROOF, ProofSite
from trackbed.cluster.proof.pods import MailboxObject
from trackbed.cluster.proof.run import run_sheets
from trackbed.cluster.stacks import load_stack
from trackbed.fleet.mailbox import BEGAN, ROUND_PREFIX, SHEET, name_sheet, sign, verify
from trackbed.fleet.sheet_run import SheetCalls
from trackbed.prove.proof import Proof, prove
from trackbed.prove.report import build_report
from trackbed.prove.rungs import LADDER
from trackbed.prove.sheets import Answers, Sheet

SPACE, NODES = "crowd", 128
START_SECONDS = (3.0, 25.0)
"""From a pod's creation to its first step: an assumption, not a measurement."""


class Pods:
    """Pods that answer as a sound fabric does."""

    def __init__(self, client: DynamicClient, hosts: Hosts, site: ProofSite) -> None:
        self.client, self.hosts = client, hosts
        self.keys = {site.name_pod(index): site.derive_key(index) for index in range(NODES)}
        self.tasks: set[asyncio.Task[None]] = set()
        self.sheets: dict[str, str] = {}
        self.nodes: dict[str, str] = {}
        self.path = f"/api/v1/namespaces/{SPACE}/configmaps"
        self.reflector = Reflector(client.client, self.path, MailboxObject, self.look, labels=PROOF)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the rest."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def look(self) -> None:
        """Begin in each new mailbox, and answer each new sheet."""
        for mailbox in self.reflector.objects.values():
            name, data = mailbox.metadata.name, mailbox.data or {}
            if name.count("-") > 1 and name not in self.sheets:
                self.sheets[name] = ""
                self.spawn(self.begin(name))
            elif data.get(SHEET, "") != self.sheets.get(name, ""):
                self.sheets[name] = data[SHEET]
                sheet = verify(self.keys[name], name_sheet("first"), data[SHEET])
                self.spawn(self.answer(name, json.loads(sheet or "")))

    async def begin(self, name: str) -> None:
        """Say that a pod has begun, after the time that it takes to start."""
        await asyncio.sleep(random.Random(name).uniform(*START_SECONDS))  # noqa: S311 - no secret
        pods = [pod async for pod in self.client.iter_objects("v1", "Pod", SPACE, selector=PROOF)]
        self.nodes |= {pod["metadata"]["name"]: find_node(pod) for pod in pods}
        await self.write(name, BEGAN, "first")

    async def write(self, name: str, entry: str, text: str) -> None:
        """Write a signed entry."""
        await self.client.client.merge(f"{self.path}/{name}", {"data": {entry: sign(self.keys[name], entry, text)}})

    async def answer(self, name: str, sheet: Mapping[str, Any]) -> None:
        """Write what a pod answers to each round of a sheet, at the end of the round."""
        start = time.monotonic() + sheet["in"]
        for part in sheet["rounds"]:
            await asyncio.sleep(start + part["at"] + part["seconds"] - time.monotonic())
            place = {"sheet": sheet["sheet"], "round": part["round"]}
            lines = [
                {**place, "id": step_id, "output": self.hosts.answer(self.nodes[name], step)}
                for step_id, step in part["steps"]
            ]
            text = "".join(f"{json.dumps(line)}\n" for line in [*lines, {**place, "done": True}])
            await self.write(name, f"{ROUND_PREFIX}{part['round']}", text)


async def screen(kubeconfig: str, hosts: Hosts, events: list[str]) -> Proof:
    run = prove(hosts.plan, "screen", LADDER, in_pods=True)
    proofs: list[Proof] = []

    def advance(outputs: Mapping[int, Any], failures: Mapping[str, str]) -> Sheet | None:
        try:
            return next(run) if not hosts.sheets else run.send(Answers(outputs, failures))
        except StopIteration as end:
            proofs.append(end.value)
            return None

    def remember(advance: Callable[..., Sheet | None]) -> Callable[..., Sheet | None]:
        def advance_and_keep(*answers: Any) -> Sheet | None:
            sheet = advance(*answers)
            hosts.sheets += [sheet] if sheet else []
            return sheet

        return advance_and_keep

    requirements = build_requirements(load_stack("network-operator-macvlan"), hosts.plan)
    site = ProofSite("proof-crowd", SPACE, "x", requirements, 600, b"secret", hosts.plan.common)
    async with connect(kubeconfig) as client, connect(kubeconfig) as others:
        await others.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        pods = Pods(others, hosts, site)
        pods.spawn(pods.reflector.run(events.append))
        names = [node.name for node in hosts.plan.nodes]
        await run_sheets(client, site, names, SheetCalls(remember(advance), events.append, lambda *_: None))
        for task in pods.tasks:
            task.cancel()
        await asyncio.gather(*pods.tasks, return_exceptions=True)
    return proofs[0]


@pytest.mark.nightly("the rounds of a screen take a minute and a half")
def test_128_nodes_are_screened_from_pods_within_three_minutes(api_server: Path) -> None:
    hosts = Hosts(build_plan(NODES, units=32, rails=8))
    events: list[str] = []
    started = time.monotonic()
    report = build_report(asyncio.run(screen(str(api_server), hosts, events)))
    seconds = time.monotonic() - started
    assert report.summary == "proved: 7168 tests planned: 7168 pass, 0 warn, 0 fail, 0 unknown, 0 not-tested", events
    assert seconds < 180
