import pytest

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.node_document import encode_node
from trackbed.fabric.plan.plan import Plan, UplinksPlan
from trackbed.fabric.plan.plan_file import decode_plan, encode_plan


def plan(uplinks: str = "") -> Plan:
    text = f"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu-[0-3]"}}]
  rails: 2
  nodesPerUnit: 48
  addressing: {{scheme: shared-subnet, ipv4: 10.64.0.0/15}}
{uplinks and f"  uplinks: {uplinks}"}
"""
    return compute_plan(load_fabric(text.encode(), "fabric.yaml").fabric, {})


@pytest.mark.parametrize(
    ("uplinks", "planned"),
    [
        pytest.param("", None, id="not described"),
        pytest.param("{}", UplinksPlan(48), id="a spine for each host of a leaf"),
        pytest.param("{links: 5}", UplinksPlan(10, 5), id="as many spines as carry all hosts"),
        pytest.param("{spines: 16, links: 2, rate: 800, unitsPerPod: 8}", UplinksPlan(16, 2, 800, 8), id="all of them"),
    ],
)
def test_uplinks_are_planned_with_defaults_by_layout(uplinks: str, planned: UplinksPlan | None) -> None:
    assert plan(uplinks).uplinks == planned


def test_a_plan_document_carries_uplinks() -> None:
    wanted = plan("{spines: 16, links: 2, rate: 800, unitsPerPod: 8}")
    assert decode_plan(encode_plan(wanted, wanted.nodes)) == wanted


def test_a_fabric_without_uplinks_has_the_plan_document_of_before() -> None:
    assert b"uplinks" not in encode_plan(plan(), plan().nodes)


def test_the_document_of_a_node_does_not_change_with_uplinks() -> None:
    assert encode_node(plan("{spines: 16}").nodes[0]) == encode_node(plan().nodes[0])


@pytest.mark.parametrize(
    "uplinks",
    [
        "{spines: 0}",
        "{spines: 1025}",
        "{links: 0}",
        "{links: 65}",
        "{rate: 0}",
        "{rate: 6401}",
        "{unitsPerPod: 0}",
        "{spine: 4}",
    ],
)
def test_an_impossible_uplink_is_refused_at_its_place(uplinks: str) -> None:
    with pytest.raises(SpecError) as refused:
        plan(uplinks)
    (problem,) = refused.value.problems
    assert problem.path[:2] == ("spec", "uplinks")


@pytest.mark.parametrize("field", [b'"spines":16', b'"links":2', b'"rateGbps":800', b'"unitsPerPod":8'])
def test_a_plan_document_with_an_impossible_uplink_is_refused(field: bytes) -> None:
    wanted = plan("{spines: 16, links: 2, rate: 800, unitsPerPod: 8}")
    raw = encode_plan(wanted, wanted.nodes)
    assert field in raw
    with pytest.raises(SpecError, match="no plan of Trackbed"):
        decode_plan(raw.replace(field, field.partition(b":")[0] + b":-1"))


@pytest.mark.parametrize("rate", [0.02, 400])
def test_a_plan_document_carries_the_rate_of_ports_and_no_nodes_does(rate: float) -> None:
    wanted = plan("{spines: 16}\n  rate: " + str(rate))
    assert (wanted.rate_gbps, decode_plan(encode_plan(wanted, wanted.nodes))) == (rate, wanted)
    assert encode_node(wanted.nodes[0]) == encode_node(plan().nodes[0])


@pytest.mark.parametrize("rate", ["0", "6401", "-1", ".nan", ".inf"])
def test_an_impossible_rate_is_refused_at_its_place(rate: str) -> None:
    with pytest.raises(SpecError) as refused:
        plan("{spines: 16}\n  rate: " + rate)
    assert [problem.path for problem in refused.value.problems] == [("spec", "rate")]


@pytest.mark.parametrize("rate", [b"-1", b"7000", b'"400"', b"true"])
def test_a_plan_document_with_an_impossible_rate_is_refused(rate: bytes) -> None:
    wanted = plan("{spines: 16}\n  rate: 400")
    raw = encode_plan(wanted, wanted.nodes)
    with pytest.raises(SpecError, match="no plan of Trackbed"):
        decode_plan(raw.replace(b'"rateGbps":400.0', b'"rateGbps":' + rate))
