from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tests.cluster.jobs.wanteds import PLAIN, VARIABLES, WANTED, lost, template
from trackbed.cluster.jobs.inject import find_stray_rails, inject_rails
from trackbed.cluster.jobs.networks import ANNOTATION
from trackbed.cluster.jobs.requirements import PodRequirements, merge_variables
from trackbed.cluster.jobs.template import NotAJobError
from trackbed.cluster.stacks.access import Access

EVERY = pytest.mark.parametrize("wanted", WANTED.values(), ids=WANTED)


def _main(pod: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = pod["spec"]["containers"][0]
    return container


def _kept(pod: dict[str, Any], wanted: PodRequirements = PLAIN) -> list[tuple[str, str]]:
    """Verdict and code of what inject left as it was."""
    return [(note.verdict, note.code) for note in inject_rails(pod, wanted) if note.verdict != "missing"]


def test_a_pod_gets_networks_devices_memory_capability_variables_and_nodes() -> None:
    pod = template()
    notes = inject_rails(pod, PLAIN)
    assert {note.verdict for note in notes} == {"missing"}
    assert json.loads(pod["metadata"]["annotations"][ANNOTATION]) == [
        {"name": "rail0", "namespace": "ai", "interface": "rail0"},
        {"name": "rail1", "namespace": "ai", "interface": "rail1"},
    ]
    assert pod["spec"] == {
        "containers": [
            {
                "name": "main",
                "image": "i",
                "resources": {
                    "limits": {"nvidia.com/gpu": 8, "nvidia.com/rail0": 1, "nvidia.com/rail1": 1},
                    "requests": {"memory": "64Gi", "nvidia.com/rail0": 1, "nvidia.com/rail1": 1},
                },
                "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
                "volumeMounts": [{"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 - inside the pod
                "env": [{"name": name, "value": value} for name, value in VARIABLES],
            }
        ],
        "volumes": [{"name": "dshm", "emptyDir": {"medium": "Memory"}}],
        "nodeSelector": {"trackbed.dev/fabric": "train"},
    }
    assert list(pod) == ["metadata", "spec"]


def test_claims_stand_on_pod_and_container() -> None:
    pod = template()
    inject_rails(pod, WANTED["claims"])
    assert pod["spec"]["resourceClaims"] == [{"name": "rails", "resourceClaimTemplateName": "eight-rails"}]
    assert _main(pod)["resources"]["claims"] == [{"name": "rails"}]
    assert "metadata" not in pod


def test_the_hosts_network_comes_with_its_dns_policy() -> None:
    pod = template()
    inject_rails(pod, WANTED["host network"])
    assert (pod["spec"]["hostNetwork"], pod["spec"]["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert _main(pod)["securityContext"] == {"privileged": True}


def test_one_network_many_times_is_attached_as_often_as_planned() -> None:
    pod = template()
    inject_rails(pod, WANTED["one network many times"])
    payload = json.loads(pod["metadata"]["annotations"][ANNOTATION])
    assert [(entry["name"], entry["interface"]) for entry in payload] == [("vf", "net1"), ("vf", "net2")]


@EVERY
def test_a_second_time_changes_nothing_and_finds_nothing(wanted: PodRequirements) -> None:
    pod = template()
    inject_rails(pod, wanted)
    before = copy.deepcopy(pod)
    assert inject_rails(pod, wanted) == []
    assert pod == before


OWN: dict[str, dict[str, Any]] = {
    "variables": {"env": [{"name": "NCCL_IB_TC", "value": "96"}, {"name": "A", "valueFrom": {"fieldRef": {}}}]},
    "capabilities": {"securityContext": {"capabilities": {"add": ["SYS_NICE"], "drop": ["ALL"]}, "runAsUser": 0}},
    "mounts": {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
    "limits": {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": 4, "nvidia.com/rail0": 3}}},
    "unknown fields": {"somethingNew": {"a": [1, {"b": None}]}, "args": ["x"]},
    "nulls": {"env": None, "resources": None, "securityContext": None},
}


@EVERY
@pytest.mark.parametrize("fields", OWN.values(), ids=OWN)
def test_what_the_user_wrote_stays(wanted: PodRequirements, fields: dict[str, Any]) -> None:
    pod = template(**fields)
    pod["metadata"] = {"labels": {"a": "b"}, "annotations": {"mine": "1"}}
    pod["spec"] |= {"volumes": [{"name": "dshm", "hostPath": {"path": "/x"}}], "nodeSelector": {"disk": "ssd"}}
    before = copy.deepcopy(pod)
    inject_rails(pod, wanted)
    assert lost(before, pod) == []


OTHERWISE: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "another value": ({"env": [{"name": "NCCL_IB_TC", "value": "0"}]}, [("different", "nccl-variable")]),
    "the same value": ({"env": [{"name": "NCCL_IB_TC", "value": "104"}]}, []),
    "a value from elsewhere": ({"env": [{"name": "NCCL_IB_TC", "valueFrom": {"configMapKeyRef": {}}}]}, []),
    "a fixed GID index": ({"env": [{"name": "NCCL_IB_GID_INDEX", "value": "3"}]}, [("extra", "gid-index-fixed")]),
    "an automatic GID index": ({"env": [{"name": "NCCL_IB_GID_INDEX", "value": "-1"}]}, []),
    "RDMA off": ({"env": [{"name": "NCCL_IB_DISABLE", "value": "1"}]}, [("extra", "ib-disabled")]),
    "devices by prefix": (
        {"env": [{"name": "NCCL_IB_HCA", "value": "mlx5_1"}]},
        [("different", "nccl-variable"), ("extra", "hca-prefix")],
    ),
    "IPC_LOCK dropped": (
        {"securityContext": {"capabilities": {"drop": ["IPC_LOCK"]}}},
        [("different", "ipc-lock-missing")],
    ),
    "IPC_LOCK with a prefix": (
        {"securityContext": {"capabilities": {"add": ["CAP_IPC_LOCK"]}}},
        [("different", "capability-prefix")],
    ),
    "all capabilities": ({"securityContext": {"capabilities": {"add": ["ALL"]}}}, []),
    "privileged": ({"securityContext": {"privileged": True, "runAsUser": 7}}, []),
    "not root": ({"securityContext": {"runAsUser": 1000}}, [("different", "ipc-lock-inert")]),
    "never root": ({"securityContext": {"runAsNonRoot": True}}, [("different", "ipc-lock-inert")]),
    "root": ({"securityContext": {"runAsUser": 0}}, []),
    "more devices": (
        {"resources": {"limits": {"nvidia.com/rail0": 2}}},
        [("different", "pod-fewer-rails-than-planned")],
    ),
    "a request that is not the limit": (
        {"resources": {"limits": {"nvidia.com/rail0": 1}, "requests": {"nvidia.com/rail0": 2}}},
        [("different", "request-differs")],
    ),
    "limits alone": ({"resources": {"limits": {"nvidia.com/rail0": 1}}}, []),
    "counts as text": ({"resources": {"limits": {"nvidia.com/rail0": "1"}}}, []),
    "another stack's device": (
        {"resources": {"limits": {"rdma/rail0": 1}}},
        [("extra", "pod-resource-of-other-stack")],
    ),
}


@pytest.mark.parametrize(("fields", "kept"), OTHERWISE.values(), ids=OTHERWISE)
def test_what_is_kept_against_the_plan_is_told(fields: dict[str, Any], kept: list[tuple[str, str]]) -> None:
    assert _kept(template(**fields)) == kept


SHM = "/dev/shm"  # noqa: S108 - inside the pod
MOUNTED = {"volumeMounts": [{"name": "mine", "mountPath": "/dev/shm/"}]}  # noqa: S108 - inside the pod


@pytest.mark.parametrize(
    ("volume", "kept"),
    [
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}, []),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}, []),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": "7Gi"}}, [("different", "pod-shm-small")]),
        ({"emptyDir": {"medium": "Memory", "sizeLimit": 0}}, []),
        ({"emptyDir": {}}, [("different", "pod-shm-on-disk")]),
        ({}, [("different", "pod-shm-on-disk")]),
        ({"hostPath": {"path": SHM}}, []),
    ],
    ids=["memory", "a GiB for each GPU", "less", "no limit", "disk", "nothing", "host"],
)
def test_what_the_user_mounts_at_dev_shm_stays(volume: dict[str, Any], kept: list[tuple[str, str]]) -> None:
    pod = template(**MOUNTED)
    pod["spec"]["volumes"] = [{"name": "mine", **volume}]
    before = copy.deepcopy(pod)
    assert _kept(pod) == kept
    assert (pod["spec"]["volumes"], _main(pod)["volumeMounts"]) == (
        before["spec"]["volumes"],
        _main(before)["volumeMounts"],
    )


def test_a_volume_of_our_name_is_left_to_the_user() -> None:
    pod = template()
    pod["spec"]["volumes"] = [{"name": "dshm", "configMap": {"name": "x"}}]
    inject_rails(pod, PLAIN)
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["dshm", "dshm-rails"]
    assert _main(pod)["volumeMounts"] == [{"name": "dshm-rails", "mountPath": SHM}]


GPU = {"resources": {"limits": {"nvidia.com/gpu": 1}}}
CONTAINERS = {
    "the only one": ([{"name": "a"}], None, "a"),
    "the first where none asks": ([{"name": "a"}, {"name": "b"}], None, "a"),
    "the one that asks": ([{"name": "a"}, {"name": "b", **GPU}], None, "b"),
    "by request alone": ([{"name": "a"}, {"name": "b", "resources": {"requests": {"nvidia.com/gpu": 1}}}], None, "b"),
    "of another vendor": (
        [{"name": "a"}, {"name": "b", "resources": {"limits": {"amd.com/gpu": 8}}}],
        None,
        "b",
    ),
    "not one that asks for 0": (
        [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "0"}}}, {"name": "b", **GPU}],
        None,
        "b",
    ),
    "the one that claims": ([{"name": "a"}, {"name": "b", "resources": {"claims": [{"name": "gpus"}]}}], None, "b"),
    "one that asks before one that claims": (
        [{"name": "a", "resources": {"claims": [{"name": "gpus"}]}}, {"name": "b", **GPU}],
        None,
        "b",
    ),
    "never an init container": ([{"name": "a"}], [{"name": "i", "restartPolicy": "Always", **GPU}], "a"),
}


