"""Edges of single rules that their two examples do not show."""

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint


def rules(*texts: str, nodes: int | None = None) -> list[str]:
    documents, early = parse_manifests("---\n".join(texts).encode(), "m.yaml")
    return [problem.rule for problem in lint(index_documents(documents, nodes), None, early)]


def cidr_pool(spec: str) -> str:
    return f"apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: CIDRPool\nmetadata: {{name: rail0}}\nspec: {{{spec}}}\n"


def spider_pool(spec: str, name: str = "rail0") -> str:
    head = "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool"
    return f"{head}\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


def pod(env: str, limits: str = "nvidia.com/rail0: 1", annotations: str = "k8s.v1.cni.cncf.io/networks: rail0") -> str:
    lock = "securityContext: {capabilities: {add: [IPC_LOCK]}}"
    container = f"{{name: m, image: x, env: [{env}], resources: {{limits: {{{limits}}}}}, {lock}}}"
    metadata = f"{{name: p, annotations: {{{annotations}}}}}"
    return f"apiVersion: v1\nkind: Pod\nmetadata: {metadata}\nspec: {{containers: [{container}]}}\n"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 24, gatewayIndex: 1", [], id="first"),
        pytest.param("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 24, gatewayIndex: 254", [], id="last"),
        pytest.param(
            "cidr: 10.0.0.0/16, perNodeNetworkPrefix: 24, gatewayIndex: 255", ["gateway-index"], id="broadcast"
        ),
        pytest.param("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 24, gatewayIndex: 0", ["gateway-index"], id="network"),
        pytest.param("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 31, gatewayIndex: 1", ["one-pod-per-block"], id="31"),
        pytest.param(
            "cidr: 10.0.0.0/16, perNodeNetworkPrefix: 31, gatewayIndex: 2", ["gateway-index"], id="31-outside"
        ),
        pytest.param("cidr: 'fd00::/48', perNodeNetworkPrefix: 120, gatewayIndex: 255", [], id="v6-last"),
        pytest.param("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 33", ["node-prefix-size"], id="too-long"),
        pytest.param("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 16", [], id="whole-pool"),
    ],
)
def test_a_gateway_index_lies_in_the_nodes_prefix(spec: str, expected: list[str]) -> None:
    assert rules(cidr_pool(spec)) == expected


@pytest.mark.parametrize(("nodes", "expected"), [(256, []), (257, ["pool-too-small"]), (None, [])])
def test_a_pool_is_measured_against_the_number_of_nodes(nodes: int | None, expected: list[str]) -> None:
    assert rules(cidr_pool("cidr: 10.0.0.0/16, perNodeNetworkPrefix: 24"), nodes=nodes) == expected


@pytest.mark.parametrize(
    ("ips", "expected"),
    [
        pytest.param("10.1.0.1-10.1.0.30", [], id="all-usable"),
        pytest.param("10.1.0.0-10.1.0.30", ["broadcast-in-range"], id="network"),
        pytest.param("10.1.0.1-10.1.0.31", ["broadcast-in-range"], id="broadcast"),
        pytest.param("10.1.0.1-10.1.0.32", ["range-outside-subnet"], id="one-more"),
        pytest.param("10.1.0.9-10.1.0.8", ["not-an-address"], id="backwards"),
        pytest.param("10.1.0.9-", ["not-an-address"], id="open"),
        pytest.param("10.1.0.9", [], id="one"),
    ],
)
def test_addresses_to_give_out_are_usable_ones_of_the_subnet(ips: str, expected: list[str]) -> None:
    assert rules(spider_pool(f"subnet: 10.1.0.0/27, ips: [{ips}]")) == expected


