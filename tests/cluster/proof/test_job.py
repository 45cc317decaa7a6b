"""A proof as a Job: a real API server takes its objects, and its account may do what its command does."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.proof.kubelets import run_kubelets
from trackbed.cluster.proof.job import ProofJob, build_proof_job

pytestmark = pytest.mark.needs("root", "nsenter", "unshare", "ip")

SPACE, OWN, NAME = "proof-jobs", "proof-job", "night"
FABRIC = """apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: "gpu[1-2]"}]
  rails: 2
  addressing: {scheme: shared-subnet, ipv4: 10.64.0.0/15}
"""
OBJECTS = build_proof_job(ProofJob(NAME, OWN, SPACE, "x", "network-operator-macvlan", FABRIC))


@pytest.fixture
def client(api_server: Path, tmp_path: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as opened:
        for namespace in (SPACE, OWN):
            opened.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        with run_kubelets(opened, api_server, tmp_path, SPACE, ("10.64.0", "10.65.0")):
            yield opened
        for body in OBJECTS:
            opened.delete(body)


def write_kubeconfig(client: BlockingClient, admin: Path, folder: Path) -> Path:
    """Write a kubeconfig of the Job's account, and return its path."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{OWN}/serviceaccounts/{NAME}/token"
    config = json.loads(admin.read_text())
    config["users"][0]["user"] = {"token": client.run(client.dynamic.client.create(path, request))["status"]["token"]}
    file = folder / "account.kubeconfig"
    file.write_text(json.dumps(config))
    return file


def test_its_account_proves_the_fabric_that_comes_with_it(
    client: BlockingClient, api_server: Path, tmp_path: Path
) -> None:
    assert [client.create(body).warnings for body in OBJECTS] == [()] * len(OBJECTS)
    kept = client.get("v1", "ConfigMap", NAME, OWN)["data"]
    container = client.get("batch/v1", "Job", NAME, OWN)["spec"]["template"]["spec"]["containers"][0]
    mounted = container["volumeMounts"][0]["mountPath"]
    for file, text in kept.items():
        (tmp_path / file).write_text(text)
    program, *words = (word.replace(mounted, str(tmp_path)) for word in container["command"])
    account = write_kubeconfig(client, api_server, tmp_path)
    argv = [sys.executable, "-m", program, *words, f"--kubeconfig={account}"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr  # pods have no RDMA device here
    assert "no RDMA device in its pod has a GID of 10.6" in done.stdout
    assert "orbidden" not in done.stdout + done.stderr


def test_users_of_the_namespace_of_pods_have_no_account_of_a_proof() -> None:
    places = {(body["kind"], body["metadata"].get("namespace")) for body in OBJECTS}
    assert {("ServiceAccount", OWN), ("Job", OWN), ("ConfigMap", OWN)} <= places
    assert {kind for kind, namespace in places if namespace == SPACE} == {"Role", "RoleBinding"}


def test_two_jobs_share_no_object_of_the_cluster() -> None:
    jobs = [ProofJob("b-c", "a", SPACE, "x", "native", FABRIC), ProofJob("c", "a-b", SPACE, "x", "native", FABRIC)]
    names = [{(body["kind"], body["metadata"]["name"]) for body in build_proof_job(job)} for job in jobs]
    assert not names[0] & names[1]