@pytest.mark.parametrize(("containers", "initial", "chosen"), CONTAINERS.values(), ids=CONTAINERS)
def test_rails_go_to_the_container_that_uses_the_gpus(
    containers: list[dict[str, Any]], initial: list[dict[str, Any]] | None, chosen: str
) -> None:
    pod: dict[str, Any] = {"spec": {"containers": copy.deepcopy(containers)}}
    if initial:
        pod["spec"]["initContainers"] = copy.deepcopy(initial)
    inject_rails(pod, PLAIN)
    every = pod["spec"]["containers"] + pod["spec"].get("initContainers", [])
    assert [c["name"] for c in every if "nvidia.com/rail0" in c.get("resources", {}).get("limits", {})] == [chosen]
    assert [c["name"] for c in every if "env" in c] == [chosen]


def test_rails_on_a_sidecar_are_told_and_not_doubled() -> None:
    pod = template()
    limits = {"nvidia.com/rail0": 1, "nvidia.com/rail1": 1}
    pod["spec"]["containers"].append({"name": "side", "resources": {"limits": limits}})
    assert _kept(pod) == [("different", "nic-on-other-container")] * 2
    assert "nvidia.com/rail0" not in _main(pod)["resources"]["limits"]


@pytest.mark.parametrize(
    "limits", [{"nvidia.com/rail0": 1, "nvidia.com/rail1": 1}, {"nvidia.com/gpu": 8}], ids=["rails", "GPUs"]
)
@pytest.mark.parametrize(("policy", "runs_beside"), [("Always", True), (None, False)])
def test_an_init_container_that_ends_competes_for_nothing(
    limits: dict[str, int], policy: str | None, runs_beside: bool
) -> None:
    pod = template()
    pod["spec"]["initContainers"] = [{"name": "i", "restartPolicy": policy, "resources": {"limits": limits}}]
    assert bool(_kept(pod)) is runs_beside
    takes_rails = runs_beside and "nvidia.com/rail0" in limits
    assert ("nvidia.com/rail0" in _main(pod)["resources"]["limits"]) is not takes_rails


