"""Files that were written to end lint by a traceback, or to hold it: each costs a time that grows as the file does."""

from __future__ import annotations

import pytest

from trackbed.lint.corpus import index_documents
from trackbed.lint.manifests import parse_manifests
from trackbed.lint.run import lint
from trackbed.lint.schemas.crds import index_crds

POD = "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{0}, annotations: {{k8s.v1.cni.cncf.io/networks: '{1}'}}}}\n"
CONTAINER = "spec: {{containers: [{{name: a, image: '{}'}}]}}\n"
POLICY = (
    "apiVersion: sriovnetwork.openshift.io/v1\nkind: SriovNetworkNodePolicy\nmetadata: {{name: n{0}, namespace: x}}\n"
    "spec: {{resourceName: r{0}, nicSelector: {{pfNames: ['eth0#{1}-{1}']}}, nodeSelector: {{a: b}}, numVfs: {2}}}\n"
)
NIC_POLICY = "apiVersion: mellanox.com/v1alpha1\nkind: KIND\nmetadata: {{name: n{}}}\nspec: {{ofedDriver: {{}}}}\n"
POOL = (
    "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata: {{name: p{0}}}\n"
    "spec: {{subnet: 10.1.0.0/16"
)
NODE_BLOCKS = "apiVersion: nv-ipam.nvidia.com/v1alpha1\nkind: IPPool\nmetadata: {name: a}\nspec:\n"
USER = (
    "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {{name: n{0}}}\nspec:\n"
    '  config: \'{{"cniVersion": "1.0.0", "name": "a", "type": "macvlan", "master": "e",\n'
    '    "ipam": {{"type": "spiderpool", "default_ipv4_ippool": ["p{0}*"]}}}}\'\n'
)
LONG = "f" * 5000
NINES = "9" * 5000


def find(text: str) -> list[str]:
    documents, early = parse_manifests(text.encode(), "a.yaml")
    return [problem.rule for problem in lint(index_documents(documents), index_crds(), early)]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(POLICY.format(0, 1, f"0x{LONG}"), id="VFs in hexadecimal"),
        pytest.param(POLICY.format(0, NINES, 8), id="a range of VFs"),
        pytest.param(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: 0x{LONG}}}\n", id="a text"),
        pytest.param(f"apiVersion: v1\nkind: 0x{LONG}\nmetadata: {{name: a}}\n", id="a kind"),
        pytest.param(POD.format(0, f"a,b{NINES}") + CONTAINER.format("i"), id="a network"),
        pytest.param(POD.format(0, "a,\u00b2") + CONTAINER.format("i"), id="a digit that is no decimal"),
        pytest.param(POD.format(0, "a") + CONTAINER.format(f"pytorch/pytorch:{NINES}.1"), id="a version"),
    ],
)
def test_a_number_of_any_length_is_a_problem_or_none(text: str) -> None:
    assert isinstance(find(text), list)


def repeat(number: int, *texts: str) -> str:
    return "---\n".join(text.format(index) for index in range(number) for text in texts)


@pytest.mark.parametrize(
    ("text", "rule", "count"),
    [
        pytest.param(
            "---\n".join(POLICY.format(index, index, 1000) for index in range(1000)), "vf-ranges-overlap", 0, id="ports"
        ),
        pytest.param(
            repeat(
                2000,
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{}}}\ndata: {{a: b}}\n",
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{}}}\nspec: {{containers: [{{name: a, image: i}}]}}\n",
            ),
            "missing-field",
            0,
            id="ConfigMaps and pods",
        ),
        pytest.param(
            repeat(
                1500,
                NIC_POLICY.replace("KIND", "NicNodePolicy"),
                NIC_POLICY.replace("KIND", "NicClusterPolicy"),
            ),
            "section-in-both-policies",
            1500,
            id="policies of nodes and clusters",
        ),
        pytest.param(
            NODE_BLOCKS
            + "  subnet: 10.0.0.0/8\n  perNodeBlockSize: 1000000\n  perNodeExclusions:\n"
            + "".join(f"  - {{startIndex: {2 * index}, endIndex: {2 * index + 1}}}\n" for index in range(20_000)),
            "exclusions-overlap",
            0,
            id="exclusions by index",
        ),
        pytest.param(
            POOL.format(0)
            + ", gateway: 10.1.0.1, ips: [10.1.0.2-10.1.255.254], excludeIPs: ["
            + ", ".join(f"10.1.{number // 128}.{number % 128 * 2}" for number in range(8000))
            + "]}\n",
            "gateway-handed-out",
            0,
            id="excluded addresses",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
            + "# trackbed: ignore text-expected a reason\n" * 20_000
            + "data: {a: 1}\n",
            "ignore-unused",
            20_000,
            id="comments",
        ),
        pytest.param(repeat(1000, POOL + "}}\n", USER), "pool-not-used", 0, id="wildcards"),
    ],
)
def test_many_objects_cost_a_time_that_grows_as_they_do(text: str, rule: str, count: int) -> None:
    assert find(text).count(rule) == count


def test_a_text_of_quotes_without_an_end_costs_none() -> None:
    config = '\\"' * 100_000
    text = (
        "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {name: a}\n"
        f"spec: {{config: '{config}'}}\n"
    )
    assert find(text) != []


def test_an_object_of_many_unknown_fields_shows_the_first_hundred() -> None:
    fields = "".join(f"  f{number}: 1\n" for number in range(20_000))
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: a, image: i}}]\n{fields}"
    assert find(text).count("unknown-field") == 100
