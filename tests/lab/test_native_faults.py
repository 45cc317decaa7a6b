"""What breaks around starting and ending pods, in a real cluster with VFs: nothing is lost, nothing is given twice.

One server of two rails with three VFs each; a ReplicaSet starts and ends three pods that ask for both rails, so that
every VF is in use. Each fault comes ROUNDS times.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.lab import servers
from trackbed.cli.agent import SOCKET
from trackbed.kube.client import Client, Object, connect
from trackbed.kube.errors import KubeError
from trackbed.lab.kubernetes import cluster, control_plane
from trackbed.lab.kubernetes.pods import PodError, find
from trackbed.lab.kubernetes.run import VFS
from trackbed.lab.vm import keeper, lab, run
from trackbed.lab.vm.channel import ChannelError, execute
from trackbed.lab.vm.machine import Shape
from trackbed.stacks import stack
from trackbed.stacks.stack import objects

pytestmark = [pytest.mark.slow, pytest.mark.may_skip("a cluster takes minutes; TRACKBED_VM=1 asks for it")]

_log = logging.getLogger(__name__)

ROUNDS = 20 if os.environ.get("TRACKBED_VM") == "all" else 2
SECONDS = 240.0
AWAY_SECONDS = 60.0 if os.environ.get("TRACKBED_VM") == "all" else 10.0
SEED = 6
NODE = "node-0"
PODS = 3
FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: faults}
spec:
  nodes: [{hosts: node-0, ports: [{pci: "0000:11:00.0"}, {pci: "0000:81:00.0"}]}]
  rails: 2
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
  vfs: {count: 3}
  rdma: {namespaceMode: shared}
  otherRanges: {docker: []}
"""
_SOON = "crashLoopBackOff: {maxContainerRestartPeriod: 1s}"
"""The agent dies often here; a kubelet would wait for longer and longer, up to 5 minutes (KEP-5593)."""
_ASK = f"""
import json, pathlib
from trackbed.agent.client import status
print(json.dumps(status(pathlib.Path("{SOCKET}"))))
"""
_STATUS = [sys.executable, "-c", _ASK]
"""What `trackbed agent status` does, and no more: a start of the whole command takes 5 s there."""


@dataclass
class Trial:
    """The cluster, and what a sound node without pods looks like."""

    here: cluster.Cluster
    client: Client
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311 - no secret
    vfs: str = ""

    def on_node(self, script: str) -> str:
        """What a script on the server says."""
        done = execute(self.here.servers.server(NODE).channel, ["sh", "-c", script], SECONDS)
        return done.output.decode()

    def held(self) -> list[Any]:
        """What the agent holds; empty if it does not answer."""
        done = execute(self.here.servers.server(NODE).channel, _STATUS, SECONDS)
        attachments: list[Any] = json.loads(done.output or b'{"attachments": ["unknown"]}')["attachments"]
        return attachments

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + SECONDS
        while True:
            with suppress(KubeError, ChannelError, PodError, json.JSONDecodeError):
                if holds():
                    return
            if time.monotonic() > deadline:
                events = [one.get("message") for one in self.client.list("v1", "Event") if one.get("type") == "Warning"]
                pytest.fail(f"{what}: not within {SECONDS:.0f} s; {events[-5:]}")
            time.sleep(0.5)

    def scale(self, count: int) -> None:
        """Have so many pods."""
        one = replica_set(count)
        self.until(f"the API takes {count} pods", lambda: self.client.apply(one, force=True))

    def live(self) -> list[Object]:
        """Pods that have not ended."""
        return [
            one
            for one in self.client.list("v1", "Pod", "default")
            if one.get("status", {}).get("phase") not in {"Failed", "Succeeded"}
        ]

    def running(self) -> list[str]:
        """Pods that run."""
        return [
            one["metadata"]["name"]
            for one in self.live()
            if one.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
        ]

    def address(self, pod: str) -> str:
        """The addresses of a pod's rails."""
        found = find(self.client, "default", pod)
        argv = found.run(["/usr/bin/ip", "-4", "-br", "address"])
        said = execute(self.here.servers.server(NODE).channel, argv, SECONDS).output.decode().split()
        return " ".join(word for word in said if word.startswith(("10.64.", "10.65.")))

    def whole(self) -> None:
        """Every pod runs with rails of its own, and the agent knows of no other."""
        self.until(f"{PODS} pods run", lambda: len(self.running()) == PODS)
        self.until("the agent holds what runs", lambda: len(self.held()) == PODS)
        found = [self.address(pod) for pod in self.running()]
        assert len(set(found)) == PODS, found
        assert all(len(one.split()) == 2 for one in found), found

    def empty(self) -> None:
        """Everything is back: VFs by name, MAC and MTU; no CDI file, no address held."""
        self.until("all pods are gone", lambda: not self.live())
        self.until("all VFs are back", lambda: self.on_node(VFS) == self.vfs)
        self.until("nothing is held", lambda: self.held() == [])

    def round(self, fault: Callable[[], object]) -> None:
        """Three pods start and end, and something breaks at a random moment of either."""
        self.scale(PODS)
        time.sleep(self.chance.uniform(0, 6))
        fault()
        self.whole()
        self.scale(0)
        time.sleep(self.chance.uniform(0, 2))
        fault()
        self.empty()


