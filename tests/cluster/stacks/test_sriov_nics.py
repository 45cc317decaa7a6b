"""NICs that an SR-IOV operator skips, by the chart or platform that installs it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.stacks.fabric_of import SHARED, fabric
from trackbed.cluster.stacks import load_stack
from trackbed.fabric.model.problems import Problem

VFS: dict[str, Any] = {"vfs": {"count": 8}}
CHARTS = {
    "sriov-operator": "sriov-network-operator",
    "network-operator-sriov": "nvidia-network-operator",
    "spiderpool": "spiderpool",
}


def list_problems(stack: str, nic: str, kubernetes: dict[str, Any] | None = None, **spec: Any) -> list[Problem]:
    """The warnings about NICs of a stack for two nodes."""
    plan = fabric(
        addressing=SHARED,
        **(VFS | spec),
        kubernetes={"stack": stack, **(kubernetes or {})},
        nodes=[{"hosts": "gpu-[0-1]", "nic": nic}],
    )
    return [problem for problem in load_stack(stack).warnings(plan) if problem.code == "stack-nic-unsupported"]


@pytest.mark.parametrize(
    ("stack", "versions", "nic", "warned"),
    [
        ("sriov-operator", {}, "15b3:1021", False),
        ("sriov-operator", {}, "15b3:1023", False),
        ("sriov-operator", {}, "15b3:1025", True),
        ("sriov-operator", {"sriov-network-operator": "v1.5.0"}, "15b3:1023", False),
        ("sriov-operator", {"sriov-network-operator": "v1.5.0"}, "8086:579c", True),
        ("sriov-operator", {"sriov-network-operator": "v1.4.0"}, "15b3:1023", True),
        ("network-operator-sriov", {}, "15b3:1025", False),
        ("network-operator-sriov", {"nvidia-network-operator": "v26.1.2"}, "15b3:1025", False),
        ("network-operator-sriov", {}, "14e4:1760", True),
        ("spiderpool", {}, "15b3:1021", False),
        ("spiderpool", {}, "15b3:1023", True),
        ("spiderpool", {"spiderpool": "v1.2.0"}, "15b3:1023", True),
        ("openshift", {}, "15b3:1021", False),
        ("openshift", {}, "15b3:1023", True),
        ("openshift", {}, "15b3:1025", True),
    ],
)
def test_a_nic_that_the_operator_of_a_release_would_skip_is_warned_of(
    stack: str, versions: dict[str, str], nic: str, *, warned: bool
) -> None:
    problems = list_problems(stack, nic, {"versions": versions})
    assert [(problem.code, problem.severity) for problem in problems] == [("stack-nic-unsupported", "warning")] * warned


@pytest.mark.parametrize(("stack", "component"), CHARTS.items())
def test_a_nic_that_helm_values_of_the_chart_add_is_not_warned_of(stack: str, component: str) -> None:
    values = {"supportedExtraNICs": ['Thor2: "14e4 1760 1819"']}
    values_by_path = {"sriov-network-operator": values} if stack == "network-operator-sriov" else values
    assert list_problems(stack, "14e4:1760", {"values": {component: values_by_path}}) == []


def test_a_warning_names_the_helm_value_of_the_chart() -> None:
    (problem,) = list_problems("network-operator-sriov", "14e4:1760")
    assert problem.message == (
        "the SR-IOV operator of nvidia-network-operator v26.4.1 skips NICs that its list lacks, as 14e4:1760: add "
        "'NAME: \"14e4 1760 VF\"', VF being the device id of its VFs (lspci -nn), to "
        "sriov-network-operator.supportedExtraNICs in kubernetes.values.nvidia-network-operator"
    )


def test_on_openshift_a_warning_names_the_release_and_no_helm_values() -> None:
    (later,) = list_problems("openshift", "15b3:1023")
    assert later.message == (
        "OpenShift's SR-IOV operator takes NIC 15b3:1023 from release 4.20 on, and skips it before: see that the "
        "cluster has it"
    )
    (unlisted,) = list_problems("openshift", "15b3:1025")
    assert unlisted.message == (
        "OpenShift's SR-IOV operator skips NICs that its list lacks, as 15b3:1025 up to release 4.22: add "
        "'NAME: \"15b3 1025 VF\"', VF being the device id of its VFs (lspci -nn), to ConfigMap supported-nic-ids in "
        "namespace openshift-sriov-network-operator, which an upgrade of the operator replaces"
    )


def test_spiderpool_without_vfs_has_no_operator_that_skips_a_nic() -> None:
    assert list_problems("spiderpool", "15b3:1023", vfs={"count": 0}) == []
