"""The pod that many guides show, written by hand, held against a plan that has its names."""

from __future__ import annotations

from typing import Any

from tests.cluster.stacks.sites import HEAD, alike
from trackbed.cluster.jobs.jobs import compare_jobs
from trackbed.cluster.jobs.requirements import build_requirements
from trackbed.cluster.stacks import load_stack
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan

SPEC: dict[str, Any] = {
    "nodes": alike(4, 8),
    "rails": 8,
    "vfs": {"count": 8},
    "addressing": {"scheme": "shared-subnet", "ipv4": "10.0.0.0/12", "gateway": "last"},
    "names": {"resource": "nvidia.com/rail{rail}_vf", "network": "sriov-rail-{rail}"},
    "kubernetes": {"namespace": "ai-training"},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "worker-0",
        "namespace": "ai-training",
        "annotations": {
            "k8s.v1.cni.cncf.io/networks": ",".join(f"sriov-rail-{rail}@net{rail + 1}" for rail in range(8))
        },
    },
    "spec": {
        "containers": [
            {
                "name": "trainer",
                "image": "i",
                "resources": {
                    "limits": {
                        "nvidia.com/gpu": 8,
                        **{f"nvidia.com/rail{rail}_vf": 1 for rail in range(8)},
                        "hugepages-1Gi": "16Gi",
                        "memory": "1500Gi",
                    }
                },
                "securityContext": {"capabilities": {"add": ["IPC_LOCK", "SYS_NICE"]}},
                "env": [
                    {"name": "NCCL_IB_HCA", "value": "mlx5_0,mlx5_1"},
                    {"name": "NCCL_IB_GID_INDEX", "value": "3"},
                    {"name": "NCCL_SOCKET_IFNAME", "value": "eth0"},
                ],
            }
        ]
    },
}


def test_what_the_pod_of_the_guides_lacks_and_what_breaks_it_is_told() -> None:
    planned = compute_plan(Fabric.model_validate(HEAD | {"spec": SPEC}), {})
    notes = [
        (note.verdict, note.code)
        for note in compare_jobs([POD], build_requirements(load_stack("network-operator-sriov"), planned))[0].notes
    ]
    assert notes.count(("different", "interface-name")) == 8
    assert [note for note in dict.fromkeys(notes) if note[0] != "missing"] == [
        ("different", "interface-name"),
        ("different", "nccl-variable"),
        ("different", "nccl-fewer-devices"),
        ("extra", "gid-index-fixed"),
        ("extra", "hca-prefix"),
    ]
    assert [note for note in dict.fromkeys(notes) if note[0] == "missing"] == [
        ("missing", "shm-missing"),
        ("missing", "nccl-variable"),
        ("missing", "pod-node-selector"),
    ]