def test_point_to_point_subnets_have_two_usable_addresses() -> None:
    assert rules(spider_pool("subnet: 10.1.0.0/31, ips: [10.1.0.0-10.1.0.1]")) == []


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("10.1.0.0/24", "10.1.1.0/24", []),
        ("10.1.0.0/16", "10.1.1.0/24", ["pools-overlap"]),
        ("10.1.0.0/24", "10.1.0.0/24", []),
        ("10.0.0.0/8", "fd00::/8", []),
    ],
)
def test_subnets_of_spiderpool_are_equal_or_apart(first: str, second: str, expected: list[str]) -> None:
    assert rules(spider_pool(f"subnet: '{first}'"), spider_pool(f"subnet: '{second}'", "rail1")) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("mlx5_0", []),
        ("mlx5_1", ["hca-prefix"]),
        ("=mlx5_1", []),
        ("^mlx5_1", ["hca-prefix"]),
        ("^=mlx5_1", []),
        (",".join(f"mlx5_{number}" for number in range(12)), []),  # what mlx5_1 takes too is named
        ("mlx5_0,mlx5_1,mlx5_10", ["hca-prefix"]),
        ("mlx5", []),
        ("eth0", []),
        ("=mlx5_0:1:0,mlx5_1:1:1", []),
        ("", []),
    ],
)
def test_names_of_devices_are_prefixes_unless_an_equals_sign_comes_first(value: str, expected: list[str]) -> None:
    env = f"{{name: NCCL_IB_HCA, value: '{value}'}}, {{name: NCCL_IB_TC, value: '96'}}"
    assert rules(pod(env)) == expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("", "", []),
        ("capabilities: {add: [IPC_LOCK]}", "privileged: true", ["hca-takes-all"]),
        ("nvidia.com/rail0", "rdma/all", ["hca-takes-all"]),
        (", resources: {limits: {nvidia.com/rail0: 1}}", "", ["hca-takes-all"]),
    ],
    ids=["its NICs only", "privileged", "shared device plugin", "no NIC asked for"],
)
def test_all_devices_are_taken_only_where_a_pod_can_open_all(old: str, new: str, expected: list[str]) -> None:
    text = pod("{name: NCCL_IB_HCA, value: mlx5}, {name: NCCL_IB_TC, value: '96'}").replace(old, new)
    assert [rule for rule in rules(text) if rule == "hca-takes-all"] == expected


def test_containers_that_are_merged_over_a_base_may_get_capabilities_from_it() -> None:
    container = "{name: main, image: x, resources: {limits: {rdma/roce: 1}}, env: [{name: NCCL_IB_TC, value: '9'}]}"
    head = "apiVersion: serving.kserve.io/v1alpha1\nkind: LLMInferenceService\nmetadata: {name: m}\n"
    text = f"{head}spec: {{template: {{containers: [{container}]}}}}\n"
    assert "ipc-lock-missing" not in rules(text)
    assert "ipc-lock-missing" in rules(text.replace("LLMInferenceService", "Unknown"))


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("'rail0, ns/rail1@rail1'", []),
        ('\'[{"name": "rail0"}]\'', []),
        ('\'[{"name": "rail0"},]\'', ["json-trailing-comma"]),
        ('\'[{"namespace": "a"}]\'', ["networks-annotation"]),
        ("'rail0, [rail1]'", ["networks-annotation"]),
        ("Rail_0", ["networks-annotation"]),
        ("rail0@abcdefghijklmno", []),
        ("rail0@abcdefghijklmnop", ["interface-name"]),
        ("rail0@eth0", ["interface-name-taken"]),
    ],
)
def test_the_networks_annotation_is_read_as_multus_reads_it(annotation: str, expected: list[str]) -> None:
    assert rules(pod("", annotations=f"k8s.v1.cni.cncf.io/networks: {annotation}")) == expected


def test_a_network_that_a_claim_names_needs_no_resource() -> None:
    nad = (
        "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: rail0}\n"
        'spec: {config: \'{"cniVersion": "1.0.0", "name": "rail0", "type": "sriov"}\'}\n'
    )
    claim = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: nics}\n"
        "spec: {spec: {devices: {config: [{opaque: {parameters: {netAttachDefName: rail0}}}]}}}\n"
    )
    assert rules(nad) == ["network-without-resource"]
    assert rules(nad, claim) == []


