"""The objects of a proof: a real API server takes them for every stack, and pods are what pods of jobs are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.cluster.stacks.sites import SITES, alike, planned
from trackbed.cluster.jobs.requirements import PodRequirements, build_requirements
from trackbed.cluster.proof.objects import ProofSite, build_mailbox, build_pod, build_shared
from trackbed.cluster.proof.pods import PodObject, explain_end, explain_wait, is_stuck
from trackbed.cluster.stacks import load_stack

SPACE = "proof-objects"


def carried(name: str) -> PodRequirements:
    return build_requirements(load_stack(name), planned(name, alike(4, 8), 8))


def build_site(name: str) -> ProofSite:
    common = planned(name, alike(4, 8), 8).common
    return ProofSite(f"proof-{name}", SPACE, "example.org/proof:1", carried(name), 900, b"secret", common)


STACKS = [name for name in SITES if carried(name).has_rails]


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as opened:
        opened.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}})
        yield opened


@pytest.mark.parametrize("name", STACKS)
def test_a_server_takes_all_objects_strictly(client: BlockingClient, name: str) -> None:
    site = build_site(name)
    bodies = [*build_shared(site, 4), build_mailbox(site, 0), build_pod(site, 0, "gpu-0")]
    assert [client.create(body).warnings for body in bodies] == [()] * len(bodies)
    for body in bodies:
        client.delete(body)


@pytest.mark.parametrize("name", STACKS)
def test_a_pod_has_the_rails_of_a_job_no_gpu_and_no_more_rights_than_the_stack_needs(name: str) -> None:
    access, pod = carried(name).access, build_pod(build_site(name), 3, "gpu-3")
    [container] = pod["spec"]["containers"]
    resources = container.get("resources", {})
    assert resources.get("limits", {}) == dict((*access.resources, *access.hugepages))
    assert len(pod["spec"].get("resourceClaims", ())) == len(access.claims)
    assert container["securityContext"].get("privileged", False) == access.privileged
    assert pod["spec"].get("hostNetwork", False) == access.host_network


def test_no_pod_has_the_key_of_another_one_or_of_another_run() -> None:
    site = build_site("native")
    keys = [run.derive_key(index) for run in (site, site._replace(secret=b"other")) for index in (0, 1)]
    assert len(set(keys)) == len(keys)
    assert keys[1] not in str(build_pod(site, 0, "gpu-0"))
    assert keys[1] in str(build_pod(site, 1, "gpu-1"))


def test_a_pod_gets_the_gpus_of_its_node_where_they_are_tested() -> None:
    site = build_site("native")._replace(gpus={"gpu-0": {"nvidia.com/gpu": 8}})
    limits = [build_pod(site, 0, f"gpu-{number}")["spec"]["containers"][0]["resources"]["limits"] for number in (0, 1)]
    assert limits[0] == {"nvidia.com/gpu": 8, **limits[1]}


def test_gpus_of_another_vendor_are_asked_for_by_their_own_resource() -> None:
    site = build_site("native")._replace(gpus={"gpu-0": {"amd.com/gpu": 8}, "gpu-1": {"nvidia.com/gpu": 8}})
    limits = build_pod(site, 0, "gpu-0")["spec"]["containers"][0]["resources"]["limits"]
    assert {name: count for name, count in limits.items() if "gpu" in name} == {"amd.com/gpu": 8}


def test_nodes_that_are_tainted_for_their_gpus_are_proved_too() -> None:
    requirements = msgspec.structs.replace(carried("native"), gpu_resource="gpu.intel.com/i915")
    pod = build_pod(build_site("native")._replace(requirements=requirements), 0, "gpu-0")
    tolerated = {toleration["key"] for toleration in pod["spec"]["tolerations"]}
    assert {"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"} <= tolerated


def test_an_account_may_touch_the_mailboxes_alone() -> None:
    _, account, role, binding = build_shared(build_site(STACKS[0]), 2)
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [f"proof-{STACKS[0]}-0", f"proof-{STACKS[0]}-1"],
            "verbs": ["get", "list", "watch", "patch"],
        }
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account["metadata"]["name"], "namespace": SPACE}]


def read_pod(**status: Any) -> PodObject:
    return msgspec.convert({"metadata": {"name": "p", "resourceVersion": "1"}, "status": status}, PodObject)


@pytest.mark.parametrize(
    ("status", "stuck", "reason"),
    [
        pytest.param({"phase": "Pending"}, False, "", id="nothing is said"),
        pytest.param(
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/3 nodes:\n Insufficient x"}]},
            False,
            ": 0/3 nodes: Insufficient x",
            id="not scheduled",
        ),
        pytest.param(
            {"containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]},
            True,
            ": ImagePullBackOff: no such image",
            id="no image",
        ),
        pytest.param(
            {
                "containerStatuses": [
                    {
                        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                        "lastState": {"terminated": {"exitCode": 91, "message": "trackbed-python|debian"}},
                    }
                ]
            },
            True,
            ": its container ended with status 91: trackbed-python|debian",
            id="no Python",
        ),
        pytest.param({"containerStatuses": None, "conditions": None}, False, "", id="null"),
    ],
)
def test_a_pod_that_does_not_begin_says_why(status: dict[str, Any], *, stuck: bool, reason: str) -> None:
    pod = read_pod(**status)
    assert (is_stuck(pod), explain_wait(pod)) == (stuck, reason)


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"phase": "Failed", "reason": "DeadlineExceeded"}, "its pod ended: DeadlineExceeded"),
        ({"phase": "Failed", "message": "x" * 400, "reason": "Evicted"}, f"its pod ended: {'x' * 300}..."),
        (
            {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"reason": "Error", "exitCode": 1}}}]},
            "its pod ended: Error, status 1",
        ),
        ({"phase": "Succeeded"}, "its pod ended: Succeeded"),
    ],
)
def test_a_pod_that_has_ended_says_why(status: dict[str, Any], reason: str) -> None:
    assert explain_end(read_pod(**status)) == reason
