"""The chart on a real API server: the programs run as its accounts, and what its roles do not allow they cannot do."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from trackbed_lab.kubernetes import crds
from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.kubernetes.blocking import connect
from trackbed_lab.ports import hold_ports

from tests.api_server import crds_folder, fetched, needs_crds
from tests.charts.chart import CHART, EVERYTHING, NAMESPACE, NOTHING, RELEASE, REPOSITORY, only, rendered
from tests.charts.cluster import Site, fabric, node, progress, running, simulated, stage
from tests.cluster.webhook.live import make_namespace, refusal
from tests.cluster.webhook.values import pod
from trackbed.cluster.api.client import Client
from trackbed.cluster.api.client import connect as follow
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.resources.railnode import API_VERSION, PATH

pytestmark = pytest.mark.slow

RAILNODE = {"apiVersion": API_VERSION, "kind": "RailNode"}


@needs_crds
@pytest.mark.parametrize("values", [{}, EVERYTHING, NOTHING], ids=["default", "everything", "nothing"])
def test_every_object_is_valid(site: Site, values: dict[str, Any]) -> None:
    crds.load_crds(site.client, crds_folder() / "prometheus-operator")
    warnings = {site.client.create(body, dry_run=True).warnings for body in rendered(site.helm, values)}
    assert warnings == {()}


@pytest.mark.parametrize(
    "issuer", [{}, {"name": "site", "kind": "ClusterIssuer", "group": "cert-manager.io"}], ids=["own", "site's"]
)
def test_what_cert_manager_is_asked_for_is_valid(site: Site, issuer: dict[str, str]) -> None:
    [module] = fetched("github.com/cert-manager/cert-manager")
    crds.install_crds(site.client, list(definitions(module / "deploy" / "crds")))
    made = rendered(site.helm, {"certManager": {"enabled": True, "issuerRef": issuer}})
    bodies = [body for body in made if body["apiVersion"] == "cert-manager.io/v1"]
    assert len(bodies) == (1 if issuer else 4)
    assert {site.client.create(body, dry_run=True).warnings for body in bodies} == {()}


def definitions(folder: Path) -> Iterator[dict[str, Any]]:
    """cert-manager's kinds: its files are templates of a chart, but for their labels in comments alone."""
    for path in sorted(folder.glob("crd-*.yaml")):
        for definition in filter(None, yaml.safe_load_all(path.read_text())):
            del definition["metadata"]["labels"]
            yield definition


def test_a_namespace_that_takes_no_privileged_pods_is_told_at_once(site: Site) -> None:
    make_namespace(site.client, "strict", labels={"pod-security.kubernetes.io/enforce": "baseline"})
    image = f"image.repository={REPOSITORY}"
    done = site.tried("install", RELEASE, str(CHART), "--namespace", "strict", "--set", image)
    assert "namespace strict takes no privileged pods (level baseline)" in done.stderr
    assert "kubectl label --overwrite namespace strict pod-security.kubernetes.io/enforce=privileged" in done.stderr


def test_the_notes_say_what_comes_next(site: Site) -> None:
    assert "kubectl label namespace trackbed-system pod-security.kubernetes.io/enforce=privileged" in site.install()
    assert "kubectl apply --server-side -f fabric.yaml" in site.install()