def nad(config: str, name: str = "rail0") -> str:
    head = f"apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: {name}, annotations: "
    resource = "{k8s.v1.cni.cncf.io/resourceName: nvidia.com/rail0}}\n"
    return f"{head}{resource}spec: {{config: '{config}'}}\n"


def test_strings_with_blanks_inside_json_are_no_trailing_commas() -> None:
    config = '{"cniVersion": "1.0.0", "name": "a", "type": "bridge", "x": ["192.168.0.0/32", "192.168.255.255/32"]}'
    assert rules(nad(config)) == []


@pytest.mark.parametrize(
    ("name", "expected"), [("rail-1", []), ("rail_1", []), ("rail.1", ["resource-name-invalid"]), ("rail1", [])]
)
def test_a_resource_name_may_hold_a_hyphen_and_no_dot(name: str, expected: list[str]) -> None:
    policy = "{nodeSelector: {a: b}, numVfs: 4, nicSelector: {vendor: 15b3}, resourceName: %s}"
    text = "apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetworkNodePolicy\nmetadata: {name: a}\nspec: "
    assert rules(text + policy % name + "\n") == expected


def test_a_claim_or_an_injector_gives_the_device_of_a_network() -> None:
    network = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "sriov"}')
    bare = pod("", limits="")
    assert rules(network, bare) == ["network-resource-not-requested"]
    assert rules(network, bare.replace("spec: {", "spec: {resourceClaims: [{name: nic}], ")) == []
    operator = "apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovOperatorConfig\nmetadata: {name: default}\n"
    assert rules(network, bare, operator + "spec: {}\n") == []
    assert rules(network, bare, operator + "spec: {enableInjector: false}\n") == ["network-resource-not-requested"]
    assert rules(network.replace("nvidia.com/rail0", "openshift.io/rail0"), bare) == [], "the operator's own prefix"


@pytest.mark.parametrize(("isolation", "expected"), [("", []), (', "rdmaIsolation": true', ["rdma-after-ib-sriov"])])
def test_the_rdma_plugin_follows_ib_sriov_unless_that_isolates(isolation: str, expected: list[str]) -> None:
    plugins = f'[{{"type": "ib-sriov"{isolation}}}, {{"type": "rdma"}}]'
    assert rules(nad(f'{{"cniVersion": "1.0.0", "name": "a", "plugins": {plugins}}}')) == expected


def test_one_object_twice_is_a_duplicate_and_no_overlap() -> None:
    pool = spider_pool("subnet: 10.1.0.0/24, ips: [10.1.0.1-10.1.0.9]")
    assert rules(pool, pool) == ["duplicate-object"]


@pytest.mark.parametrize(
    ("prefix", "gateway", "expected"), [(31, "10.0.0.0", ["gateway-index-differs"]), (24, "10.0.0.10", [])]
)
def test_a_gateway_of_its_own_matters_in_a_small_block(prefix: int, gateway: str, expected: list[str]) -> None:
    static = f"staticAllocations: [{{nodeName: a, prefix: 10.0.0.0/{prefix}, gateway: {gateway}}}]"
    names = rules(cidr_pool(f"cidr: 10.0.0.0/16, perNodeNetworkPrefix: {prefix}, gatewayIndex: 1, {static}"))
    assert [rule for rule in names if rule != "one-pod-per-block"] == expected


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("nvidia.com/gpumem", []),
        ("nvidia.com/gpucores", []),
        ("intel.com/netdevice", []),
        ("intel.com/sgx", []),
        ("rdma/ib", ["ipc-lock-missing"]),
        ("nvidia.com/rail0", ["ipc-lock-missing"]),
        ("nvidia.com/roce_vf", ["ipc-lock-missing"]),
    ],
)
def test_only_rdma_devices_need_to_pin_memory(resource: str, expected: list[str]) -> None:
    text = pod("", limits=f"{resource}: 1", annotations="").replace("add: [IPC_LOCK]", "add: []")
    assert rules(text) == expected


