"""A cluster that the chart is installed on: an API server without nodes, controllers and kubelets.

The programs run here as processes, with the words of the chart's containers and the tokens of its accounts: what its
roles do not allow, they cannot do.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.kubernetes.blocking import BlockingClient

from tests.charts.chart import CHART, NAMESPACE, RELEASE, run
from tests.waiting import wait_until
from trackbed.cluster.api.client import Client, connect
from trackbed.cluster.api.response import Object
from trackbed.cluster.controller.uninstall import KeepOptions, uninstall
from trackbed.cluster.resources.railnode import API_VERSION

_T = TypeVar("_T")

SECONDS = 60.0
KEEP = KeepOptions()
"""Nothing."""

Key = tuple[str, str, str, str]
"""apiVersion, kind, namespace, name."""


@dataclass(frozen=True)
class Site:
    """A cluster, and what reaches it."""

    client: BlockingClient
    kubeconfig: Path
    helm: str
    folder: Path

    def tried(self, *words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
        """What became of helm."""
        where = ("--kubeconfig", str(self.kubeconfig), "--namespace", NAMESPACE)
        return run(self.helm, *where, *words, values=values)

    def helmed(self, *words: str, values: dict[str, Any] | None = None) -> str:
        """What helm says; it must succeed."""
        done = self.tried(*words, values=values)
        assert not done.returncode, done.stderr
        return done.stdout

    def install(self, values: dict[str, Any] | None = None, chart: Path = CHART) -> str:
        """Install the chart, or upgrade to it; what helm says."""
        return self.helmed("upgrade", "--install", RELEASE, str(chart), values=values or {})

    def account(self, name: str, pod: str = "") -> Path:
        """A kubeconfig of one of the chart's accounts; bound to a pod where one is named, as a pod's own is."""
        bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}} if pod else {}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": bound}
        made = self.posted(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}/token", request)
        config = json.loads(self.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": made["status"]["token"]}
        path = self.folder / f"{name}-{pod}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def posted(self, path: str, body: Object) -> Object:
        """What the server answers to an object that is sent to a path."""
        return asyncio.run(self.with_live(lambda live: live.create(path, body)))

    def merged(self, path: str, change: Object) -> Object:
        """An object after a change."""
        return asyncio.run(self.with_live(lambda live: live.merge(path, change)))

    def command(self, kind: str, name: str, **variables: str) -> list[str]:
        """The words of a container as they are in the cluster, to be run here by the account of its pod.

        `more` replaces options.
        """
        group = "batch/v1" if kind == "Job" else "apps/v1"
        pod = self.client.get(group, kind, name, NAMESPACE)["spec"]["template"]["spec"]
        program, *words = pod["containers"][0]["command"]
        assert program == "trackbed"
        argv = [word.replace("$(POD_NAMESPACE)", NAMESPACE).replace("$(POD_NAME)", f"{name}-0") for word in words]
        ports = {"--metrics=:8080": "--metrics=127.0.0.1:0"}  # of this machine none is theirs
        kept = [ports.get(word, word) for word in argv if not word.startswith(tuple(f"--{key}=" for key in variables))]
        account = self.account(pod["serviceAccountName"])
        replaced = [f"--{key}={value}" for key, value in variables.items()]
        return [sys.executable, "-m", "trackbed", *kept, *replaced, f"--kubeconfig={account}"]

    def until(self, holds: Callable[[], object], goal: str) -> None:
        """Wait until something holds."""
        wait_until(holds, goal)

    def everything(self) -> dict[Key, Object]:
        """Every object of the cluster but events and what the API server writes by itself."""
        bodies: dict[Key, Object] = {}
        for version, kind in asyncio.run(self.with_live(_kinds)):
            for listed in self.client.list(version, kind) if kind != "Event" else ():
                metadata = listed["metadata"]
                bodies[version, kind, metadata.get("namespace", ""), metadata["name"]] = listed
        return {key: body for key, body in bodies.items() if key[2] != "kube-system"}

    async def with_live(self, act: Callable[[Client], Awaitable[_T]]) -> _T:
        """Do something with a connection."""
        async with connect(str(self.kubeconfig)) as live:
            return await act(live)


@dataclass(frozen=True)
class Running:
    """A program that runs."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """All that it has said."""
        return self.log.read_text()


@contextmanager
def running(argv: list[str], log: Path, *, forbidden: bool = False, **environment: str) -> Iterator[Running]:
    """A program until the block ends; it must end by SIGTERM as it should.

    It must never have been forbidden anything, unless it may lose its rights.
    """
    with log.open("wb") as stream:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={"PYTHONUNBUFFERED": "1", **environment},
        )
    program = Running(process, log)
    try:
        yield program
        process.terminate()
        assert process.wait(SECONDS) == 0, program.said()
        assert forbidden or "orbidden" not in program.said()
    finally:
        process.kill()
        process.wait(SECONDS)


async def _kinds(live: Client) -> list[tuple[str, str]]:
    """Version and kind of all that can be listed, by the server's own discovery."""
    groups = (await live.get("/apis", dict[str, Any]))["groups"]
    kinds = []
    for version in ("v1", *(group["preferredVersion"]["groupVersion"] for group in groups)):
        path = f"/apis/{version}" if "/" in version else f"/api/{version}"
        resources = (await live.get(path, dict[str, Any]))["resources"]
        kinds += [(version, resource["kind"]) for resource in resources if "list" in resource["verbs"]]
    return kinds


def uninstalled(site: Site, keep: KeepOptions = KEEP) -> list[str]:
    """Take away what the programs made, as an administrator; what was done."""
    messages: list[str] = []
    asyncio.run(site.with_live(lambda live: uninstall(live, NAMESPACE, keep, messages.append)))
    return messages


def node(site: Site, name: str) -> None:
    """A node whose kubelet is ready."""
    kind = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    site.client.create(kind)
    ready = [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]
    site.client.apply({**kind, "status": {"conditions": ready}}, manager="kubelet", subresource="/status")


def fabric(site: Site, hosts: str, name: str = "train", **spec: Any) -> None:
    """A Fabric of two rails."""
    body = {
        "nodes": [{"hosts": hosts, "ports": ["0000:18:00.0", "0000:40:00.0"]}],
        "rails": 2,
        "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/16"},
        "rollout": {"maxUnavailable": 2},
        **spec,
    }
    site.client.apply({"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": name}, "spec": body})


def progress(site: Site, name: str = "train") -> str:
    """How far a Fabric is, in one word."""
    status = site.client.get(API_VERSION, "Fabric", name).get("status", {})
    return next(
        (condition["reason"] for condition in status.get("conditions", ()) if condition["type"] == "Progressing"), ""
    )


def stage(site: Site, name: str) -> str:
    """The stage of a node; empty without a RailNode."""
    rail_node = site.client.find(API_VERSION, "RailNode", name) or {}
    conditions = rail_node.get("status", {}).get("conditions", ())
    return next((condition["reason"] for condition in conditions if condition["type"] == "Rolled"), "")


@contextmanager
def simulated(site: Site, agents: Agents) -> Iterator[None]:
    """Agents of nodes that do not exist, in a thread of their own."""
    loop = asyncio.new_event_loop()
    work = loop.create_task(site.with_live(lambda live: agents.run(live, lambda _: None)))

    def run_agents() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(work)

    thread = threading.Thread(target=run_agents, daemon=True)
    thread.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(work.cancel)
        thread.join(SECONDS)
        loop.close()
