"""What is left after `helm uninstall`: nothing, or what shall stay. The hook's Job is played: there is no kubelet."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner
from trackbed_lab.kubernetes.agents import Agents
from trackbed_lab.ports import hold_ports

from tests.charts.chart import NAMESPACE, RELEASE
from tests.charts.cluster import Key, Site, fabric, node, running, simulated, stage, uninstalled
from trackbed.cli.main import cli
from trackbed.cluster.api import client as api_client
from trackbed.cluster.api.response import Object
from trackbed.cluster.resources.railnode import API_VERSION, TAINT, UNPROVED_TAINT

pytestmark = pytest.mark.slow

CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
ADMISSION = "admissionregistration.k8s.io/v1"


@contextmanager
def at_work(site: Site, values: dict[str, Any]) -> Iterator[None]:
    """The chart installed and its programs at work: one node is sound, one has failed and takes no pods."""
    with hold_ports(1) as (port,):
        url = f"https://127.0.0.1:{port}"
    site.install({"webhook": {"url": url, "port": port}, **values})
    controller = site.command("Deployment", "trackbed-controller")
    webhook = site.command("Deployment", "trackbed-webhook", listen=f"127.0.0.1:{port}")
    with (
        running(controller, site.folder / "controller", forbidden=True),
        running(webhook, site.folder / "webhook", forbidden=True),
        simulated(site, Agents(fails=lambda name: name == "gpu-1")),
    ):
        site.until(lambda: site.client.find(ADMISSION, CONFIGURATIONS[1], "trackbed"), "the webhook is known")
        fabric(site, "gpu-[0-1]")
        site.until(lambda: (stage(site, "gpu-0"), stage(site, "gpu-1")) == ("Sound", "Failed"), "a node has failed")
        assert TAINT in taints(site, "gpu-1")
        yield


def helm_uninstalls(site: Site) -> None:
    """Have helm uninstall the release, and be the pods of its Jobs, and the agents that leave their nodes."""
    with ThreadPoolExecutor(1) as pool:
        helm = pool.submit(site.helmed, "uninstall", RELEASE, "--timeout", "2m")
        agents_leave(site)
        pod_of(site, "trackbed-uninstall")
        complete(site, "trackbed-uninstall")
        helm.result(120)


def agents_leave(site: Site) -> None:
    """Be the pod that has them leave, and the agents of two nodes."""
    observed = {"observedGeneration": 99, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberReady": 2}
    status = {**observed, "currentNumberScheduled": 2, "numberMisscheduled": 0}
    site.merged(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/trackbed-agent/status", {"status": status})
    pod_of(site, "trackbed-leave")
    pod = site.client.get("apps/v1", "DaemonSet", "trackbed-agent", NAMESPACE)["spec"]["template"]["spec"]
    assert [container["name"] for container in pod["initContainers"]] == ["leave"]
    complete(site, "trackbed-leave")


def pod_of(site: Site, job: str) -> None:
    """Do what the pod of a Job does, by its account."""
    site.until(lambda: site.client.find("batch/v1", "Job", job, NAMESPACE), f"helm makes Job {job}")
    done = subprocess.run(site.command("Job", job), capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr


def complete(site: Site, job: str) -> None:
    """Say of a Job what its controller would."""
    at = "2026-01-01T00:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": at, "lastProbeTime": at}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"startTime": at, "completionTime": at, "succeeded": 1, "conditions": conditions}
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/{job}/status"
    site.merged(path, {"status": {**status, "uncountedTerminatedPods": {}}})


def nodes(bodies: dict[Key, Object]) -> list[tuple[str, Any, Any]]:
    """What was done to nodes."""
    every = [body for key, body in bodies.items() if key[1] == "Node"]
    return [(body["metadata"]["name"], body["metadata"].get("annotations"), body["spec"]) for body in every]


def taints(site: Site, name: str) -> set[str]:
    return {taint["key"] for taint in site.client.get("v1", "Node", name)["spec"].get("taints", ())}


def test_helm_uninstall_leaves_nothing(site: Site) -> None:
    for name in ("gpu-0", "gpu-1"):
        node(site, name)
    before = site.everything()
    with at_work(site, {}):
        helm_uninstalls(site)
    after = site.everything()
    assert after.keys() == before.keys()
    assert nodes(after) == nodes(before)


def test_locks_stay_where_they_shall(site: Site) -> None:
    for name in ("gpu-0", "gpu-1"):
        node(site, name)
    before = site.everything()
    with at_work(site, {"uninstall": {"keepLocks": True}}):
        helm_uninstalls(site)
    left = site.everything().keys() - before.keys()
    assert left == {("v1", "ConfigMap", NAMESPACE, "trackbed-lock-train")}
    site.client.delete(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trackbed-lock-train", "namespace": NAMESPACE}}
    )


def test_fabrics_stay_where_their_kinds_shall_and_nodes_are_freed(site: Site) -> None:
    for name in ("gpu-0", "gpu-1"):
        node(site, name)
    with at_work(site, {"crds": {"keep": True}}):
        helm_uninstalls(site)
    assert site.client.get(API_VERSION, "Fabric", "train")
    assert list(site.client.list(API_VERSION, "RailNode")) == []
    assert TAINT not in taints(site, "gpu-1")
    site.install({"crds": {"keep": True}})
    assert site.client.get(API_VERSION, "Fabric", "train")


def test_agents_that_an_upgrade_drops_leave_their_nodes_first(site: Site) -> None:
    site.install()
    with ThreadPoolExecutor(1) as pool:
        helm = pool.submit(site.install, {"agent": {"enabled": False}})
        agents_leave(site)
        helm.result(120)
    assert site.client.find("apps/v1", "DaemonSet", "trackbed-agent", NAMESPACE) is None
    site.install({"agent": {"enabled": False}})  # nobody is left to leave


def test_it_refuses_while_the_programs_are_installed(site: Site) -> None:
    site.install()
    fabric(site, "gpu-0")
    done = CliRunner().invoke(cli, ["uninstall", "--kubeconfig", str(site.kubeconfig)])
    assert done.exit_code == 2
    assert "Deployment trackbed-controller in trackbed-system would recreate everything" in done.stderr
    assert site.client.get(API_VERSION, "Fabric", "train")


def test_doing_it_twice_is_fine(site: Site) -> None:
    site.install()
    site.helmed("uninstall", RELEASE, "--no-hooks")
    assert set(uninstalled(site)) >= {"deleted customresourcedefinitions/fabrics.trackbed.dev"}
    definition = ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "fabrics.trackbed.dev")
    site.until(lambda: site.client.find(*definition) is None, "the server has taken the kind away")
    assert uninstalled(site) == []


def test_a_cordon_and_a_taint_of_others_stay(site: Site) -> None:
    node(site, "gpu-0")
    mixed = [{"key": key, "effect": "NoSchedule"} for key in ("site/broken", TAINT, UNPROVED_TAINT)]
    site.merged("/api/v1/nodes/gpu-0", {"spec": {"unschedulable": True, "taints": mixed}})
    uninstalled(site)
    assert taints(site, "gpu-0") == {"site/broken"}
    assert site.client.get("v1", "Node", "gpu-0")["spec"]["unschedulable"]


def test_nodes_of_all_pages_are_freed(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_client, "PAGE_SIZE", 2)
    names = [f"gpu-{number}" for number in range(5)]
    for name in names:
        node(site, name)
        site.merged(f"/api/v1/nodes/{name}", {"spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]}})
    uninstalled(site)
    assert [name for name in names if TAINT in taints(site, name)] == []