def test_a_second_container_with_gpus_is_told() -> None:
    pod = template()
    pod["spec"]["containers"].append({"name": "b", **GPU})
    assert _kept(pod) == [("different", "pod-two-gpu-containers")]


def test_a_users_claim_of_our_template_is_used_under_its_name() -> None:
    pod = template()
    pod["spec"]["resourceClaims"] = [{"name": "mine", "resourceClaimTemplateName": "eight-rails"}]
    inject_rails(pod, WANTED["claims"])
    assert len(pod["spec"]["resourceClaims"]) == 1
    assert _main(pod)["resources"]["claims"] == [{"name": "mine"}]


PODS: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "hostNetwork with networks": (
        "networks and devices",
        {"hostNetwork": True},
        [("extra", "host-network-with-networks")],
    ),
    "no hostNetwork": ("host network", {"hostNetwork": False}, [("different", "pod-host-network")]),
    "another DNS policy": ("host network", {"dnsPolicy": "Default"}, [("different", "host-network-dns")]),
    "another fabric": (
        "networks and devices",
        {"nodeSelector": {"trackbed.dev/fabric": "other"}},
        [("different", "pod-node-selector")],
    ),
    "another claim of that name": (
        "claims",
        {"resourceClaims": [{"name": "rails", "resourceClaimTemplateName": "other"}]},
        [("different", "pod-claim-of-other-template")],
    ),
    "the pod's user": (
        "networks and devices",
        {"securityContext": {"runAsUser": 1000}},
        [("different", "ipc-lock-inert")],
    ),
}


