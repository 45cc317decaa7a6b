"""A real cluster: emulated servers with kubelet and containerd under a real control plane."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes import cluster
from trackbed_lab.kubernetes.blocking import BlockingClient, connect
from trackbed_lab.vm.channel import execute_command
from trackbed_lab.vm.machine import LabShape, locate_shared_folder

from tests.lab import servers
from tests.lab.power import cut_power
from trackbed.fabric.plan.node_document import encode_node

pytestmark = [
    pytest.mark.slow,
    pytest.mark.nightly("a cluster takes minutes"),
    pytest.mark.timeout(7000),
]

SECONDS = 180.0
FABRIC = """\
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: cluster}
spec:
  nodes: [{hosts: "node-[0-1]", ports: [{pci: "0000:11:00.0"}, {pci: "0000:81:00.0"}]}]
  rails: 2
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
  pods: {mode: macvlan}
  otherRanges: {docker: []}
"""
RAILS = {"limits": {"trackbed.dev/rail0": 1, "trackbed.dev/rail1": 1}}
_CONFLIST = "/etc/cni/net.d/10-lab.conflist"


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cluster.Cluster]:
    wanted = servers.wanted(LabShape(servers=2, rails=2, memory=2048))
    folder = tmp_path_factory.mktemp("cluster")
    try:
        yield cluster.start_ready_cluster(folder, cluster.ClusterSpec(wanted.parts, wanted.shape), print)
    finally:
        cluster.stop_cluster(folder)


@pytest.fixture(scope="module")
def client(here: cluster.Cluster) -> Iterator[BlockingClient]:
    with connect(str(here.kubeconfig)) as client:
        yield client


@pytest.fixture(scope="module")
def agents(here: cluster.Cluster, client: BlockingClient) -> dict[str, int]:
    """On each node the plan applied and an agent; how many devices of rail 0 the kubelet then has."""
    fabric = servers.place(here.servers, FABRIC, "fabric.yaml")
    for node in servers.planned(FABRIC).nodes:
        (locate_shared_folder(Path(here.servers.folder), node.name) / "node.json").write_bytes(encode_node(node))
    servers.both(here.servers, lambda node: servers.answer(here.servers, node, "apply", "-f", fabric, "--yes"))
    servers.both(here.servers, lambda node: begin(here, node))
    return {name: offered(client, name) for name in here.servers.shape.list_servers()}


def begin(here: cluster.Cluster, node: str) -> None:
    """Start the agent, then have the runtime call it."""
    agent = f"{sys.executable} -m trackbed agent run --plan /run/own/node.json --kubelet /var/lib/kubelet"
    script = f"systemd-run -q --unit=trackbed-agent {agent}; mkdir -p /opt/cni/bin; "
    script += f"{sys.executable} -m trackbed agent install-cni /opt/cni/bin --chain {_CONFLIST}"
    done = execute_command(here.servers.find_server(node).channel, ["sh", "-c", script], SECONDS)
    assert done.status == 0, done


def offered(client: BlockingClient, node: str, least: int = 1) -> int:
    """How many pods more of rail 0 a node's kubelet lets in, once that is at least so many."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        allocatable = client.get("v1", "Node", node)["status"]["allocatable"]
        if (count := int(allocatable.get("trackbed.dev/rail0", 0))) >= least:
            return count
        time.sleep(0.5)
    pytest.fail(f"{node} offers no rails: {allocatable}")


def start(client: BlockingClient, name: str, node: str | None = None, **container: object) -> None:
    """Create a pod, which the scheduler puts on a node."""
    main = {"name": "main", "image": cluster.TOOLS_IMAGE, "imagePullPolicy": "Never", **container}
    spec = {"containers": [main], **({"nodeSelector": {"kubernetes.io/hostname": node}} if node else {})}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec})


def address(client: BlockingClient, name: str, restarts: int = 0) -> str:
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


def test_pods_reach_one_another_across_nodes_as_an_unprivileged_user(
    here: cluster.Cluster, client: BlockingClient
) -> None:
    start(client, "near", "node-0", command=["sh", "-c", "id -u; exec sleep infinity"])
    start(client, "far", "node-1")
    address(client, "near")
    done = said(here, "exec", "near", "--", "ping", "-c", "2", "-w", "20", address(client, "far"))
    assert (done.returncode, "2 received" in done.stdout) == (0, True), done
    assert said(here, "logs", "near").stdout == "1000\n"


def test_a_pod_that_asks_for_what_no_node_has_waits_with_the_reason(
    here: cluster.Cluster, client: BlockingClient
) -> None:
    start(client, "greedy", resources={"limits": {"trackbed.dev/rail0": 1}})
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline and "Insufficient" not in (done := said(here, "exec", "greedy", "true")).stderr:
        time.sleep(0.5)
    assert done.returncode == 2
    assert "it is Pending (0/2 nodes are available: 2 Insufficient trackbed.dev/rail0." in done.stderr


def test_a_pod_runs_again_after_a_power_cut(here: cluster.Cluster, client: BlockingClient) -> None:
    start(client, "tough", "node-0")
    address(client, "tough")
    cut_power(Path(here.servers.folder) / "node-0")
    assert address(client, "tough", restarts=1).startswith("10.244.0.")
    assert said(here, "exec", "tough", "true").returncode == 0


@pytest.mark.support("runtime", "containerd 2", "ran", "emulated servers: pods with rails, traffic over them")
def test_pods_get_the_rails_that_they_ask_for_and_reach_one_another_over_them(
    here: cluster.Cluster, client: BlockingClient, agents: dict[str, int]
) -> None:
    assert set(agents.values()) == {servers.planned(FABRIC).nodes[0].ports[0].addresses[0].pods_count}
    start(client, "left", "node-0", resources=RAILS)
    start(client, "right", "node-1", resources=RAILS)
    start(client, "plain", "node-0")
    for name in ("left", "right", "plain"):
        address(client, name)
    over = [f"10.{64 + rail}." for rail in (0, 1)]
    for rail, own_address in enumerate(rails_of(here, "right")):
        done = said(here, "exec", "left", "--", "ping", "-c", "2", "-w", "30", "-I", f"rail{rail}", own_address)
        assert (done.returncode, "2 received" in done.stdout) == (0, True), done
        assert own_address.startswith(over[rail])
    assert rails_of(here, "plain") == []


def rails_of(here: cluster.Cluster, pod: str) -> list[str]:
    """The addresses of a pod's rails, in their order."""
    done = said(here, "exec", pod, "--", "ip", "-br", "-4", "address")
    lines = [line.split() for line in done.stdout.splitlines()]
    return [words[2].partition("/")[0] for words in sorted(lines) if words[0].startswith("rail")]
