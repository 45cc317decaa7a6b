"""The bundle of files: which there are, what they say, in which order they are used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.cluster.stacks import fabrics
from tests.cluster.stacks.bundles import HOSTDEVICE, LABEL, files, site
from tests.cluster.stacks.fabric_of import FLAT, fabric
from tests.cluster.stacks.sites import POINT_TO_POINT, VFS, alike
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.bundle import render_bundle
from trackbed.cluster.stacks.install.site import arrange_charts, installs_nfd
from trackbed.cluster.stacks.objects import Manifest, build_manifest
from trackbed.cluster.stacks.stack import Chart, Stack, Stage, Wait
from trackbed.cluster.stacks.traits import Share, Traits, share_always
from trackbed.host.kinds import file
from trackbed.host.steps import iter_settings

TRAITS = Traits(share_always(Share.NOTHING), "new", "a test")


def test_the_bundle_holds_values_numbered_objects_scripts_and_host_files() -> None:
    assert list(files(HOSTDEVICE, site())) == [
        "README.txt",
        "values-nvidia-network-operator.yaml",
        "values-nvidia-gpu-operator.yaml",
        "10-nfd.yaml",
        "20-operator.yaml",
        "30-cni-plugins.yaml",
        "40-pools.yaml",
        "50-networks.yaml",
        "install.sh",
        "playbook.yaml",
        "host/kubelet.yaml",
        "host/containerd.service.d/10-memlock.conf",
        "host/containerd.toml",
    ]


def test_a_stack_without_kubernetes_gives_its_files_and_nothing_to_install() -> None:
    bare = Stack("bare", "nothing", TRAITS, (), (), files=lambda _: {"hosts": "gpu-0\n"})
    assert list(files(bare, site())) == ["README.txt", "hosts"]


def test_the_pods_namespace_is_made_first_unless_it_is_always_there() -> None:
    text = files(HOSTDEVICE, site(namespace="training"))["00-namespace.yaml"]
    assert yaml.safe_load(text) == {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "training"}}
    assert "00-namespace.yaml" not in files(HOSTDEVICE, site())


def test_objects_are_made_only_while_they_are_written() -> None:
    made: list[int] = []

    def many() -> Iterator[Manifest]:
        for number in range(100):
            made.append(number)
            yield build_manifest("v1", "ConfigMap", f"c{number}")

    item = Stack("many", "many", TRAITS, (), (), stages=lambda _: (Stage("maps", many()),))
    written = render_bundle(item, site())
    chunks = next(iter(text for name, text in written if name == "20-maps.yaml"))
    assert made == [0]
    assert sum(1 for _ in chunks) == 100


def test_a_stage_without_objects_has_no_file_but_is_waited_for() -> None:
    ready = Wait("deployment/x", "condition=Available", "y")
    item = Stack("none", "none", TRAITS, (), (), stages=lambda _: (Stage("Virtual functions", (), (ready,)),))
    contents = files(item, site())
    assert [name for name in contents if name.startswith("20")] == []
    assert "wait_for 600 condition=Available deployment/x --namespace y\n" in contents["install.sh"]


@pytest.mark.parametrize(("driver", "host"), [("host", True), ("container", False)])
def test_the_gpu_operator_is_told_whose_nic_driver_there_is(driver: str, host: bool) -> None:
    values = yaml.safe_load(files(HOSTDEVICE, site(driver=driver))["values-nvidia-gpu-operator.yaml"])
    assert values["driver"]["rdma"] == {"enabled": True, "useHostMofed": host}


CHARTS = {
    "network operator": (
        (Chart("nvidia-network-operator", "n", {"nfd": {"enabled": True}}),),
        "nvidia-network-operator",
    ),
    "network operator by default": ((Chart("nvidia-network-operator", "n"),), "nvidia-network-operator"),
    "network operator without": (
        (Chart("nvidia-network-operator", "n", {"nfd": {"enabled": False}}),),
        "nvidia-gpu-operator",
    ),
    "spiderpool": ((Chart("spiderpool", "s"),), "nvidia-gpu-operator"),
    "both operators": (
        (Chart("nvidia-network-operator", "n"), Chart("nvidia-gpu-operator", "g")),
        "nvidia-network-operator",
    ),
}


@pytest.mark.parametrize(("stack_charts", "bringer"), CHARTS.values(), ids=CHARTS)
def test_one_chart_brings_nfd_and_one_only(stack_charts: tuple[Chart, ...], bringer: str) -> None:
    charts = arrange_charts(site(), stack_charts)
    assert [chart.component for chart in charts if installs_nfd(chart)] == [bringer]
    assert [chart.component for chart in charts].count("nvidia-gpu-operator") == 1


def test_calico_is_pinned_to_the_nodes_internal_address() -> None:
    text = files(HOSTDEVICE, site(management="calico"))["values-calico.yaml"]
    pinned = {"installation": {"calicoNetwork": {"nodeAddressAutodetectionV4": {"kubernetes": "NodeInternalIP"}}}}
    assert yaml.safe_load(text) == pinned
    assert "the site chooses it (CALICO_VERSION in install.sh)" in text


def test_cilium_leaves_multus_configuration_alone_and_its_devices_to_the_site() -> None:
    contents = files(HOSTDEVICE, site(management="cilium"))
    assert yaml.safe_load(contents["values-cilium.yaml"]) == {"cni": {"exclusive": False}}
    (play,) = yaml.safe_load(contents["playbook.yaml"])
    assert play["tasks"][0]["kubernetes.core.helm"]["release_values"] == {"devices": "{{ cilium_devices.split(',') }}"}


def test_kubelet_may_start_with_the_static_policy_and_refuses_no_pod_that_takes_all_rails() -> None:
    kubelet = yaml.safe_load(files(HOSTDEVICE, site())["host/kubelet.yaml"])
    assert (kubelet["apiVersion"], kubelet["kind"]) == ("kubelet.config.k8s.io/v1beta1", "KubeletConfiguration")
    assert (kubelet["cpuManagerPolicy"], kubelet["topologyManagerPolicy"]) == ("static", "best-effort")
    assert int(kubelet["kubeReserved"]["cpu"]) + int(kubelet["systemReserved"]["cpu"]) > 0


@pytest.mark.parametrize(
    "kubelet",
    [
        pytest.param({"topologyManager": "single-numa-node", "reservedCpus": "0-3"}, id="policy and CPUs"),
        pytest.param({"topologyManager": "restricted"}, id="a policy"),
        pytest.param({"reservedCpus": "0-3"}, id="CPUs"),
    ],
)
def test_kubelets_file_of_a_bundle_is_what_apply_writes(kubelet: dict[str, str]) -> None:
    planned = fabrics.site(alike(2, 2), 2, addressing=POINT_TO_POINT, kubelet=kubelet)
    wants = [setting.want for setting in iter_settings(planned.nodes[0], {"kubelet"})]
    (drop_in,) = [want.content for want in wants if isinstance(want, file.Want)]
    assert yaml.safe_load(files(HOSTDEVICE, planned)["host/kubelet.yaml"]) == yaml.safe_load(drop_in)


def test_the_playbook_keeps_the_scripts_order() -> None:
    (play,) = yaml.safe_load(files(HOSTDEVICE, site())["playbook.yaml"])
    modules = ("kubernetes.core.helm", "kubernetes.core.k8s", "kubernetes.core.k8s_info", "ansible.builtin.command")
    done = [(name.rpartition(".")[2], task["name"]) for task in play["tasks"] for name in modules if name in task]
    assert done == [
        ("helm", "Install chart network-operator"),
        ("k8s_info", "Wait for deployment/network-operator"),
        ("helm", "Install chart gpu-operator"),
        ("k8s_info", "Wait for deployment/gpu-operator"),
        ("k8s", "Apply labels of the nodes"),
        ("k8s_info", f"Wait for 2 nodes with label {LABEL}"),
        ("k8s", "Apply operator"),
        ("command", "Wait for nicclusterpolicy/nic-cluster-policy"),
        ("k8s", "Apply CNI plugins"),
        ("command", "Wait for daemonset/rail-cni-plugins"),
        ("k8s", "Apply pools"),
        ("command", "Wait for cidrpools.nv-ipam.nvidia.com/rail0"),
        ("command", "Wait for cidrpools.nv-ipam.nvidia.com/rail1"),
        ("k8s", "Apply networks"),
        *(("command", f"Wait for nodes --selector={LABEL}") for _ in range(2)),
    ]


def test_the_playbook_asks_for_the_agent_and_once_for_all_rails() -> None:
    (play,) = yaml.safe_load(files(load_stack("native"), fabric(2, 300, addressing=FLAT))["playbook.yaml"])
    agent, rails = play["tasks"][-2:]
    assert agent["ansible.builtin.command"]["argv"][:4] == ["kubectl", "rollout", "status", "--timeout=30s"]
    assert rails["name"] == "Wait for 300 nodes that offer trackbed.dev/rail0, trackbed.dev/rail1"
    assert rails["ansible.builtin.command"]["argv"][-1] == (
        r"custom-columns=:.status.allocatable.trackbed\.dev/rail0,:.status.allocatable.trackbed\.dev/rail1"
    )
    assert rails["until"].endswith("| list | length >= 300")


def test_every_file_that_the_playbook_names_is_in_the_bundle() -> None:
    contents = files(HOSTDEVICE, site(management="calico", namespace="training"))
    (play,) = yaml.safe_load(contents["playbook.yaml"])
    named = [task["kubernetes.core.k8s"]["src"] for task in play["tasks"] if "kubernetes.core.k8s" in task]
    named += [
        file
        for task in play["tasks"]
        for file in task.get("kubernetes.core.helm", {"values_files": []})["values_files"]
    ]
    assert len(named) == 9
    assert {name.removeprefix("{{ playbook_dir }}/") for name in named} <= set(contents)


def test_on_openshift_nothing_comes_by_helm_and_labels_follow_the_subscriptions() -> None:
    contents = files(load_stack("openshift"), fabrics.site(alike(2, 2), 2, **VFS))
    rules = yaml.safe_load(contents["25-nfd.yaml"])
    assert (rules["apiVersion"], rules["metadata"]["namespace"]) == ("nfd.openshift.io/v1alpha1", "openshift-nfd")
    assert not any(name.startswith(("values-", "host/")) for name in contents)
    lines = contents["install.sh"].splitlines()
    there = "wait_for 600 condition=Established customresourcedefinition/nodefeaturerules.nfd.openshift.io"
    packages = ["nfd", "sriov-network-operator", "nvidia-network-operator"]
    files_of_packages = [
        f"{number}-subscription-{package}.yaml" for number, package in zip((10, 15, 20), packages, strict=True)
    ]
    assert [name for name in contents if "subscription" in name] == files_of_packages
    subscribed = [line.split()[4] for line in lines if line.startswith("apply_unless_foreign ")]
    assert subscribed == files_of_packages
    numbered = [name for name in contents if name[0].isdigit()]
    assert numbered == sorted(numbered)
    assert lines.index(there) < lines.index("apply_file 25-nfd.yaml 'labels of the nodes'")


def test_the_playbook_takes_over_the_platforms_list_of_sysctls_and_no_other_field() -> None:
    contents = files(load_stack("openshift"), fabrics.site(alike(2, 2), 2, **VFS))
    (play,) = yaml.safe_load(contents["playbook.yaml"])
    applied = [task["kubernetes.core.k8s"] for task in play["tasks"] if "kubernetes.core.k8s" in task]
    forced = [task["src"] for task in applied if task["server_side_apply"].get("force_conflicts")]
    assert forced == ["{{ playbook_dir }}/35-sysctls.yaml"]


def test_the_playbook_looks_for_an_operators_groups_and_subscriptions_before_it_adds_them() -> None:
    contents = files(load_stack("openshift"), fabrics.site(alike(2, 2), 2, **VFS))
    (play,) = yaml.safe_load(contents["playbook.yaml"])
    look, message, apply = play["tasks"][:3]
    kinds = "OperatorGroup.operators.coreos.com,Subscription.operators.coreos.com"
    argv = ["kubectl", "get", kinds, "--namespace", "openshift-nfd", "-o", "name"]
    assert (look["ansible.builtin.command"]["argv"], look["register"]) == (argv, "present")
    foreign = "present.stdout_lines | reject('search', '/nfd$') | list"
    assert message["ansible.builtin.debug"]["msg"] == (
        f"leaving out subscription nfd, as namespace openshift-nfd has {{{{ {foreign} | join(', ') }}}}"
    )
    assert (message["when"], apply["when"]) == (f"{foreign} | length > 0", f"{foreign} | length == 0")
    assert apply["kubernetes.core.k8s"]["src"] == "{{ playbook_dir }}/10-subscription-nfd.yaml"


def test_the_readme_names_what_a_pod_carries() -> None:
    text = files(HOSTDEVICE, site())["README.txt"]
    assert "  annotation k8s.v1.cni.cncf.io/networks: default/rail0@rail0,default/rail1@rail1\n" in text
    assert "  20-operator.yaml: operator\n" in text