@pytest.mark.parametrize(
    ("kind", "name"),
    [("Deployment", "controller"), ("Deployment", "webhook")],
    ids=str,
)
def test_what_needs_an_api_server_alone_may_run_at_level_restricted(site: Site, kind: str, name: str) -> None:
    make_namespace(site.client, "restricted", labels={"pod-security.kubernetes.io/enforce": "restricted"})
    template = only(rendered(site.helm), kind, f"trackbed-{name}")["spec"]["template"]
    spec = {**template["spec"], "serviceAccountName": "default"}
    metadata = {"name": "p", "namespace": "restricted"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    assert refusal(site.client, made) == ""
    assert "violates PodSecurity" in refusal(site.client, {**made, "spec": {**spec, "hostPID": True}})


def test_the_controllers_account_may_roll_a_fabric_over_two_nodes(site: Site) -> None:
    site.install()
    for name in ("gpu-0", "gpu-1"):
        node(site, name)
    bound_pod(site, "leaves", "gpu-0", account="default")
    fabric(site, "gpu-[0-1]")
    argv = site.command("Deployment", "trackbed-controller")
    with simulated(site, Agents(needs_reboot=lambda name: name == "gpu-1")), running(argv, site.folder / "log"):
        site.until(lambda: progress(site) == "Complete", "both nodes are sound")
    assert site.client.find("v1", "Pod", "leaves", NAMESPACE) is None
    assert site.client.get("v1", "ConfigMap", "trackbed-lock-train", NAMESPACE)
    assert site.client.get("coordination.k8s.io/v1", "Lease", "trackbed-controller", NAMESPACE)
    assert site.client.get("apps/v1", "ControllerRevision", "train-1", NAMESPACE)
    events = site.client.list("events.k8s.io/v1", "Event", "default", fields="regarding.name=gpu-1")
    assert {event["reason"] for event in events} >= {"Preparing", "Rebooting", "Sound"}


def test_the_controllers_account_may_do_all_that_follows(site: Site) -> None:
    site.install()
    for name in ("gpu-0", "gpu-1"):
        node(site, name)
    fabric(site, "gpu-[0-1]")
    argv = site.command("Deployment", "trackbed-controller")
    with simulated(site, Agents()), running(argv, site.folder / "log"):
        for generation in range(1, 8):
            site.until(partial(is_good, site, generation), f"generation {generation} is good")
            fabric(site, "gpu-[0-1]", mtu=9000 - generation)
        revision = ("apps/v1", "ControllerRevision", "train-1", NAMESPACE)
        site.until(lambda: site.client.find(*revision) is None, "the oldest generation is forgotten")
        fabric(site, "gpu-0", rollout={"keepSlotsHours": 0})
        site.until(lambda: stage(site, "gpu-1") == "", "the node that left is forgotten")
        fabric(site, "gpu-[0-1]")
        site.until(lambda: stage(site, "gpu-1") == "Sound", "it comes back")
        site.client.delete({"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": "train"}})
        site.until(lambda: stage(site, "gpu-0") == "", "nodes of a Fabric that is gone are let go of")


def is_good(site: Site, generation: int) -> bool:
    """Whether all nodes were sound with a generation."""
    return bool(site.client.get(API_VERSION, "Fabric", "train").get("status", {}).get("goodGeneration") == generation)


@pytest.mark.parametrize("before", [None, {"ca.crt": ""}], ids=["no Secret", "a Secret of no use"])
def test_the_webhooks_account_may_give_a_pod_its_rails(site: Site, before: dict[str, str] | None) -> None:
    with hold_ports(1) as (port,):
        url = f"https://127.0.0.1:{port}"
    site.install({"webhook": {"url": url, "port": port}})
    fabric(site, "gpu-[0-1]", kubernetes={"stack": "network-operator-macvlan"})
    if before is not None:
        metadata = {"name": "trackbed-webhook-certificates", "namespace": NAMESPACE}
        site.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": before})
    argv = site.command("Deployment", "trackbed-webhook", listen=f"127.0.0.1:{port}")
    asks = pod(annotations={"trackbed.dev/rails": "all"})
    with running(argv, site.folder / "log"):
        site.until(lambda: "rdma/rail1" in given(site, asks), "the pod gets its rails")
        assert "trackbed.dev/rails" in refusal(site.client, pod(annotations={"trackbed.dev/rails": "wrong"}))
    assert site.client.get("v1", "Secret", "trackbed-webhook-certificates", NAMESPACE)["data"]["ca.crt"]


def given(site: Site, body: dict[str, Any]) -> dict[str, str]:
    """Limits of the first container of a pod, as it would be stored."""
    made = site.client.create(body, dry_run=True).body
    return dict(made["spec"]["containers"][0]["resources"]["limits"])


