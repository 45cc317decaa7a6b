"""A real cluster: emulated servers with kubelet and containerd under a real control plane."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from trackbed.kube.client import Client, connect
from trackbed.lab.kubernetes import cluster
from trackbed.lab.vm import accelerator, doctor, keeper, parts
from trackbed.lab.vm.machine import Shape

pytestmark = [pytest.mark.slow, pytest.mark.may_skip("a cluster takes minutes; TRACKBED_VM=1 asks for it")]

SECONDS = 180.0


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    if not os.environ.get("TRACKBED_VM"):
        pytest.skip("a cluster takes minutes; TRACKBED_VM=1 asks for it")
    shape = Shape(servers=2, rails=1, memory=2048)
    lacking = [f"{one.name}: {one.seen}; {one.todo}" for one in doctor.look(2 * shape.memory) if not one.ok]
    if lacking:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no emulated servers here: {'; '.join(lacking)}")
    found = parts.parts(print)
    known = Shape(2, 1, 2048, accelerator=accelerator.choose(found).accelerator)
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield cluster.up(folder, found, known, print)
    finally:
        cluster.down(folder)


@pytest.fixture(scope="module")
def client(here: cluster.Cluster) -> Iterator[Client]:
    with connect(str(here.kubeconfig)) as one:
        yield one


def start(client: Client, name: str, node: str | None = None, **container: object) -> None:
    main = {"name": "main", "image": cluster.TOOLS, "imagePullPolicy": "Never", **container}
    spec = {"containers": [main], **({"nodeName": node} if node else {})}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec})


def address(client: Client, name: str, restarts: int = 0) -> str:
    """A pod's address once it runs, with so many restarts."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        status = client.get("v1", "Pod", name, "default").get("status", {})
        states = status.get("containerStatuses") or [{}]
        if "running" in states[0].get("state", {}) and states[0]["restartCount"] >= restarts:
            return str(status["podIP"])
        time.sleep(0.5)
    pytest.fail(f"{name} does not run: {status}")


def said(here: cluster.Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    folder = here.kubeconfig.parent
    argv = [sys.executable, "-m", "trackbed", "lab", "kubernetes", words[0], "--dir", str(folder), *words[1:]]
    return subprocess.run(argv, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_pods_reach_one_another_across_nodes_as_an_unprivileged_user(here: cluster.Cluster, client: Client) -> None:
    start(client, "near", "node-0", command=["sh", "-c", "id -u; exec sleep infinity"])
    start(client, "far", "node-1")
    address(client, "near")
    done = said(here, "exec", "near", "--", "ping", "-c", "2", "-w", "20", address(client, "far"))
    assert (done.returncode, "2 received" in done.stdout) == (0, True), done
    assert said(here, "logs", "near").stdout == "1000\n"


def test_a_pod_that_asks_for_what_no_node_has_waits_with_the_reason(here: cluster.Cluster, client: Client) -> None:
    start(client, "greedy", resources={"limits": {"trackbed.dev/rail0": 1}})
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and "Insufficient" not in (done := said(here, "exec", "greedy", "true")).stderr:
        time.sleep(0.5)
    assert done.returncode == 2
    assert "it is Pending (0/2 nodes are available: 2 Insufficient trackbed.dev/rail0." in done.stderr


def test_a_pod_runs_again_after_a_power_cut(here: cluster.Cluster, client: Client) -> None:
    start(client, "tough", "node-0")
    address(client, "tough")
    keeper.cut_power(Path(here.servers.folder) / "node-0")
    assert address(client, "tough", restarts=1).startswith("10.244.0.")
    assert said(here, "exec", "tough", "true").returncode == 0