def test_files_of_a_folder_may_be_alternatives() -> None:
    queue = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: q}\nspec:\n  resourceGroups: "
    covered, other = (f"{queue}[{{coveredResources: [{name}], flavors: []}}]\n" for name in ("nvidia.com/rail0", "cpu"))
    job = pod("").replace("metadata: {", "metadata: {labels: {kueue.x-k8s.io/queue-name: q}, ")
    assert "quota-not-covered" not in lint_files({"a/queue.yaml": covered, "b/queue.yaml": other, "a/pod.yaml": job})
    assert "quota-not-covered" in lint_files({"b/queue.yaml": other, "a/pod.yaml": job})


def policy(name: str, nics: str) -> str:
    head = "apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetworkNodePolicy\nmetadata: {name: %s}\nspec: "
    return f"{head % name}{{nodeSelector: {{a: b}}, numVfs: 4, resourceName: {name}, nicSelector: {{{nics}}}}}\n"


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("pfNames: [ens1f0]", "pfNames: [ens1f0]", ["vf-ranges-overlap"]),
        ("pfNames: [ens1f0], vendor: 15b3", "pfNames: [ens1f0]", ["vf-ranges-overlap"]),
        ("pfNames: [ens1f0], vendor: 15b3", "pfNames: [ens1f0], vendor: '8086'", []),
        ("pfNames: [ens1f0], deviceID: '1017'", "pfNames: [ens1f0], deviceID: 158b", []),
    ],
)
def test_two_policies_for_nics_that_differ_share_no_port(first: str, second: str, expected: list[str]) -> None:
    assert rules(policy("a", first), policy("b", second)) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("netdevice", ["resource-without-network"]), ("vfio-pci", [])], ids=["netdevice", "vfio"]
)
def test_a_vf_for_a_program_alone_needs_no_network(kind: str, expected: list[str]) -> None:
    offer = policy("dpdk", "pfNames: [ens1f0]").replace("spec: {", f"spec: {{deviceType: {kind}, ")
    asking = pod("", limits="openshift.io/dpdk: 1", annotations="a: b")
    assert [rule for rule in rules(offer, asking) if rule == "resource-without-network"] == expected


def test_files_that_define_policies_of_each_other_are_alternatives_with_all_that_they_have() -> None:
    port, other = "pfNames: [ens1f0]", "pfNames: [ens2f0]"
    both = f"{policy('c', port)}---\n{policy('d', port)}"
    files = {"p/one.yaml": policy("b", port), "p/two.yaml": both}
    assert lint_files(files) == ["vf-ranges-overlap"] * 2
    again = {f"p/{name}.yaml": policy("d", other) for name in ("three", "four")}
    assert lint_files({**files, **again}) == ["vf-ranges-overlap"]  # of the two in one file
    assert lint_files({**files, "p/three.yaml": again["p/three.yaml"]}) == ["vf-ranges-overlap"] * 2


def test_the_queue_beside_a_job_is_its_queue() -> None:
    cluster = (
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {{name: {}}}\nspec:\n  resourceGroups: "
    )
    large, small = (
        f"{cluster.format(name)}[{{coveredResources: [{resource}], flavors: []}}]\n"
        for name, resource in (("large", "nvidia.com/rail0"), ("small", "cpu"))
    )
    to_large, to_small = (
        f"apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\nmetadata: {{name: q, namespace: {space}}}\n"
        f"spec: {{clusterQueue: {name}}}\n"
        for name, space in (("large", "team"), ("small", "default"))
    )
    job = pod("").replace("metadata: {", "metadata: {labels: {kueue.x-k8s.io/queue-name: q}, ")
    files = {"a/large.yaml": large, "b/small.yaml": small, "a/queue.yaml": to_large, "b/queue.yaml": to_small}
    assert "quota-not-covered" not in lint_files({**files, "a/pod.yaml": job})
    assert "quota-not-covered" in lint_files({**files, "b/pod.yaml": job})
    assert "quota-not-covered" not in lint_files({**files, "c/pod.yaml": job})