def test_prepare_writes_of_its_own_node_and_of_no_other(site: Site) -> None:
    site.install()
    for name in ("gpu-0", "gpu-1"):
        node(site, name)
        site.client.create({**RAILNODE, "metadata": {"name": name}, "spec": {"fabric": "train", "slot": 0}})
    bound_pod(site, "prepare", "gpu-0", account="trackbed-prepare")
    config = site.account("trackbed-prepare", "prepare")
    argv = [*site.command("DaemonSet", "trackbed-prepare")[:-1], f"--kubeconfig={config}"]
    with running(argv, site.folder / "log", NODE_NAME="gpu-0"):
        site.until(lambda: reason(site, "gpu-0") == "BadPlan", "prepare says what it found")
    assert written(config, "gpu-0") == ""
    assert written(config, "gpu-1") == "this account writes the RailNode of its own node only: that is gpu-0"
    bare = site.account("trackbed-prepare")
    assert written(bare, "gpu-0") == "this account writes the RailNode of its own node only: its token names no node"


def test_prepare_may_not_write_what_a_node_shall_be(site: Site) -> None:
    site.install()
    node(site, "gpu-0")
    site.client.create({**RAILNODE, "metadata": {"name": "gpu-0"}, "spec": {"fabric": "train", "slot": 0}})
    bound_pod(site, "prepare", "gpu-0", account="trackbed-prepare")
    change = {**RAILNODE, "metadata": {"name": "gpu-0"}, "spec": {"mayChange": True}}
    with connect(str(site.account("trackbed-prepare", "prepare"))) as client, pytest.raises(ApiRefusedError) as caught:
        client.apply(change)
    assert caught.value.status == 403


def reason(site: Site, name: str) -> str:
    """What a node's agent says of its host."""
    conditions = site.client.get(API_VERSION, "RailNode", name).get("status", {}).get("conditions", ())
    return next((condition["reason"] for condition in conditions if condition["type"] == "Prepared"), "")


def written(kubeconfig: Path, name: str) -> str:
    """Why the status of a RailNode cannot be written; empty if it can."""
    status = {"observedHash": "x"}

    async def write(live: Client) -> None:
        await live.apply(f"{PATH}/{name}/status", {**RAILNODE, "metadata": {"name": name}, "status": status}, "me")

    async def done() -> None:
        async with follow(str(kubeconfig)) as live:
            await write(live)

    try:
        asyncio.run(done())
    except ApiRefusedError as error:
        return error.message.rpartition("denied request: ")[2]
    return ""


def bound_pod(site: Site, name: str, where: str, account: str) -> None:
    """A running pod on a node, with an account."""
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {
        "nodeName": where,
        "serviceAccountName": account,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "i"}],
        "automountServiceAccountToken": False,
    }
    kind = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    site.client.delete(kind)
    site.client.create({**kind, "spec": spec})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    site.client.apply({**kind, "status": running}, manager="kubelet", subresource="/status")


def test_an_upgrade_brings_new_fields_and_keeps_fabrics(site: Site) -> None:
    site.install(chart=before(site.folder))
    fabric(site, "gpu-0")
    uid = site.client.get(API_VERSION, "Fabric", "train")["metadata"]["uid"]
    assert "observedGeneration" not in fields(site)
    site.install()
    assert "observedGeneration" in fields(site)
    assert site.client.get(API_VERSION, "Fabric", "train")["metadata"]["uid"] == uid


def test_definitions_that_a_release_no_longer_has_stay_with_their_fabrics(site: Site) -> None:
    site.install()
    fabric(site, "gpu-0")
    site.install({"crds": {"enabled": False}})
    assert site.client.get(API_VERSION, "Fabric", "train")


def before(folder: Path) -> Path:
    """The chart as an older version that did not know a field of the Fabric."""
    chart = folder / "older"
    shutil.copytree(CHART, chart)
    metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**metadata, "version": "0.0.9"}))
    definitions = list(yaml.safe_load_all((chart / "files/crds.yaml").read_text()))
    for definition in definitions:
        status = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
        status["properties"].pop("observedGeneration", None)
    (chart / "files/crds.yaml").write_text(yaml.safe_dump_all(definitions, explicit_start=True, sort_keys=False))
    return chart


def fields(site: Site) -> set[str]:
    """What the status of a Fabric can hold."""
    definition = site.client.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", "fabrics.trackbed.dev")
    return set(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"])
