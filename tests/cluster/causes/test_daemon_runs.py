"""What NV-IPAM's and Spiderpool's own daemons answer is named: each pod here fails for one reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes import control_plane, crds
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.api_server import crds_folder
from tests.cluster.causes.daemons import NODE, POOLS, Daemon, run_nv_ipam, run_spiderpool
from tests.cluster.causes.plugin_runs import find_plugin
from trackbed.cluster.causes.catalogue import diagnose
from trackbed.cluster.causes.refine import refine
from trackbed.cluster.causes.reports import UNKNOWN, Report
from trackbed.cluster.causes.waiting import list_waiting_pods

pytestmark = [
    pytest.mark.needs("root", "ip", "unshare", "nsenter"),
    pytest.mark.may_skip("other stacks' programs are not part of the project (TRACKBED_PROGRAMS)"),
]
NETWORKS = "k8s.v1.cni.cncf.io/networks"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, control_plane_programs: Path) -> Iterator[Path]:
    find_plugin("ipam-node")
    programs, folder = control_plane_programs, tmp_path_factory.mktemp("server")
    with (
        control_plane.run_control_plane(folder, programs, controllers=False) as kubeconfig,
        connect(str(kubeconfig)) as client,
    ):
        for name in ("nv-ipam", "spiderpool"):
            crds.load_crds(client, crds_folder() / name)
        client.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}})
        client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": POOLS}})
        for name in (NODE, "gpu-1"):
            client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"rack": name}}})
        yield kubeconfig


@pytest.fixture(scope="module")
def client(server: Path) -> Iterator[BlockingClient]:
    with connect(str(server)) as blocking_client:
        yield blocking_client


def pool(client: BlockingClient, kind: str, name: str, **spec: Any) -> None:
    head = {"apiVersion": "nv-ipam.nvidia.com/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": POOLS}}
    client.create({**head, "spec": spec})


def select(rack: str) -> dict[str, Any]:
    expression = {"key": "rack", "operator": "In", "values": [rack]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


@pytest.fixture(scope="module")
def nv_ipam(server: Path, client: BlockingClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    pool(client, "IPPool", "used-up", subnet="10.0.0.0/24", perNodeBlockSize=2, gateway="10.0.0.1")
    pool(client, "IPPool", "elsewhere", subnet="10.0.1.0/24", perNodeBlockSize=4, nodeSelector=select("gpu-1"))
    pool(client, "CIDRPool", "one-block", cidr="10.1.0.0/24", perNodeNetworkPrefix=24, gatewayIndex=1)
    folder = tmp_path_factory.mktemp("nv-ipam")
    with run_nv_ipam(server, folder) as daemon:
        wait_for(client, "CIDRPool", "one-block")
        assert attach_nv_ipam(daemon, "first", "used-up") == ""
        yield daemon


def wait_for(client: BlockingClient, kind: str, name: str) -> None:
    """Wait until the controller has given the pool's blocks to nodes."""
    deadline = datetime.now(UTC).timestamp() + 30
    while datetime.now(UTC).timestamp() < deadline:
        status = client.get("nv-ipam.nvidia.com/v1alpha1", kind, name, POOLS).get("status") or {}
        if status.get("allocations"):
            return
    pytest.fail(f"{kind} {name} has no block")


def attach_nv_ipam(daemon: Daemon, pod: str, pool_name: str, kind: str = "ippool") -> str:
    folder = daemon.folder
    ipam = {"type": "nv-ipam", "poolName": pool_name, "poolType": kind, "logFile": str(folder / "cni.log")}
    ipam |= {"confDir": str(folder / "conf"), "daemonSocket": f"unix://{folder}/daemon.sock"}
    message = ""
    for _ in range(50):  # the daemon reads pools and the node's blocks in its own time
        message = daemon.add("nv-ipam", {"type": "macvlan", "ipam": ipam}, {"name": pod, "uid": pod})
        if "not found" not in message or pod != "first":
            break
    return message