def test_a_compute_domain_makes_the_template_that_its_pods_claim() -> None:
    claim = "resourceClaims: [{name: c, resourceClaimTemplateName: channel}], "
    text = pod("").replace("spec: {", "spec: {" + claim)
    template = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: nics}\n"
        "spec: {spec: {devices: {requests: [{name: n, exactly: {deviceClassName: dra.net}}]}}}\n"
    )
    domain = (
        "apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\nmetadata: {name: d}\n"
        "spec: {numNodes: 2, channel: {resourceClaimTemplate: {name: channel}}}\n"
    )
    assert "claim-template-not-found" in lint_files({"a/pod.yaml": text, "a/template.yaml": template})
    assert "claim-template-not-found" not in lint_files({"a/pod.yaml": text, "b/template.yaml": template})
    assert "claim-template-not-found" not in rules(text, template, domain)


def test_a_configuration_with_expressions_is_a_template() -> None:
    assert rules(nad('{"mtu": {{ .Mtu }}, {{ if .Vlan }}"vlan": 7{{ end }}}')) == ["template"]


def test_an_empty_amount_is_one_mistake() -> None:
    assert rules(pod("", limits="nvidia.com/rail0: ")) == ["resource-not-whole"]


@pytest.mark.parametrize(
    ("amount", "expected"),
    [("64k", []), ("1e3", []), ("'2'", []), ("500m", ["resource-not-whole"]), ("all", ["resource-not-whole"])],
)
def test_a_whole_number_may_have_any_form_of_a_quantity(amount: str, expected: list[str]) -> None:
    text = pod("", limits=f"nvidia.com/gpumem: {amount}", annotations="a: b")
    assert [rule for rule in rules(text) if rule != "bad-value"] == expected


def test_equal_quantities_in_other_forms_do_not_differ() -> None:
    limits = "limits: {nvidia.com/gpumem: 64k, hugepages-2Mi: 2Gi, cpu: 1}"
    requests = "requests: {nvidia.com/gpumem: 64000, hugepages-2Mi: 2048Mi}"
    text = pod("", limits="cpu: 1", annotations="a: b").replace("limits: {cpu: 1}", f"{limits}, {requests}")
    assert rules(text) == []


@pytest.mark.parametrize(("count", "expected"), [(1, ["rails-not-gpus"]), (2, []), (4, []), (5, []), (16, [])])
def test_several_nics_for_each_gpu_are_no_mistake(count: int, expected: list[str]) -> None:
    networks = ",".join(f"n{number}" for number in range(count))
    shm = "volumes: [{name: shm, emptyDir: {medium: Memory}}], "
    text = pod("", "nvidia.com/gpu: 4", f"k8s.v1.cni.cncf.io/networks: '{networks}'").replace(
        "spec: {", "spec: {" + shm
    )
    assert [rule for rule in rules(text) if rule != "network-order"] == expected


@pytest.mark.parametrize(("kind", "is_told"), [("IPoIBNetwork", False), ("MacvlanNetwork", True)])
def test_a_network_for_addresses_alone_is_no_rail(kind: str, *, is_told: bool) -> None:
    network = f"apiVersion: mellanox.com/v1alpha1\nkind: {kind}\nmetadata: {{name: ib}}\nspec: {{master: ib0}}\n"
    text = pod("", "nvidia.com/gpu: 8", "k8s.v1.cni.cncf.io/networks: ib")
    assert ("rails-not-gpus" in rules(network, text)) is is_told


def test_a_null_annotation_or_variable_is_empty_text() -> None:
    assert rules(pod("{name: A, value: ~}", annotations="a: ~")) == []
    assert rules(pod("{name: A, value: 1}")) == ["text-expected"]


def test_the_gateway_of_a_whereabouts_range_matters_where_routes_use_it() -> None:
    ipam = '{"type": "whereabouts", "range": "10.1.0.0/24", "gateway": "10.1.0.1"%s}'
    config = '{"cniVersion": "1.0.0", "name": "a", "type": "macvlan", "master": "ens1", "ipam": %s}'
    assert rules(nad(config % (ipam % ""))) == []
    assert rules(nad(config % (ipam % ', "routes": [{"dst": "10.0.0.0/8"}]'))) == ["whereabouts-gateway"]


