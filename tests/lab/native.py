"""A server of a real cluster under trial: pods that ask for rails come and go, and what must hold then.

Each fault comes TIMES times. The agent and kubelet are asked in the server, the cluster by its API.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import cluster
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.kubernetes.pods import PodError, find_container
from trackbed_lab.kubernetes.run import VFS
from trackbed_lab.vm import lab, run
from trackbed_lab.vm.channel import ChannelError, execute_command
from trackbed_lab.vm.machine import LabShape

from tests.lab import servers
from trackbed.cluster.api.errors import KubeError
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.rails import DEFAULT_PREFIX, get_resource_name
from trackbed.cluster.stacks.stack import iter_objects
from trackbed.node.rails.protocol import STATUS_REQUEST

_log = logging.getLogger(__name__)

TIMES = 20
IN_A_ROUND = 3
"""How often something breaks while the pods of a round start, and once more while they end."""
CPUS = 2
"""The one server can have both of a small machine."""
SECONDS = 600.0
SEED = 6
LOOKED = 3
NODE = "node-0"
_SOON = "crashLoopBackOff: {maxContainerRestartPeriod: 1s}"
"""The agent dies often here; a kubelet would wait for longer and longer, up to 5 minutes (KEP-5593)."""
_ASK = f"""
import socket
body = b"{STATUS_REQUEST}=1\\0\\0"
with socket.socket(socket.AF_UNIX) as agent:
    agent.settimeout(60)
    agent.connect("/run/trackbed/agent.sock")
    agent.sendall(len(body).to_bytes(4, "big") + body)
    said = b"".join(iter(lambda: agent.recv(65536), b""))
