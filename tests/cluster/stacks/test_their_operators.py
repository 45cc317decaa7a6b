"""Real operators, with the environment that their charts give them: what they make of a stack's objects.

TRACKBED_PROGRAMS/bin has the programs of other projects; without it these tests are skipped. No kubelet runs, so
no pod does: what the operators write is read.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.stacks.chart_fabrics import compute_case
from tests.cluster.stacks.chart_site import NETWORK_OPERATOR, Site, load_operators_crds, run_site
from tests.cluster.stacks.their_charts import list_releases
from trackbed.cluster.api.response import Object
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.ib_kubernetes import UFM_SECRET
from trackbed.cluster.stacks.stack import iter_objects

pytestmark = [
    pytest.mark.may_skip("programs of other projects are no part of this one (TRACKBED_PROGRAMS)"),
    pytest.mark.slow,
]

NAMESPACE = "nvidia-network-operator"
NETWORK = "k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"
RESOURCE = "k8s.v1.cni.cncf.io/resourceName"
SECONDS = 90.0


@dataclass(frozen=True)
class Operator:
    """A program, and what it is started with."""

    program: str
    component: str
    deployment: str
    namespace: str
    options: tuple[str, ...] = ()
    folder: str = "STATE_MANIFEST_BASE_DIR"
    """Environment variable of the folder of its manifests; without one it reads folder bindata of where it stands."""


NVIDIA = Operator(
    "network-operator-26.4.1",
    NETWORK_OPERATOR,
    "network-operator",
    NAMESPACE,
    ("--metrics-bind-address=0", "--health-probe-bind-address=0"),
)
SRIOV = Operator(
    "sriov-network-operator", "sriov-network-operator", "sriov-network-operator", "sriov-network-operator", folder=""
)


@pytest.fixture(scope="module")
def programs() -> Path:
    folder = os.environ.get("TRACKBED_PROGRAMS")
    if folder is None:
        pytest.skip("needs the programs of other projects: TRACKBED_PROGRAMS names their folder")
    return Path(folder) / "bin"


@pytest.fixture(scope="module")
def bare_site(tmp_path_factory: pytest.TempPathFactory, helm: str, programs: Path) -> Iterator[Site]:
    assert programs.is_dir()
    with run_site(tmp_path_factory, helm) as bare:
        yield bare


@pytest.fixture
def site(bare_site: Site) -> Iterator[Site]:
    yield bare_site
    bare_site.clean()


@contextmanager
def run_operator(site: Site, programs: Path, stack: str, feature: str, operator: Operator = NVIDIA) -> Iterator[None]:
    """Install a stack's charts, apply its objects, and run an operator with its chart's environment.

    At the end the operator takes its finalizers from the objects.
    """
    releases = list_releases(stack, feature)
    assert [problem for release in releases for problem in site.install(release)] == []
    load_operators_crds(site, stack, {release.component for release in releases})
    (release,) = (release for release in releases if release.component == operator.component)
    manifests = site.charts.locate_manifests(operator.component)
    environment = read_environment(site.charts.render(release), operator) | {"KUBECONFIG": str(site.kubeconfig)}
    environment |= {operator.folder: str(manifests)} if operator.folder else {}
    argv = [str(programs / operator.program), *operator.options]
    quiet = subprocess.DEVNULL
    objects = list(iter_objects(load_stack(stack), compute_case(stack, feature)))
    for manifest in objects:
        site.client.apply(manifest, force=True)
    with subprocess.Popen(argv, env=environment, cwd=manifests.parent, stdout=quiet, stderr=quiet) as process:
        try:
            yield
            delete_objects(site, objects)
        finally:
            process.kill()


def delete_objects(site: Site, objects: list[Object]) -> None:
    """Delete objects and wait until they are gone."""
    deadline = time.monotonic() + SECONDS
    for body in reversed(objects):
        site.client.delete(body)
        key = body["apiVersion"], body["kind"], body["metadata"]["name"], body["metadata"].get("namespace")
        while site.client.find(*key):
            assert time.monotonic() < deadline, f"{key} stays"
            time.sleep(0.2)


def read_environment(objects: list[Object], operator: Operator) -> dict[str, str]:
    """Return the environment of the operator's container; what the kubelet would fill in is its namespace."""
    (deployment,) = (
        body for body in objects if (body["kind"], body["metadata"]["name"]) == ("Deployment", operator.deployment)
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    return {
        item["name"]: operator.namespace if "valueFrom" in item else item.get("value") or ""
        for item in container["env"]
    }


def wait_for_object(site: Site, api: str, kind: str, name: str, namespace: str = NAMESPACE) -> Any:
    deadline = time.monotonic() + SECONDS
    while (body := site.client.find(api, kind, name, namespace)) is None:
        assert time.monotonic() < deadline, f"the operator made no {kind} {name} in {SECONDS:.0f} s"
        time.sleep(0.5)
    return body


def list_resources(config: Any, key: str) -> list[str]:
    return [f"{item['resourcePrefix']}/{item['resourceName']}" for item in json.loads(config)[key]]


def test_host_devices(site: Site, programs: Path) -> None:
    stack, feature = "network-operator-hostdevice", "shared RDMA"
    resources = [name for name, _ in load_stack(stack).access(compute_case(stack, feature)).resources]
    with run_operator(site, programs, stack, feature):
        networks = [wait_for_object(site, *NETWORK, name, "default") for name in ("rail0", "rail1")]
        assert [network["metadata"]["annotations"][RESOURCE] for network in networks] == resources
        config = json.loads(networks[1]["spec"]["config"])
        assert (config["type"], config["ipam"]["poolName"]) == ("host-device", "rail1")
        listing = wait_for_object(site, "v1", "ConfigMap", "network-operator-sriovdp-config")
        assert list_resources(listing["data"]["config.json"], "resourceList") == resources
        check_pods(wait_for_object(site, "apps/v1", "DaemonSet", "network-operator-sriov-device-plugin"))
        arguments = check_pods(wait_for_object(site, "apps/v1", "DaemonSet", "nv-ipam-node"))
        assert "--ippools-namespace=$(IPPOOLS_NAMESPACE)" in arguments
        arguments = check_pods(wait_for_object(site, "apps/v1", "DaemonSet", "kube-multus-ds"))
        assert "--cni-bin-dir=/host/opt/cni/bin" in arguments


def check_pods(daemon: Object) -> list[str]:
    """Check that pods run on the Fabric's nodes, with images of the release; return the last container's arguments."""
    pod = daemon["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [{"key": "trackbed.dev/fabric", "operator": "In", "values": ["train"]}]}]
    assert all(container["image"].endswith(":network-operator-v26.4.1") for container in pod["containers"])
    arguments: list[str] = pod["containers"][-1].get("args", [])
    return arguments


def test_macvlan(site: Site, programs: Path) -> None:
    stack, feature = "network-operator-macvlan", "NV-IPAM"
    resources = [name for name, _ in load_stack(stack).access(compute_case(stack, feature)).resources]
    with run_operator(site, programs, stack, feature):
        listing = wait_for_object(site, "v1", "ConfigMap", "rdma-devices")
        assert list_resources(listing["data"]["config.json"], "configList") == resources
        check_pods(wait_for_object(site, "apps/v1", "DaemonSet", "rdma-shared-dp-ds"))
        deadline = time.monotonic() + SECONDS
        while (config := read_config(site, "rail1"))["type"] != "macvlan":
            assert time.monotonic() < deadline, config
            time.sleep(0.5)
        assert (config["master"], config["mtu"], config["ipam"]) == (
            "rail1",
            9000,
            {"type": "nv-ipam", "poolName": "rail1"},
        )


def read_config(site: Site, name: str) -> Any:
    return json.loads(wait_for_object(site, *NETWORK, name, "default")["spec"]["config"])


def test_infiniband_partitions(site: Site, programs: Path) -> None:
    with run_operator(site, programs, "network-operator-ib-sriov", "no addresses, a partition"):
        deployment = wait_for_object(site, "apps/v1", "Deployment", "ib-kubernetes")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        variables = {item["name"]: item.get("value") for item in container["env"]}
        assert variables["GUID_POOL_RANGE_START"] == "02:00:00:00:00:00:00:00"
        assert variables["GUID_POOL_RANGE_END"] == "02:FF:FF:FF:FF:FF:FF:FF"
        sources = [item["valueFrom"] for item in container["env"] if item["name"].startswith("UFM")]
        assert {source["secretKeyRef"]["name"] for source in sources} == {UFM_SECRET}


@pytest.mark.parametrize(("feature", "prefix"), [("NV-IPAM", "openshift.io"), ("own resource prefix", "example.com")])
def test_vfs(site: Site, programs: Path, feature: str, prefix: str) -> None:
    labels = {"trackbed.dev/fabric": "train", "kubernetes.io/os": "linux"}
    node: Object = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-0", "labels": labels}}
    site.client.apply(node, force=True)
    with run_operator(site, programs, "sriov-operator", feature, SRIOV):
        network = wait_for_object(site, *NETWORK, "rail1", "default")
        assert network["metadata"]["annotations"][RESOURCE] == f"{prefix}/rail1"
        plugins = json.loads(network["spec"]["config"])["plugins"]
        assert [plugin["type"] for plugin in plugins] == ["sriov", "rdma", "tuning", "sbr"]
        assert plugins[0]["ipam"] == {"type": "nv-ipam", "poolName": "rail1"}
        daemon = wait_for_object(site, "apps/v1", "DaemonSet", "sriov-device-plugin", SRIOV.namespace)
        pod = daemon["spec"]["template"]["spec"]
        assert pod["nodeSelector"].items() >= {("trackbed.dev/fabric", "train")}
        assert f"--resource-prefix={prefix}" in pod["containers"][0]["args"]
    site.client.delete(node)
