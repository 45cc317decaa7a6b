"""Whatever a template says: injecting twice is injecting once, and nothing of the user's is lost."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.cluster.jobs.wanteds import WANTED, lost
from trackbed.cluster.jobs.inject import inject_rails
from trackbed.cluster.jobs.networks import ANNOTATION
from trackbed.cluster.jobs.requirements import PodRequirements

_NAMES = st.sampled_from(["a", "dshm", "lib", "rails", "rail0", "main"])
_COUNTS = st.sampled_from([1, 2, "1", "64Gi"])
_RESOURCES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["nvidia.com/gpu", "nvidia.com/rail0", "rdma/rail0", "cpu", "memory", "hugepages-2Mi"]), _COUNTS
)
_ENV: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": st.sampled_from(["A", "NCCL_IB_TC", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX"])},
    optional={"value": st.sampled_from(["", "1", "104", "=rail0:1:0"]), "valueFrom": st.just({"fieldRef": {}})},
)
_MOUNT: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": _NAMES, "mountPath": st.sampled_from(["/data", "/dev/shm", "/dev/shm/", "/dev/net0"])}  # noqa: S108 - inside the pod
)
_VOLUME: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={"emptyDir": st.sampled_from([{}, {"medium": "Memory"}]), "hostPath": st.just({"path": "/opt/lib"})},
)
_CAPABILITIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional={key: st.lists(st.sampled_from(["ALL", "IPC_LOCK", "SYS_NICE"])) for key in ("add", "drop")}
)
_CONTEXT: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "runAsUser": st.sampled_from([0, 7]),
        "allowPrivilegeEscalation": st.booleans(),
        "capabilities": _CAPABILITIES,
    },
)
_CONTAINER: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": _RESOURCES, "requests": _RESOURCES, "claims": st.just([{"name": "rails"}])}
        ),
        "env": st.lists(_ENV, unique_by=lambda item: item["name"]),
        "volumeMounts": st.lists(_MOUNT, unique_by=lambda item: item["mountPath"].rstrip("/")),
        "securityContext": _CONTEXT,
    },
)
_CLAIM: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": _NAMES, "resourceClaimTemplateName": st.sampled_from(["eight-rails", "more-rails", "x"])}
)
_NETWORKS = st.sampled_from(
    ["", "storage", "ai/rail0", "rail0@rail1,x", "vf,vf,vf", '[{"name": "vf", "interface": "net2"}]', "[", "a@rail0"]
)
TEMPLATES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {"containers": st.lists(_CONTAINER, min_size=1, max_size=3)},
            optional={
                "initContainers": st.lists(_CONTAINER, max_size=1),
                "volumes": st.lists(_VOLUME, unique_by=lambda item: item["name"]),
                "resourceClaims": st.lists(_CLAIM, unique_by=lambda item: item["name"]),
                "nodeSelector": st.dictionaries(st.sampled_from(["trackbed.dev/fabric", "disk"]), st.just("train")),
                "hostNetwork": st.booleans(),
                "dnsPolicy": st.sampled_from(["Default", "ClusterFirstWithHostNet"]),
                "securityContext": _CONTEXT,
            },
        )
    },
    optional={"metadata": st.fixed_dictionaries({"annotations": st.fixed_dictionaries({ANNOTATION: _NETWORKS})})},
)


@given(TEMPLATES, st.sampled_from(list(WANTED.values())))
def test_injecting_twice_is_injecting_once(template: dict[str, Any], wanted: PodRequirements) -> None:
    once = copy.deepcopy(template)
    kept = [note for note in inject_rails(once, wanted) if note.verdict != "missing"]
    twice = copy.deepcopy(once)
    assert inject_rails(twice, wanted) == kept
    assert twice == once


@given(TEMPLATES, st.sampled_from(list(WANTED.values())))
def test_nothing_of_the_users_is_lost(template: dict[str, Any], wanted: PodRequirements) -> None:
    before = copy.deepcopy(template)
    inject_rails(template, wanted)
    for item in (before, template):  # the annotation is one text, so it counts as changed; its tests are its own
        item.get("metadata", {}).get("annotations", {}).pop(ANNOTATION, None)
    assert lost(before, template) == []
