"""Another version of the controller takes over in the middle of a roll-out, and nothing is lost.

It comes as a Deployment's update has it: a new process beside the old ones, then SIGTERM to one of these, and so on.

    every node comes to its end, and none is changed or rebooted twice for one plan
    never more of them are unavailable than may be, at any moment between
    taints and cordons that one version has begun the other one ends
    the lock, the good generations and what people asked for by annotations stay
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.agents import Agents, SimulatedHost
from trackbed_lab.kubernetes.blocking import connect

from tests.cluster.controller import newer
from tests.cluster.controller.test_run import NAMESPACE, Ground
from tests.kinds import installed
from tests.waiting import wait_for, wait_until
from tools.pages.crds import iter_crds
from trackbed.cluster.api import client as kube
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.reflector import Reflector
from trackbed.cluster.controller.objects import FABRICS, NODES, RAILNODES, NodeObject, RailNode
from trackbed.cluster.controller.run import LEASE
from trackbed.cluster.resources.railnode import TAINT
from trackbed.cluster.stacks.objects import Manifest
from trackbed.fabric.plan.lock import render_lock

SECONDS = 60.0
UNAVAILABLE = 5
ROLLOUT = {"maxUnavailable": UNAVAILABLE, "maxFailures": 1}
CANARY, DRAINING, CHANGING, REBOOTING, REPORTING, FAILING, PAUSED, *WAITING = (f"upgrade-{n}" for n in range(9))
ALL = (CANARY, DRAINING, CHANGING, REBOOTING, REPORTING, FAILING, PAUSED, *WAITING)
_numbers = itertools.count()
LEASED = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
EVERY = (*ALL, "upgrade-9")
PODS = "/api/v1/namespaces/default/pods"

TODAY = (sys.executable, "-m", "trackbed")
NEWER = (sys.executable, newer.__file__)

pytestmark = pytest.mark.slow


@dataclass
class Processes:
    """Controllers as processes of their own, by name."""

    kubeconfig: Path
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, program: tuple[str, ...]) -> None:
        """Start one of a version."""
        argv = [*program, "controller", "--kubeconfig", str(self.kubeconfig), "--name", name]
        with self._log(name).open("wb") as log:
            self.running[name] = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def end(self, name: str) -> None:
        """As Kubernetes ends a pod; it has to go by itself, and has nothing to complain of."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            status = await asyncio.to_thread(process.wait, SECONDS)
        finally:
            process.kill()
        assert (status, "Traceback" in self.said(name)) == (0, False), self.said(name)

    async def says(self, words: str) -> None:
        """Wait until one of those that run says so."""
        await asyncio.to_thread(wait_until, lambda: any(words in self.said(name) for name in self.running), words)

    def said(self, name: str) -> str:
        """Its log."""
        return self._log(name).read_text(encoding="utf-8")

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"


@contextmanager
def processes(kubeconfig: Path, folder: Path) -> Iterator[Processes]:
    started = Processes(kubeconfig, folder)
    try:
        yield started
    finally:
        for process in started.running.values():
            process.kill()
            process.wait(SECONDS)


@dataclass
class Hosts:
    """Agents that can be stopped at a moment of their own."""

    agents: Agents = field(init=False)
    held: set[str] = field(default_factory=set)
    fail: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.agents = Agents(
            needs_reboot=REBOOTING.__eq__,
            fails=self.fail.__contains__,
            hangs=self._holds,
            to_state=lambda digest: digest.removeprefix(newer.WORDS),
            prepared=True,
        )

    def _holds(self, rail: RailNode) -> bool:
        name = rail.metadata.name
        if name not in self.held or not rail.spec.may_change:
            return False
        if name == REPORTING:
            self.agents.process_railnode(rail)  # it does the work, and is killed before it can say so
        return name != REBOOTING or bool(rail.spec.may_reboot)

    def applied(self) -> dict[str, str]:
        """What each host of this roll-out is set up as; other tests have others."""
        return {name: self.agents.hosts[name].applied for name in ALL}

    def counts(self) -> dict[str, tuple[int, int]]:
        """How often each of them was set up, and which boot it is in."""
        hosts = ((name, self.agents.hosts[name]) for name in ALL)
        return {name: (host.changes, host.boot) for name, host in hosts}