@pytest.mark.parametrize(("stack", "fields", "kept"), PODS.values(), ids=PODS)
def test_what_the_pod_has_otherwise_is_told(stack: str, fields: dict[str, Any], kept: list[tuple[str, str]]) -> None:
    pod = template()
    pod["spec"] |= copy.deepcopy(fields)
    assert _kept(pod, WANTED[stack]) == kept
    assert lost(fields, pod["spec"]) == []


@pytest.mark.parametrize(
    "context", [{"privileged": False}, {"allowPrivilegeEscalation": False}], ids=["not privileged", "no escalation"]
)
def test_privilege_that_the_user_denies_is_not_given(context: dict[str, Any]) -> None:
    pod = template(securityContext=context)
    assert ("different", "pod-not-privileged") in _kept(pod, WANTED["host network"])
    assert _main(pod)["securityContext"].get("privileged") is not True


def test_huge_pages_without_memory_are_told() -> None:
    pod = template(resources={"limits": {"nvidia.com/gpu": 1}})
    assert _kept(pod, WANTED["everything"]) == [("different", "hugepages-alone")]


def test_the_stacks_own_variables_count_before_the_fabrics() -> None:
    access = Access(env=(("A", "stack"), ("B", "")))
    assert merge_variables({"A": "fabric", "B": "fabric", "C": "fabric"}, access) == {"A": "stack", "C": "fabric"}


def test_a_variable_that_the_stack_must_not_have_is_told() -> None:
    wanted = PodRequirements(Access(env=(("NCCL_NET", ""),)))
    assert _kept(template(env=[{"name": "NCCL_NET", "value": "IB"}]), wanted) == [("extra", "nccl-variable-unwanted")]


@pytest.mark.parametrize(
    ("image", "env", "codes"),
    [
        ("nvcr.io/nvidia/pytorch:25.03-py3", [], ["nccl-too-old"]),
        ("nvcr.io/nvidia/pytorch:25.03-py3", [{"name": "NCCL_IB_GID_INDEX", "value": "-1"}], []),
        ("nvcr.io/nvidia/pytorch:25.04-py3", [], []),
        ("nvcr.io/nvidia/nemo:24.12", [], ["nccl-too-old"]),
        ("pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime", [], ["nccl-too-old"]),
        ("docker.io/pytorch/pytorch:2.10.0-cuda12.8-cudnn9-runtime", [], []),
        ("example.org/trainer:1.0", [], []),
    ],
)
def test_an_image_whose_nccl_cannot_use_shared_ports_is_told(
    image: str, env: list[dict[str, str]], codes: list[str]
) -> None:
    pod = template(env=env)
    pod["spec"]["containers"][0]["image"] = image
    shared = PodRequirements(Access(), shares_ports=True)
    assert [note.code for note in inject_rails(copy.deepcopy(pod), shared) if "nccl" in note.code] == codes
    assert [note.code for note in inject_rails(pod, PodRequirements(Access())) if "nccl" in note.code] == []


MISSHAPEN: dict[str, tuple[dict[str, Any], str]] = {
    "no containers": ({"spec": {}}, "spec.containers: expected at least one container"),
    "containers are text": ({"spec": {"containers": "x"}}, "containers: expected a list, found 'x'"),
    "a container is a list": ({"spec": {"containers": [[]]}}, "containers: expected a mapping, found []"),
    "a spec that is a list": ({"spec": []}, "spec: expected a mapping, found []"),
    "limits are a list": (template(resources={"limits": [1]}), "limits: expected a mapping, found [1]"),
}


@pytest.mark.parametrize(("pod", "message"), MISSHAPEN.values(), ids=MISSHAPEN)
def test_a_template_of_another_shape_is_refused(pod: dict[str, Any], message: str) -> None:
    with pytest.raises(NotAJobError) as caught:
        inject_rails(copy.deepcopy(pod), PLAIN)
    assert str(caught.value) == message


def test_rails_on_a_pod_without_use_for_them_are_told() -> None:
    pod = template()
    assert find_stray_rails(pod, PLAIN) == []
    inject_rails(pod, PLAIN)
    before = copy.deepcopy(pod)
    assert {note.code for note in find_stray_rails(pod, PLAIN)} == {"pod-rails-unused"}
    assert len(find_stray_rails(pod, PLAIN)) == 3
    assert pod == before
