"""A pod that does not answer in time is replaced by a new one, which is given what was lost; a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.prove.hosts import build_plan
from trackbed.cluster.api.dynamic import DynamicClient, connect
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.proof.objects import PROOF, ProofSite
from trackbed.cluster.proof.pods import MailboxObject, PodObject
from trackbed.cluster.proof.run import run_sheets
from trackbed.cluster.stacks import load_stack
from trackbed.fleet import sheet_run
from trackbed.fleet.mailbox import BEGAN, ROUND_PREFIX, SHEET, name_sheet, sign, verify
from trackbed.fleet.sheet_run import SheetCalls
from trackbed.prove.sheets import Sheet, SheetRound

SPACE = "replaced"
SHEETS = [Sheet("ping", (SheetRound(0.2, {"n1": [(0, {})], "n2": [(1, {})]}, {}),)) for _ in range(2)]


class Pods:
    """Pods that begin at once and answer with their token; those of the first node's first pod are never written.

    The second node's pod also writes answers for the first node.
    """

    def __init__(self, client: DynamicClient, site: ProofSite) -> None:
        self.client, self.tasks = client, set[asyncio.Task[None]]()
        self.keys = {site.name_pod(index): site.derive_key(index) for index in range(2)}
        self.tokens: dict[str, list[str]] = {}
        self.sheets: dict[str, str] = {}
        pods, mailboxes = (f"/api/v1/namespaces/{SPACE}/{plural}" for plural in ("pods", "configmaps"))
        self.path = mailboxes
        self.pods = Reflector(client.client, pods, PodObject, self.look, labels=PROOF)
        self.mailboxes = Reflector(client.client, mailboxes, MailboxObject, self.look, labels=PROOF)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something beside the rest."""
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def look(self) -> None:
        """Begin in each new pod, and answer each new sheet."""
        for pod in self.pods.objects.values():
            tokens = self.tokens.setdefault(pod.metadata.name, [])
            if pod.metadata.uid not in tokens:
                tokens.append(pod.metadata.uid)
                self.spawn(self.write(pod.metadata.name, {BEGAN: pod.metadata.uid}))
        for mailbox in self.mailboxes.objects.values():
            name, data = mailbox.metadata.name, mailbox.data or {}
            value, token = data.get(SHEET, ""), self.tokens.get(name, [""])[-1]
            sheet = verify(self.keys.get(name, ""), name_sheet(token), value)
            if sheet and value != self.sheets.get(name, ""):
                self.sheets[name] = value
                if not name.endswith("-0") or len(self.tokens[name]) > 1:
                    self.spawn(self.write(name, build_answers(json.loads(sheet), token)))
                if name.endswith("-1") and len(self.tokens["proof-new-0"]) == 1:  # later it would remove right ones
                    self.spawn(self.write("proof-new-0", forge_answers(json.loads(sheet)), signer=name))

    async def write(self, name: str, data: Mapping[str, str], *, signer: str = "") -> None:
        """Set entries of a mailbox, as its pod, or another one, signs them."""
        signed = {entry: sign(self.keys[signer or name], entry, text) for entry, text in data.items()}
        await self.client.client.merge(f"{self.path}/{name}", {"data": signed})


def forge_answers(sheet: Mapping[str, Any]) -> dict[str, str]:
    """Return answers of the first node to the rounds of a sheet, as another node's pod would make them up."""
    rounds = [{**part, "steps": [(0, {})]} for part in sheet["rounds"]]
    return build_answers({**sheet, "rounds": rounds}, "forged")


def build_answers(sheet: Mapping[str, Any], token: str) -> dict[str, str]:
    """Return the answers to all rounds of a sheet, by the entry of a mailbox."""
    answers = {}
    for part in sheet["rounds"]:
        place = {"sheet": sheet["sheet"], "round": part["round"]}
        lines = [*({**place, "id": step_id, "output": token} for step_id, _ in part["steps"]), {**place, "done": True}]
        answers[f"{ROUND_PREFIX}{part['round']}"] = "\n".join(map(json.dumps, lines))
    return answers


async def run(kubeconfig: str, events: list[str]) -> tuple[list[Mapping[int, Any]], Pods]:
    """Run all sheets; return the outputs of each, and the pods."""
    plan, sheets, outputs = build_plan(2), iter(SHEETS), list[Mapping[int, Any]]()

    def advance(answers: Mapping[int, Any], _failures: Mapping[str, str]) -> Sheet | None:
        outputs.append(answers)
        return next(sheets, None)

    requirements = build_requirements(load_stack("network-operator-macvlan"), plan)
    site = ProofSite("proof-new", SPACE, "x", requirements, 600, b"secret", plan.common)
    async with connect(kubeconfig) as client, connect(kubeconfig) as others:
        await others.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        pods = Pods(others, site)
        for reflector in (pods.pods, pods.mailboxes):
            pods.spawn(reflector.run(events.append))
        await run_sheets(client, site, ["n1", "n2"], SheetCalls(advance, events.append, lambda *_: None))
        for task in pods.tasks:
            task.cancel()
        await asyncio.gather(*pods.tasks, return_exceptions=True)
    return outputs[1:], pods


@pytest.mark.slow
def test_a_pod_that_does_not_answer_is_replaced_and_its_tests_are_repeated(
    api_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sheet_run, "LATE_SECONDS", 1.0)
    events: list[str] = []
    outputs, pods = asyncio.run(run(str(api_server), events))
    silent, new = pods.tokens["proof-new-0"]
    assert [answers[0] for answers in outputs] == [new, new], events
    assert not {silent, "forged"} & {output for answers in outputs for output in answers.values()}
    assert "n1 was lost: it did not answer in time; its worker is started again" in events
    assert not [event for event in events if "take no part" in event]