def lint_files(files: dict[str, str]) -> list[str]:
    parsed = [parse_manifests(text.encode(), file) for file, text in files.items()]
    return [problem.rule for problem in lint(index_documents([doc for docs, _ in parsed for doc in docs]))]


def test_folders_that_share_nothing_are_unrelated_examples() -> None:
    network = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "bridge"}')
    pool = spider_pool("subnet: 10.1.0.0/24")
    first, second = pod(""), pod("", annotations="k8s.v1.cni.cncf.io/networks: other")
    assert lint_files({"a/network.yaml": network, "a/pool.yaml": pool, "a/pod.yaml": first}) == []
    assert lint_files({"a/network.yaml": network, "b/pod.yaml": second}) == []
    assert lint_files({"a/network.yaml": network, "a/pod.yaml": second}) == ["network-not-found"]
    used = lint_files(
        {"a/network.yaml": network, "b/first.yaml": first, "b/second.yaml": second.replace("name: p", "name: q")}
    )
    assert used == ["network-not-found"]
    assert lint_files({"a/pool.yaml": pool, "b/pool.yaml": pool}) == []
    assert lint_files({"a/pool.yaml": pool, "a/copy.yaml": pool}) == []
    larger = spider_pool("subnet: 10.1.0.0/16", "rail1")
    assert lint_files({"a/pool.yaml": pool, "b/pool.yaml": larger}) == []
    assert lint_files({"a/pool.yaml": pool, "a/other.yaml": larger}) == ["pools-overlap"]


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        pytest.param("{}", ["quota-not-covered"], id="none"),
        pytest.param("{transformations: [{input: nvidia.com/rail0, strategy: Replace}]}", [], id="replaced"),
        pytest.param("{excludeResourcePrefixes: [nvidia.com/rail]}", [], id="left-out"),
    ],
)
def test_a_quota_is_not_needed_for_what_kueue_transforms(configuration: str, expected: list[str]) -> None:
    queue = (
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ClusterQueue\nmetadata: {name: gpu}\n"
        "spec: {resourceGroups: [{coveredResources: [nvidia.com/gpu]}]}\n"
    )
    kueue = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kueue}\ndata:\n  controller_manager_config.yaml: |\n"
        f"    apiVersion: config.kueue.x-k8s.io/v1beta1\n    kind: Configuration\n    resources: {configuration}\n"
    )
    job = pod("").replace("name: p,", "name: p, labels: {kueue.x-k8s.io/queue-name: gpu},")
    assert rules(queue, kueue, job) == expected


_POLICY = "apiVersion: mellanox.com/v1alpha1\nkind: NicClusterPolicy\nmetadata: {name: a}\nspec: {%s}\n"
_NV_IPAM_CRD = (
    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
    "metadata: {name: ippools.nv-ipam.nvidia.com}\nspec: {group: nv-ipam.nvidia.com}\n"
)


@pytest.mark.parametrize(
    ("texts", "is_reported"),
    [
        pytest.param((_POLICY % "nvIpam: {version: v1}", _NV_IPAM_CRD), True, id="both"),
        pytest.param((_POLICY % "nvIpam: ~", _NV_IPAM_CRD), False, id="without-nv-ipam"),
        pytest.param((_NV_IPAM_CRD,), False, id="no-policy"),
        pytest.param((_POLICY % "nvIpam: {version: v1}", _NV_IPAM_CRD.replace("nv-ipam", "ipam")), False, id="other"),
    ],
)
def test_crds_of_nv_ipam_that_the_network_operator_deletes_later_are_noted(
    texts: tuple[str, ...], is_reported: bool
) -> None:
    assert ("nv-ipam-crd-taken-over" in rules(*texts)) == is_reported


