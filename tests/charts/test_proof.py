"""The chart's CronJob of a proof: its account may do what its command does, and no more is needed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.charts.chart import NAMESPACE, only, rendered
from tests.charts.cluster import Site
from tests.cluster.proof.kubelets import run_kubelets
from tests.kinds import installed
from trackbed.cluster.proof.job import POD_RULES
from trackbed.cluster.resources.railnode import API_VERSION, KIND, UNPROVED_TAINT

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ip")

JOBS = "chart-jobs"
FABRIC = {"apiVersion": API_VERSION, "kind": "Fabric", "metadata": {"name": "chart-proof"}}
SPEC: dict[str, Any] = {
    "nodes": [{"hosts": "proof[1-2]"}],
    "rails": 2,
    "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/15"},
    "kubernetes": {"stack": "network-operator-macvlan"},
}
VALUES = {"proof": {"enabled": True, "fabric": "chart-proof", "image": "x", "namespace": JOBS, "taint": True}}


def name_railnode(number: int) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": f"proof{number}"}}


def name_node(number: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"proof{number}"}}


@pytest.fixture
def site(api_server: Path, helm: str, tmp_path: Path) -> Iterator[Site]:
    with connect(str(api_server)) as client:
        installed(client)
        for namespace in (NAMESPACE, JOBS):
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        client.apply({**FABRIC, "spec": SPEC})
        for number in (1, 2):
            client.apply({**name_railnode(number), "spec": {"fabric": "chart-proof", "slot": number}})
            client.apply(name_node(number))
        with run_kubelets(client, api_server, tmp_path, JOBS, ("10.64.0", "10.65.0")):
            yield Site(client, api_server, helm, tmp_path)
        for body in (FABRIC, *(name(number) for number in (1, 2) for name in (name_railnode, name_node))):
            client.delete(body)


def apply_account(site: Site) -> list[str]:
    """Create the account of the CronJob with its roles; return the words of its container."""
    objects = rendered(site.helm, VALUES)
    for body in objects:
        if body["metadata"]["name"].startswith("trackbed-proof") and body["kind"] != "CronJob":
            site.client.apply(body)
    pod = only(objects, "CronJob", "trackbed-proof")["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    return list(pod["containers"][0]["command"])


def read_proved(client: BlockingClient, number: int) -> tuple[str, str]:
    conditions = client.get(API_VERSION, KIND, f"proof{number}")["status"]["conditions"]
    return next((item["status"], item["message"]) for item in conditions if item["type"] == "Proved")


def test_its_account_may_do_in_the_namespace_of_pods_what_that_of_a_proof_job_may(helm: str) -> None:
    assert only(rendered(helm, VALUES), "Role", "trackbed-proof")["rules"] == POD_RULES


def test_its_account_proves_idle_nodes_and_records_what_it_finds(site: Site) -> None:
    program, *words = apply_account(site)
    argv = [sys.executable, "-m", program, *words, f"--kubeconfig={site.account('trackbed-proof')}"]
    done = subprocess.run(argv, cwd=site.folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr  # pods have no RDMA device here
    assert "recorded: Proved is False on proof[1-2]" in done.stderr
    assert "orbidden" not in done.stdout + done.stderr
    for number in (1, 2):
        status, message = read_proved(site.client, number)
        assert status == "False"
        assert "no RDMA device in its pod has a GID of 10.6" in message
    taints = site.client.get("v1", "Node", "proof1")["spec"]["taints"]
    assert {"key": UNPROVED_TAINT, "effect": "NoSchedule"} in taints
