"""Edges of single rules that their two examples do not show."""

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import read_manifests
from trackbed.lint.run import lint


def rules(*texts: str, nodes: int | None = None) -> list[str]:
    documents, early = read_manifests("---\n".join(texts).encode(), "m.yaml")
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
        ("mlx5", ["hca-takes-all"]),
        ("=mlx5_0:1:0,mlx5_1:1:1", []),
        ("", []),
    ],
)
def test_names_of_devices_are_prefixes_unless_an_equals_sign_comes_first(value: str, expected: list[str]) -> None:
    env = f"{{name: NCCL_IB_HCA, value: '{value}'}}, {{name: NCCL_IB_TC, value: '96'}}"
    assert rules(pod(env)) == expected


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