@dataclass
class Scene(Ground):
    """The ground, and the most nodes that were unavailable at any moment."""

    most: int = 0

    @property
    def lock(self) -> str:
        """Where the cluster keeps the lock."""
        return f"/api/v1/namespaces/{NAMESPACE}/configmaps/trackbed-lock-{self.name}"

    def seen(self, nodes: dict[str, NodeObject]) -> None:
        """Count the nodes that are unavailable now."""
        there = [nodes[name] for name in ALL if name in nodes and _known(nodes[name])]
        self.most = max(self.most, sum(node.unavailable for node in there))

    async def led_by(self, *names: str) -> str:
        """Who of these leads, once one of them does."""

        async def read() -> str:
            leader: str = (await self.live.get(LEASED, dict[str, Any]))["spec"]["holderIdentity"]
            return leader if leader in names else ""

        return await wait_for(read, f"one of {names} leads")

    async def marks(self) -> dict[str, Any]:
        """Nodes with a taint or a cordon, or a note of ours."""
        nodes = (await self.live.get(NODES, dict[str, Any]))["items"]
        states = {node["metadata"]["name"]: (node["spec"], node["metadata"].get("annotations", {})) for node in nodes}
        known = {name: state for name, state in states.items() if name in ALL}
        return {name: node for name, node in known.items() if "trackbed.dev" in str(node) or "unschedulable" in node[0]}

    async def further(self) -> set[str]:
        """What RailNodes have in the field that only the newer version knows."""
        rail_nodes = (await self.live.get(RAILNODES, dict[str, Any]))["items"]
        return {rail_node["spec"].get("further", "") for rail_node in rail_nodes}


def _known(node: NodeObject) -> bool:
    """Its kubelet has reported: a node is unavailable for the moment between its creation and that."""
    return bool(node.status.conditions)


@asynccontextmanager
async def scene(kubeconfig: Path, agents: Agents) -> AsyncIterator[Scene]:
    async with kube.connect(str(kubeconfig)) as live:
        here = Scene(live, "upgrade", agents)
        nodes = Reflector(live, NODES, NodeObject, lambda: here.seen(nodes.objects))
        tasks = [
            asyncio.create_task(agents.run(live, here.messages.append)),
            asyncio.create_task(nodes.run(here.messages.append)),
        ]
        try:
            yield here
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _removed(live)


async def _removed(live: Client) -> None:
    lock = f"/api/v1/namespaces/{NAMESPACE}/configmaps/trackbed-lock-upgrade"
    for path in (
        f"{FABRICS}/upgrade",
        lock,
        LEASED,
        *(f"{kind}/{name}" for kind in (RAILNODES, NODES) for name in EVERY),
    ):
        with suppress(ApiRefusedError):
            await live.delete(path)


@pytest.fixture
def kubeconfig(api_server: Path) -> Iterator[Path]:
    """A server with the CRDs of today, also afterwards."""
    with connect(str(api_server)) as client:
        installed(client)
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        yield api_server
        installed(client)


def test_a_roll_out_goes_on_where_another_version_left_it_there_and_back(kubeconfig: Path, tmp_path: Path) -> None:
    hosts = Hosts()

    async def act(here: Scene, run: Processes) -> None:
        for name in ("old-0", "old-1"):
            run.start(name, TODAY)
        for name in ALL:
            await here.node(name)
        await here.fabric("upgrade-[0-8]", ROLLOUT)
        await here.complete()
        lock, first = await here.slots(), hosts.applied()

        await _stopped_at_every_moment(here, hosts)
        await _replaced(here, run, NEWER, ("new-0", "new-1"))
        await run.says("the cluster's CRDs are older than this program: apply charts/trackbed/files/crds.yaml")
        with connect(str(kubeconfig)) as client:
            await asyncio.to_thread(installed, client, _newer_definitions())
        await _wake(here)
        await here.stage(FAILING, "Sound")
        counts = hosts.counts()
        assert {counts[name] for name in (DRAINING, CHANGING, REBOOTING, PAUSED)} == {(0, 1)}
        assert counts[REPORTING] == counts[FAILING] == (1, 1)
        await _go_on(here, hosts)
        assert (await here.until(lambda s: s.get("sound") == 8))["waiting"] == 1
        assert hosts.counts()[PAUSED] == (0, 1)
        await _annotate(here.live, f"{NODES}/{PAUSED}", paused=None)
        assert (await here.complete())["goodGeneration"] == 2
        assert hosts.counts() == {**dict.fromkeys(ALL, (1, 1)), REBOOTING: (1, 2)}
        assert await here.marks() == {}
        assert "newer" in await here.further()

        hosts.held |= {CHANGING, REBOOTING, REPORTING}
        await _annotate(here.live, f"{FABRICS}/{here.name}", rollback="2")
        await _standing(here, {CHANGING: "Changing", REBOOTING: "Rebooting", REPORTING: "Changing"})
        await here.live.merge(here.lock, {"data": {"further": "of a newer version"}})
        await _replaced(here, run, TODAY, ("back-0", "back-1"))
        await _go_on(here, hosts)
        await here.complete()
        assert hosts.counts() == {**dict.fromkeys(ALL, (2, 1)), REBOOTING: (2, 3)}
        assert hosts.applied() == first
        assert await here.marks() == {}
        assert "newer" in await here.further()
        assert here.most == UNAVAILABLE

        assert await here.slots() == lock
        await here.fabric("upgrade-[0-9]", ROLLOUT)
        await here.until(lambda s: s["current"] and s.get("absent") == 1)
        assert await here.slots() == {**lock, "upgrade-9": 9}
        assert (await here.live.get(here.lock, dict[str, Any]))["data"]["further"] == "of a newer version"

    async def played() -> None:
        async with scene(kubeconfig, hosts.agents) as here:
            with processes(kubeconfig, tmp_path) as run:
                await act(here, run)

    asyncio.run(played())