@pytest.mark.parametrize(
    ("link", "expected"), [("infiniband", []), ("ether", ["resource-without-network"])], ids=["infiniband", "ethernet"]
)
def test_a_nic_that_a_device_plugin_calls_rdma_is_offered_and_needs_a_network_for_roce_alone(
    link: str, expected: list[str]
) -> None:
    resource = f'{{"resourcePrefix": "rdma", "resourceName": "ib", "selectors": {{"linkTypes": ["{link}"]}}}}'
    shared = 'rdmaSharedDevicePlugin: {config: \'{"configList": [{"resourceName": "other", "selectors": {}}]}\'}'
    policy = _POLICY % f"{shared}, sriovDevicePlugin: {{config: '{{\"resourceList\": [{resource}]}}'}}"
    asking = pod("", limits="rdma/ib: 8", annotations="a: b")
    assert [rule for rule in rules(policy, asking) if rule.startswith("resource-")] == expected


def test_crds_in_another_folder_are_of_another_cluster() -> None:
    files = {"a/policy.yaml": _POLICY % "nvIpam: {version: v1}", "b/crd.yaml": _NV_IPAM_CRD}
    documents = [doc for name, text in files.items() for doc in parse_manifests(text.encode(), name)[0]]
    assert "nv-ipam-crd-taken-over" not in [problem.rule for problem in lint(index_documents(documents))]


_CLAIM = (
    "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata: {name: rails}\n"
    "spec: {spec: {devices: {requests: [{name: nic, exactly: {deviceClassName: %s}}]}}}\n"
)
_CLASS = (
    "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: nics}\n"
    "spec: {selectors: [{cel: {expression: 'device.driver == \"dra.net\"'}}]}\n"
)


@pytest.mark.parametrize(
    ("class_name", "claim", "expected"),
    [
        pytest.param("nics", "resourceClaimTemplateName: rails", True, id="by-its-class"),
        pytest.param("gpus", "resourceClaimTemplateName: rails", False, id="another-class"),
        pytest.param("{a: [nics]}", "resourceClaimTemplateName: rails", False, id="class-is-a-mapping"),
        pytest.param("nics", "resourceClaimTemplateName: [rails]", False, id="name-is-a-list"),
        pytest.param("nics", "resourceClaimName: rails", False, id="a-claim-of-that-name"),
    ],
)
def test_a_claim_is_for_a_network_by_its_driver(class_name: str, claim: str, *, expected: bool) -> None:
    bare = pod("", limits="").replace("spec: {", f"spec: {{hostNetwork: true, resourceClaims: [{{name: c, {claim}}}], ")
    assert ("network-claim-with-host-network" in rules(_CLASS, _CLAIM % class_name, bare)) == expected


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param("Pod", "args: [--address=ray-head:6379]", ["host-network-dns"], id="a host with a port"),
        pytest.param("Pod", "env: [{name: URL, value: 'http://store.ai.svc'}]", ["host-network-dns"], id="a service"),
        pytest.param("Pod", "args: [--address=10.0.0.1:6379, 'localhost:80', 'a:b']", [], id="nothing to resolve"),
        pytest.param("JobSet", "args: [run]", ["host-network-dns"], id="pods with peers"),
    ],
)
def test_the_default_resolver_matters_where_names_are_resolved(kind: str, fields: str, expected: list[str]) -> None:
    spec = f"{{hostNetwork: true, containers: [{{name: a, image: a, resources: {_EIGHT}, {fields}}}]}}"
    pod = f"spec: {spec}" if kind == "Pod" else f"spec: {{template: {{spec: {spec}}}}}"
    text = f"apiVersion: {'v1' if kind == 'Pod' else 'apps/v1'}\nkind: {kind}\nmetadata: {{name: a}}\n{pod}\n"
    assert [rule for rule in rules(text) if rule == "host-network-dns"] == expected


_EIGHT = "{limits: {nvidia.com/gpu: '8'}}"