@pytest.mark.parametrize(
    ("pod", "pool_name", "kind", "cause"),
    [
        pytest.param("second", "used-up", "ippool", "nv-ipam-pool-used-up", id="used up"),
        pytest.param("first", "used-up", "ippool", "nv-ipam-address-reserved", id="twice"),
        pytest.param("other", "elsewhere", "ippool", "nv-ipam-pool-not-on-node", id="of other nodes"),
        pytest.param("other", "nothing", "ippool", "nv-ipam-pool-not-on-node", id="missing"),
        pytest.param("other", "used-up", "cidrpool", "nv-ipam-pool-not-on-node", id="of the other kind"),
        pytest.param("other", "used-up", "pool", "nv-ipam-pool-kind-unknown", id="of no kind"),
    ],
)
def test_nv_ipam(nv_ipam: Daemon, pod: str, pool_name: str, kind: str, cause: str) -> None:
    message = attach_nv_ipam(nv_ipam, pod, pool_name, kind)
    named = diagnose(f'error adding container to network "rail0": {message}')
    assert (named.id if named else message) == cause, message


@pytest.mark.usefixtures("nv_ipam")
def test_a_node_without_a_block_is_named_before_a_pod_needs_it(client: BlockingClient) -> None:
    groups = client.run(list_waiting_pods(client.dynamic, datetime.now(UTC)))
    assert [(group.id, group.first) for group in groups] == [
        ("nv-ipam-no-block-for-node", f"CIDRPool {POOLS}/one-block")
    ]


@pytest.mark.parametrize(
    ("pool_name", "kind", "cause"),
    [
        pytest.param("elsewhere", "ippool", "nv-ipam-pool-not-on-node", id="of other nodes"),
        pytest.param("nothing", "ippool", "nv-ipam-pool-missing", id="missing"),
        pytest.param("used-up", "cidrpool", "nv-ipam-pool-of-other-kind", id="of the other kind"),
    ],
)
def test_why_a_pool_gives_no_address_is_read_from_the_pools(
    nv_ipam: Daemon, client: BlockingClient, pool_name: str, kind: str, cause: str
) -> None:
    message = attach_nv_ipam(nv_ipam, "other", pool_name, kind)
    report = Report("default/other", NODE, message, diagnose(message) or UNKNOWN)
    (refined,) = client.run(refine(client.dynamic, [report]))
    assert refined.diagnosis.id == cause
    assert "<" not in refined.diagnosis.title


SPIDER_POOLS: dict[str, dict[str, Any]] = {
    "sound": {"ips": ["10.6.0.10"]},
    "empty": {"ips": []},
    "off": {"ips": ["10.6.0.20"], "disable": True},
    "elsewhere": {"ips": ["10.6.0.30"], "nodeName": ["gpu-1"]},
    "rack": {"ips": ["10.6.0.40"], "nodeAffinity": {"matchLabels": {"rack": "gpu-1"}}},
    "space": {"ips": ["10.6.0.50"], "namespaceName": ["other"]},
    "labels": {"ips": ["10.6.0.60"], "podAffinity": {"matchLabels": {"x": "y"}}},
    "network": {"ips": ["10.6.0.70"], "multusName": ["kube-system/rail1"]},
}
SPIDERPOOL = {
    "empty": "spiderpool-pools-used-up",
    "off": "spiderpool-pool-disabled",
    "elsewhere": "spiderpool-pool-not-for-node",
    "rack": "spiderpool-pool-not-for-node",
    "space": "spiderpool-pool-not-for-namespace",
    "labels": "spiderpool-pool-not-for-pod",
    "network": "spiderpool-pool-not-for-network",
    "missing": "spiderpool-pool-missing",
}