def _newer_definitions() -> list[Manifest]:
    """Return today's CRDs with the fields that the newer version writes."""
    definitions = copy.deepcopy(list(iter_crds()))
    for definition in definitions:
        properties = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        properties["status"]["properties"]["further"] = {"type": "string"}
        if definition["spec"]["names"]["kind"] == "RailNode":
            properties["spec"]["properties"]["further"] = {"type": "string"}
    return definitions


async def _stopped_at_every_moment(here: Scene, hosts: Hosts) -> None:
    """Roll out another generation, until a node stands at each moment of it and cannot go on."""
    hosts.held |= {CHANGING, REBOOTING, REPORTING}
    hosts.fail.add(FAILING)
    await _pod_that_stays(here, DRAINING)
    await _annotate(here.live, f"{NODES}/{PAUSED}", paused="")
    await here.fabric("upgrade-[0-8]", ROLLOUT, mtu=8000)
    stages = {DRAINING: "Draining", CHANGING: "Changing", REBOOTING: "Rebooting", REPORTING: "Changing"}
    await _standing(here, {**stages, FAILING: "Failed", PAUSED: "Held"})
    assert (await here.until(lambda s: s.get("changing") == 4))["waiting"] == 3
    hosts.fail.clear()


async def _standing(here: Scene, stages: Mapping[str, str]) -> None:
    for name, stage in stages.items():
        await here.stage(name, stage)


async def _replaced(here: Scene, run: Processes, program: tuple[str, ...], names: tuple[str, str]) -> None:
    """As a Deployment is updated: a new pod comes before an old one goes; a person mends a node meanwhile."""
    leader = await here.led_by(*run.running)
    for old, name in zip(sorted(run.running, key=leader.__ne__), names, strict=True):
        run.start(name, program)
        await run.end(old)
        await _annotate(here.live, f"{RAILNODES}/{FAILING}", retry="")
    await here.led_by(*names)


async def _go_on(here: Scene, hosts: Hosts) -> None:
    hosts.held.clear()
    with suppress(ApiRefusedError):  # the pod has gone before
        await here.live.merge(f"{PODS}/{DRAINING}", {"metadata": {"finalizers": None}})
    await _wake(here)


async def _wake(here: Scene) -> None:
    """Have the agents look again, as soon as the server answers: for a moment after a CRD changes it does not."""
    async with asyncio.timeout(SECONDS):
        while True:
            try:
                note = {"test/woken": str(next(_numbers))}
                await here.live.merge(f"{RAILNODES}/{CANARY}", {"metadata": {"annotations": note}})
                for kind in (RAILNODES, FABRICS):
                    await here.live.get(kind, dict[str, Any])
            except ApiRefusedError:
                continue
            return


async def _annotate(live: Client, path: str, **marks: str | None) -> None:
    await live.merge(path, {"metadata": {"annotations": {f"trackbed.dev/{key}": text for key, text in marks.items()}}})


