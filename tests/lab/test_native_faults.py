"""What breaks around starting and ending pods, in a real cluster with VFs: nothing is lost, nothing is given twice.

One server of two rails with three VFs each; a ReplicaSet starts and ends three pods that ask for both rails, so that
every VF is in use.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import control_plane
from trackbed_lab.kubernetes.run import VFS

from tests.lab.native import IN_A_ROUND, NODE, Trial, raised, rounds
from tests.lab.power import cut_power

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("a cluster takes minutes"),
    pytest.mark.timeout(7000),
]

AWAY_SECONDS = 60.0
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
  kernel: {iommu: passthrough}
  rdma: {namespaceMode: shared}
  otherRanges: {docker: []}
"""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    with raised(tmp_path_factory.mktemp("faults"), FABRIC, PODS) as trial:
        yield trial


@pytest.mark.parametrize(
    "breaks",
    [
        pytest.param("pkill -KILL -f '[t]rackbed agent run' || true", id="the agent is killed"),
        pytest.param("systemctl restart kubelet", id="the kubelet is restarted"),
        pytest.param("systemctl restart containerd", id="containerd is restarted"),
    ],
)
def test_nothing_is_lost_when_something_breaks_as_pods_start_and_end(trial: Trial, breaks: str) -> None:
    for _ in rounds(IN_A_ROUND):
        trial.round(lambda: trial.on_node(breaks))


def test_pods_run_again_after_the_servers_power_was_cut(trial: Trial) -> None:
    for _ in rounds():
        trial.scale(PODS)
        trial.whole()
        cut_power(Path(trial.here.servers.folder) / NODE)
        trial.until("the agent serves again", lambda: trial.held() is not None)
        trial.whole()
        trial.scale(0)
        trial.until("all pods are gone", lambda: not trial.live())
        trial.until("nothing is held", lambda: trial.holds(0))
        trial.vfs = trial.on_node(VFS)  # VFs that were made anew have other MAC addresses
        assert trial.vfs.count("virtfn") == PODS * 2


def test_pods_start_while_the_api_server_is_away(trial: Trial) -> None:
    for _ in rounds():
        trial.scale(PODS)
        trial.until("the kubelet has heard of the pods", lambda: _started(trial) == PODS)
        with away(trial):
            trial.until("the agent attaches all pods", lambda: trial.holds(PODS))
        trial.whole()
        trial.scale(0)
        trial.empty()


def _started(trial: Trial) -> int:
    """How many pods the kubelet has begun to start: it is the one who says since when."""
    return sum("startTime" in pod.get("status", {}) for pod in trial.live())


@contextmanager
def away(trial: Trial) -> Iterator[None]:
    """The API server stands still, for AWAY_SECONDS at least."""
    [server] = [
        process
        for process in control_plane.load_processes(trial.here.kubeconfig.parent)
        if process.name == "kube-apiserver"
    ]
    began = time.monotonic()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
        time.sleep(max(0.0, AWAY_SECONDS - (time.monotonic() - began)))
    finally:
        os.kill(server.pid, signal.SIGCONT)


_PULL = "for vf in /sys/class/net/rail1/device/virtfn*; do basename $(readlink -f $vf) > $vf/driver/unbind; done"
_PUT_BACK = f"""
for vf in /sys/class/net/rail1/device/virtfn*; do basename $(readlink -f $vf) > /sys/bus/pci/drivers/igbvf/bind; done
udevadm settle
{sys.executable} -m trackbed apply -f /run/own/fabric.yaml --yes
"""


def test_vfs_that_are_pulled_while_pods_use_them_can_be_given_again(trial: Trial) -> None:
    for _ in rounds(PODS):
        trial.scale(PODS)
        trial.whole()
        trial.on_node(_PULL)
        trial.scale(0)
        trial.until("all pods are gone", lambda: not trial.live())
        trial.until("nothing is held", lambda: trial.holds(0))
        trial.on_node(_PUT_BACK)
        trial.vfs = trial.on_node(VFS)
        assert trial.vfs.count("virtfn") == PODS * 2
    trial.scale(PODS)
    trial.whole()
    trial.scale(0)
    trial.empty()


def test_a_pod_that_no_vf_is_left_for_waits_and_gets_one_later(trial: Trial) -> None:
    trial.scale(PODS + 1)
    trial.until(f"{PODS} pods run", lambda: len(trial.running()) == PODS)
    waiting = [pod for pod in trial.live() if not pod["spec"].get("nodeName")]
    assert len(waiting) == 1
    trial.client.delete({"apiVersion": "v1", "kind": "Pod", "metadata": _meta(trial.running()[0])})
    trial.until("it runs", lambda: waiting[0]["metadata"]["name"] in trial.running())
    trial.scale(0)
    trial.empty()


def _meta(name: str) -> dict[str, str]:
    return {"name": name, "namespace": "default"}