print(said[5:].decode())
"""
_STATUS = [sys.executable, "-IS", "-c", _ASK]
"""As `trackbed agent status -o json`, which takes an emulated server seconds only to start."""


@dataclass
class Trial:
    """The cluster, and what a sound node without pods looks like."""

    here: cluster.Cluster
    client: BlockingClient
    rails: list[str]
    """Resources that each pod asks for one of."""
    pods: int
    """How many come in each round."""
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - no secret
    vfs: str = ""

    def on_node(self, script: str) -> str:
        """What a script on the server says."""
        done = execute_command(self.here.servers.find_server(NODE).channel, ["sh", "-c", script], SECONDS)
        return done.output.decode()

    def held(self) -> list[Any] | None:
        """What the agent holds; None if it does not answer."""
        done = execute_command(self.here.servers.find_server(NODE).channel, _STATUS, SECONDS)
        return list(json.loads(done.output)["attachments"]) if done.output else None

    def holds(self, count: int) -> bool:
        """Whether the agent holds so many pods' rails, and has done with each."""
        held = self.held()
        return held is not None and len(held) == count and all(attachment["done"] for attachment in held)

    def until(self, description: str, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + SECONDS
        while True:
            with suppress(KubeError, ChannelError, PodError, json.JSONDecodeError):
                if holds():
                    return
            if time.monotonic() > deadline:
                events = [
                    event.get("message") for event in self.client.list("v1", "Event") if event.get("type") == "Warning"
                ]
                pytest.fail(f"{description}: not within {SECONDS:.0f} s; {events[-5:]}")
            time.sleep(0.5)

    def scale(self, count: int) -> None:
        """Have so many pods."""
        body = replica_set(self.rails, count)
        self.until(f"the API takes {count} pods", lambda: self.client.apply(body, force=True))

    def live(self) -> list[Object]:
        """Pods that have not ended."""
        return [
            pod
            for pod in self.client.list("v1", "Pod", "default")
            if pod.get("status", {}).get("phase") not in {"Failed", "Succeeded"}
        ]

    def running(self) -> list[str]:
        """Pods that run."""
        return [
            pod["metadata"]["name"]
            for pod in self.live()
            if pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]

    def addresses(self, pod: str) -> list[str]:
        """The addresses of a pod's rails, as it sees them."""
        container = find_container(self.client, "default", pod)
        argv = container.build_exec_command(["/usr/bin/ip", "-4", "-br", "address"])
        lines = execute_command(self.here.servers.find_server(NODE).channel, argv, SECONDS).output.decode().splitlines()
        return [line.split()[2].partition("/")[0] for line in lines if line.startswith("rail")]

    def whole(self) -> None:
        """Every pod runs with rails of its own, and the agent knows of no other; LOOKED of them say the same."""
        self.until(f"{self.pods} pods run, and the agent holds what they have", self._runs_what_is_held)
        held = {
            attachment["pod"]: [address["text"].partition("/")[0] for address in _addresses(attachment)]
            for attachment in self.held() or []
        }
        texts = [address for addresses in held.values() for address in addresses]
        assert len(texts) == len(set(texts)) == self.pods * len(self.rails), held
        for pod in self.running()[:LOOKED]:
            assert sorted(self.addresses(pod)) == sorted(held[f"default/{pod}"]), pod

    def _runs_what_is_held(self) -> bool:
        """The API may not have heard yet that pods ended, of a server whose power was cut: the agent has."""
        if not self.holds(self.pods):
            return False
        held = {attachment["pod"] for attachment in self.held() or []}
        return held == {f"default/{name}" for name in self.running()}

    def empty(self) -> None:
        """Everything is back: VFs by name, MAC and MTU; no CDI file, no address held."""
        self.until("all pods are gone", lambda: not self.live())
        self.until("nothing is held", lambda: self.holds(0))
        self.until("all VFs are back, and no CDI file is left", lambda: self.on_node(VFS) == self.vfs)

    def round(self, fault: Callable[[], object]) -> None:
        """Pods start and end, and something breaks at random moments of either."""
        for count, sound in ((self.pods, self.whole), (0, self.empty)):
            self.scale(count)
            for _ in range(min(IN_A_ROUND, TIMES)):
                time.sleep(self.chance.uniform(0, 6))
                fault()
            sound()


def _addresses(attachment: dict[str, Any]) -> Iterator[dict[str, str]]:
    for port in attachment["ports"]:
        yield from port["addresses"]


def rounds(times_each: int = 1) -> Iterator[int]:
    """As many numbers as there must be rounds; `-o log_cli=true --log-cli-level=INFO` shows each as it comes."""
    for number in range(0, TIMES, times_each):
        _log.info("round that ends with %d of %d", min(number + times_each, TIMES), TIMES)
        yield number


def replica_set(rails: list[str], count: int) -> Object:
    """Pods that ask for these rails; one that a node refuses is replaced."""
    limits = dict.fromkeys(rails, 1)
    container = {
        "name": "main",
        "image": cluster.TOOLS_IMAGE,
        "imagePullPolicy": "Never",
        "resources": {"limits": limits},
    }
    labels = {"app": "rails"}
    pod = {
        "automountServiceAccountToken": False,  # without the API server a kubelet has no token for a pod
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rails", "namespace": "default"}}
    return {**head, "spec": spec}


@contextmanager
def raised(folder: Path, fabric: str, pods: int) -> Iterator[Trial]:
    """A cluster of one server, prepared by `trackbed apply` and a reboot, with an agent that serves."""
    plan = servers.planned(fabric)
    wanted = servers.wanted(run.derive_shape(plan, LabShape(memory=3072, cpus=CPUS)))
    try:
        here = cluster.start_ready_cluster(folder, cluster.ClusterSpec(wanted.parts, wanted.shape), print)
        servers.answer(here.servers, NODE, "apply", "-f", servers.place(here.servers, fabric, "fabric.yaml"), "--yes")
        with connect(str(here.kubeconfig)) as client:
            trial = Trial(here, client, [get_resource_name(rail, DEFAULT_PREFIX) for rail in plan.common.rails], pods)
            trial.on_node(f"echo '{_SOON}' >> /etc/kubernetes/kubelet.yaml")
            lab.reboot_server(here.servers, NODE)
            vfs = len(plan.common.rails) * plan.common.vfs
            trial.until("all VFs are as planned", lambda: trial.on_node(VFS).count(" 9000 ") == vfs)
            trial.vfs = trial.on_node(VFS)
            for each in iter_objects(load_stack("native"), plan):
                client.apply(each)
            trial.until("the agent serves", lambda: trial.holds(0))
            yield trial
    finally:
        cluster.stop_cluster(folder)