@pytest.fixture(scope="module")
def spiderpool(server: Path, client: BlockingClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    api = "spiderpool.spidernet.io/v2beta1"
    for name, spec in SPIDER_POOLS.items():
        body = {"apiVersion": api, "kind": "SpiderIPPool", "metadata": {"name": name}}
        client.create(
            {**body, "spec": {"ipVersion": 4, "subnet": "10.6.0.0/16", "default": False, "disable": False, **spec}}
        )
    coordinator = {"apiVersion": api, "kind": "SpiderCoordinator", "metadata": {"name": "default"}}
    client.create({**coordinator, "spec": {"mode": "auto", "podCIDRType": "auto"}})
    status = {"phase": "NotReady", "overlayPodCIDR": [], "serviceCIDR": []}
    client.apply({**coordinator, "status": status}, subresource="/status", force=True)
    with run_spiderpool(server, tmp_path_factory.mktemp("spiderpool")) as daemon:
        yield daemon


def make_pod(client: BlockingClient, name: str, **annotations: str) -> dict[str, str]:
    """A pod of the node with these annotations."""
    spec = {"containers": [{"name": "main", "image": "x"}], "automountServiceAccountToken": False, "nodeName": NODE}
    marks = {NETWORKS: "default/rail0", **{f"ipam.spidernet.io/{key}": text for key, text in annotations.items()}}
    metadata = {"name": name, "namespace": "default", "annotations": marks}
    client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return {"name": name, "uid": client.get("v1", "Pod", name, "default")["metadata"]["uid"]}


def ask_spiderpool(daemon: Daemon, folder: Path, pod: dict[str, str]) -> str:
    ipam = {"type": "spiderpool", "log_file_path": str(folder / "cni.log")}
    return daemon.add("spiderpool", {"type": "macvlan", "ipam": ipam}, pod)


@pytest.mark.parametrize(("pool_name", "cause"), SPIDERPOOL.items())
def test_spiderpool(spiderpool: Daemon, client: BlockingClient, tmp_path: Path, pool_name: str, cause: str) -> None:
    pools = json.dumps([{"interface": "net1", "ipv4": [pool_name]}])
    message = ask_spiderpool(spiderpool, tmp_path, make_pod(client, f"p-{pool_name}", ippools=pools))
    named = diagnose(f'error adding container to network "rail0": {message}')
    assert (named.id if named else message) == cause, message


def test_spiderpool_gives_an_address_of_a_sound_pool(
    spiderpool: Daemon, client: BlockingClient, tmp_path: Path
) -> None:
    pools = json.dumps([{"interface": "net1", "ipv4": ["sound"]}])
    assert ask_spiderpool(spiderpool, tmp_path, make_pod(client, "p-sound", ippools=pools)) == ""


@pytest.mark.parametrize(
    ("annotations", "cause"),
    [
        pytest.param({}, "spiderpool-no-pool-named", id="no pool"),
        pytest.param({"ippool": "{"}, "spiderpool-annotation-invalid", id="no JSON"),
        pytest.param(
            {"ippools": '[{"interface": "net7", "ipv4": ["sound"]}]'},
            "spiderpool-annotation-invalid",
            id="another interface",
        ),
    ],
)
def test_spiderpool_reads_annotations(
    spiderpool: Daemon, client: BlockingClient, tmp_path: Path, annotations: dict[str, str], cause: str
) -> None:
    name = f"a-{len(client.list('v1', 'Pod'))}"
    message = ask_spiderpool(spiderpool, tmp_path, make_pod(client, name, **annotations))
    named = diagnose(message)
    assert (named.id if named else message) == cause, message


def test_spiderpools_coordinator(spiderpool: Daemon, client: BlockingClient, tmp_path: Path) -> None:
    addresses = [{"version": "4", "address": "10.6.0.9/16", "interface": 0}]
    result = {"cniVersion": "0.4.0", "interfaces": [{"name": "net1"}], "ips": addresses}
    config = {
        "type": "coordinator",
        "mode": "auto",
        "prevResult": result,
        "logOptions": {"logFile": str(tmp_path / "log")},
    }
    named = diagnose(spiderpool.add("coordinator", config, make_pod(client, "p-coordinator")))
    assert named
    assert named.id == "spiderpool-coordinator-not-ready"