async def _pod_that_stays(here: Scene, node: str) -> None:
    """A pod that is asked to leave and needs its time."""
    metadata = {"name": node, "namespace": "default", "finalizers": ["trackbed.dev/test"]}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    with suppress(ApiRefusedError):  # another test made it
        await here.live.create("/api/v1/namespaces/default/serviceaccounts", account)
    gone = {"terminationGracePeriodSeconds": 0}
    await here.live.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **gone}})


def test_what_an_older_version_left_half_done_is_brought_to_its_end(kubeconfig: Path, tmp_path: Path) -> None:
    """Objects without the fields that came since, under CRDs without them; nodes between two writes of one step."""
    agents = Agents(needs_reboot=REBOOTING.__eq__, to_state=lambda _: "the plan, in whatever words")

    async def act(here: Scene, run: Processes) -> None:
        agents.hosts[REPORTING] = SimulatedHost(agents.to_state(""), changes=1)
        for name in OLDER:
            await here.node(name)
        await here.fabric(",".join(OLDER), ROLLOUT)
        for name, (spec, status) in OLDER.items():
            await _left_by_older(here, name, spec, status)
        slots = {name: spec["slot"] for name, (spec, _) in OLDER.items()}
        text = render_lock(here.name, slots)
        metadata = {"name": here.lock.rpartition("/")[2], "namespace": NAMESPACE}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"trackbed.lock.yaml": text}}
        await here.live.apply(here.lock, body, "older")
        with connect(str(kubeconfig)) as client:
            await asyncio.to_thread(installed, client)
        await _wake(here)
        run.start("new", TODAY)
        await here.complete()
        assert {name: host.changes for name, host in agents.hosts.items()} == dict.fromkeys(OLDER, 1)
        assert agents.hosts[REBOOTING].boot == 2
        assert await here.marks() == {}
        assert await here.slots() == slots

    async def played() -> None:
        with connect(str(kubeconfig)) as client:
            await asyncio.to_thread(installed, client, _older_definitions())
        async with scene(kubeconfig, agents) as here:
            with processes(kubeconfig, tmp_path) as run:
                await act(here, run)

    asyncio.run(played())


_DIFFERS = {"type": "Prepared", "status": "False", "reason": "Differs", "lastTransitionTime": "2026-01-01T00:00:00Z"}
_SEEN = {"observedHash": "older", "boot": "boot-1"}
OLDER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    CANARY: ({"slot": 4}, {}),
    DRAINING: ({"slot": 9}, {**_SEEN, "conditions": [_DIFFERS]}),
    CHANGING: ({"slot": 0, "mayChange": True}, {**_SEEN, "conditions": [_DIFFERS]}),
    REBOOTING: (
        {"slot": 7, "mayChange": True, "mayReboot": "boot-1"},
        {**_SEEN, "needsReboot": True, "conditions": [_DIFFERS]},
    ),
    REPORTING: ({"slot": 2}, {**_SEEN, "conditions": [{**_DIFFERS, "status": "True", "reason": "AsPlanned"}]}),
}
"""Spec and status of RailNodes: not looked at, tainted, allowed to change, to reboot, done but for the taint."""
SINCE_THEN: dict[str, dict[str, tuple[str, ...]]] = {
    "Fabric": {"status": ("absent", "failed", "waiting")},
    "RailNode": {"spec": ("changingSince", "changedGeneration", "reboots", "leftAt"), "status": ("differences",)},
}
"""Fields that a version before did not have."""


def _older_definitions() -> list[Manifest]:
    definitions = copy.deepcopy(list(iter_crds()))
    for definition in definitions:
        root = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        for part, fields in SINCE_THEN[definition["spec"]["names"]["kind"]].items():
            for name in fields:
                del root[part]["properties"][name]
    return definitions


async def _left_by_older(here: Scene, name: str, spec: dict[str, Any], status: dict[str, Any]) -> None:
    """A RailNode as an older version left it, and its Node: without the note of since when it has its taint."""
    older_spec = {"fabric": here.name, "generation": 1, "planHash": "older", "plan": {"in": "other words"}, **spec}
    kind = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "RailNode", "metadata": {"name": name}}
    await here.live.create(RAILNODES, {**kind, "spec": older_spec})
    await here.live.apply(f"{RAILNODES}/{name}/status", {**kind, "status": status}, "older")
    if name != CANARY:
        tainted = {"taints": [{"key": TAINT, "effect": "NoSchedule"}], "unschedulable": True}
        marks = {"annotations": {"trackbed.dev/cordoned": ""}}
        await here.live.merge(f"{NODES}/{name}", {"metadata": marks, "spec": tainted})