def rounds() -> Iterator[int]:
    """ROUNDS numbers; `-o log_cli=true --log-cli-level=INFO` shows each as it comes."""
    for number in range(ROUNDS):
        _log.info("round %d of %d", number + 1, ROUNDS)
        yield number


def replica_set(count: int) -> Object:
    """Pods that ask for both rails; one that a node refuses is replaced."""
    asked = {"trackbed.dev/rail0": 1, "trackbed.dev/rail1": 1}
    container = {"name": "main", "image": cluster.TOOLS, "imagePullPolicy": "Never", "resources": {"limits": asked}}
    labels = {"app": "rails"}
    pod = {"terminationGracePeriodSeconds": 0, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    head = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rails", "namespace": "default"}}
    return {**head, "spec": spec}


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    plan = servers.planned(FABRIC)
    wanted = servers.wanted(run.shape_of(plan, Shape(memory=3072)))
    folder = tmp_path_factory.mktemp("faults")
    try:
        here = cluster.up(folder, wanted.parts, wanted.shape, print)
        place = servers.place(here.servers, FABRIC, "fabric.yaml")
        servers.answer(here.servers, NODE, "apply", "-f", place, "--yes")
        with connect(str(here.kubeconfig)) as client:
            one = Trial(here, client)
            one.on_node(f"echo '{_SOON}' >> /etc/kubernetes/kubelet.yaml")
            lab.reboot(here.servers, NODE)
            one.until("all VFs are as planned", lambda: one.on_node(VFS).count(" 9000 ") == PODS * 2)
            one.vfs = one.on_node(VFS)
            for each in objects(stack("native"), plan):
                client.apply(each)
            one.until("the agent serves", lambda: one.held() == [])
            yield one
    finally:
        cluster.down(folder)


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param("pkill -KILL -f '[t]rackbed agent run' || true", id="the agent is killed"),
        pytest.param("systemctl restart kubelet", id="the kubelet is restarted"),
        pytest.param("systemctl restart containerd", id="containerd is restarted"),
    ],
)
def test_nothing_is_lost_when_something_breaks_as_pods_start_and_end(trial: Trial, breaks: str) -> None:
    for _ in rounds():
        trial.round(lambda: trial.on_node(breaks))


def test_pods_run_again_after_the_servers_power_was_cut(trial: Trial) -> None:
    for _ in rounds():
        trial.scale(PODS)
        trial.whole()
        keeper.cut_power(Path(trial.here.servers.folder) / NODE)
        trial.until("the agent serves again", lambda: trial.on_node("cut -d. -f1 /proc/uptime").strip().isdigit())
        trial.until("no pod of the boot before is held", lambda: trial.held() != ["unknown"])
        trial.whole()
        trial.scale(0)
        trial.until("all pods are gone", lambda: not trial.live())
        trial.until("nothing is held", lambda: trial.held() == [])
        trial.vfs = trial.on_node(VFS)  # VFs that were made anew have other MAC addresses
        assert trial.vfs.count("virtfn") == PODS * 2


def test_pods_start_while_the_api_server_is_away(trial: Trial) -> None:
    for _ in rounds():
        trial.scale(PODS)
        trial.until("the pods have a node", lambda: [one["spec"].get("nodeName") for one in trial.live()] == [NODE] * 3)
        with away(trial):
            trial.until("the agent attaches all pods", lambda: len(trial.held()) == PODS)
        trial.whole()
        trial.scale(0)
        trial.empty()


@contextmanager
def away(trial: Trial) -> Iterator[None]:
    """The API server stands still, for AWAY_SECONDS at least."""
    [server] = [one for one in control_plane.processes(trial.here.kubeconfig.parent) if one.name == "kube-apiserver"]
    began = time.monotonic()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - began)))
    finally:
        os.kill(server.pid, signal.SIGCONT)


def test_a_vf_that_is_pulled_while_a_pod_uses_it_can_be_given_again(trial: Trial) -> None:
    for number in rounds():
        trial.scale(PODS)
        trial.whole()
        vf = f"$(readlink -f /sys/class/net/rail1/device/virtfn{number % PODS})"
        trial.on_node(f"echo $(basename {vf}) > {vf}/driver/unbind")
        trial.scale(0)
        trial.until("all pods are gone", lambda: not trial.live())
        trial.until("nothing is held", lambda: trial.held() == [])
        trial.on_node(f"echo $(basename {vf}) > /sys/bus/pci/drivers/igbvf/bind; udevadm settle; {run_apply()}")
        trial.vfs = trial.on_node(VFS)
        assert trial.vfs.count("virtfn") == PODS * 2
        trial.scale(PODS)
        trial.whole()
        trial.scale(0)
        trial.empty()


def run_apply() -> str:
    """Words that give a VF that is back what the plan says of it."""
    return f"{sys.executable} -m trackbed apply -f /run/own/fabric.yaml --yes"


def test_a_pod_that_no_vf_is_left_for_waits_and_gets_one_later(trial: Trial) -> None:
    trial.scale(PODS + 1)
    trial.until(f"{PODS} pods run", lambda: len(trial.running()) == PODS)
    waiting = [one for one in trial.live() if not one["spec"].get("nodeName")]
    assert len(waiting) == 1
    trial.client.delete({"apiVersion": "v1", "kind": "Pod", "metadata": _meta(trial.running()[0])})
    trial.until("it runs", lambda: waiting[0]["metadata"]["name"] in trial.running())
    trial.scale(0)
    trial.empty()


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default"}