@pytest.mark.parametrize(("nics", "is_told"), [("'1'", True), ("'2'", False)])
def test_amounts_written_as_text_are_counted(nics: str, *, is_told: bool) -> None:
    network = "metadata: {name: a, annotations: {k8s.v1.cni.cncf.io/networks: rails}}"
    container = f"{{name: a, image: a, resources: {{limits: {{nvidia.com/gpu: '8', rdma/roce: {nics}}}}}}}"
    text = f"apiVersion: v1\nkind: Pod\n{network}\nspec: {{containers: [{container}]}}\n"
    assert ("rails-not-gpus" in rules(text)) is is_told, "a network that attaches two NICs counts as two"


@pytest.mark.parametrize(
    ("namespace", "of_pod", "expected"),
    [
        pytest.param(", namespace: rails", ", namespace: training", ["network-in-other-namespace"], id="both are said"),
        pytest.param("", ", namespace: training", [], id="that of the network is not"),
        pytest.param(", namespace: rails", "", [], id="that of the pod is not"),
    ],
)
def test_what_has_no_namespace_is_where_it_is_applied(namespace: str, of_pod: str, expected: list[str]) -> None:
    network = (
        f"apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: a{namespace}}}\n"
        'spec: {config: \'{"cniVersion": "1.0.0", "name": "a", "type": "macvlan", "master": "eth1"}\'}\n'
    )
    metadata = f"{{name: a{of_pod}, annotations: {{k8s.v1.cni.cncf.io/networks: a}}}}"
    text = f"{network}---\napiVersion: v1\nkind: Pod\nmetadata: {metadata}\n"
    assert rules(f"{text}spec: {{containers: [{{name: a, image: a}}]}}\n") == expected


@pytest.mark.parametrize(
    ("kind", "is_told"), [("RayCluster", False), ("OtherCluster", True), ("DynamoGraphDeployment", False)]
)
def test_some_operators_mount_memory_themselves(kind: str, *, is_told: bool) -> None:
    container = "{name: a, image: a, resources: {limits: {nvidia.com/gpu: 8, rdma/hca: 1}}}"
    spec = f"{{workerGroupSpecs: [{{template: {{spec: {{containers: [{container}]}}}}}}]}}"
    text = f"apiVersion: ray.io/v1\nkind: {kind}\nmetadata: {{name: a}}\nspec: {spec}\n"
    assert ("shm-missing" in rules(text)) is is_told


def test_of_networks_with_one_name_that_of_the_pods_folder_counts() -> None:
    near = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "macvlan", "master": "eth1"}')
    far = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "sriov"}')
    asking = pod("", limits="")
    assert "network-resource-not-requested" not in lint_files({"a/n.yaml": far, "b/n.yaml": near, "b/p.yaml": asking})
    assert "network-resource-not-requested" in lint_files({"a/n.yaml": far, "b/n.yaml": near, "a/p.yaml": asking})


def test_what_a_marker_of_bridges_counts_is_for_the_scheduler() -> None:
    network = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "bridge", "bridge": "br1"}')
    assert rules(network.replace("nvidia.com/rail0", "ovs-cni.network.kubevirt.io/br1"), pod("", limits="")) == []


def test_a_network_of_two_set_ups_needs_the_resource_of_one() -> None:
    network = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "sriov"}')
    spec = "{resourceName: vf, networkNamespace: default}"
    other = f"apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetwork\nmetadata: {{name: rail0}}\nspec: {spec}\n"
    assert "network-resource-not-requested" in rules(network, pod("", limits=""))
    assert "network-resource-not-requested" not in rules(network, other, pod("", limits="openshift.io/vf: 1"))


def test_the_default_network_may_take_a_device() -> None:
    network = nad('{"cniVersion": "1.0.0", "name": "rail0", "type": "sriov"}')
    alone = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a%s}\nspec: {containers: [{name: a, image: a, resources: %s}]}\n"
    )
    limits = "{limits: {nvidia.com/rail0: 1}}"
    assert "resource-without-network" in rules(network, alone % ("", limits))
    annotation = ", annotations: {v1.multus-cni.io/default-network: default/rail0}"
    assert "resource-without-network" not in rules(network, alone % (annotation, limits))
