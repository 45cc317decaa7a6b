from tests.prove.topologies import build
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.prove.topology import NO_LEAF, Uplinks, build_topology, read_uplinks


def test_ports_are_numbered_by_node_and_rail() -> None:
    topology = build(3, 2, 2, half=1)
    assert topology.nodes == ("n1", "n2", "n3", "half1")
    assert [topology.leaves[leaf] if leaf != NO_LEAF else "" for leaf in topology.leaf_of] == [
        "leaf-u0-r0", "leaf-u0-r1", "leaf-u0-r0", "leaf-u0-r1", "leaf-u1-r0", "leaf-u1-r1", "leaf-u1-r0", "",
    ]  # fmt: skip
    assert [[list(leaf) for leaf in leaves] for leaves in topology.ports] == [[[0, 2], [4, 6]], [[1, 3], [5]]]
    assert topology.count_ports() == 7


def test_leaves_of_a_rail_are_grouped_by_pod() -> None:
    topology = build(8, 2, 1, Uplinks(2, units_per_pod=2))
    assert [[list(leaf) for leaf in pod] for pod in topology.iter_pods(0)] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_a_leaf_has_an_uplink_for_each_host_by_default() -> None:
    assert build(4, 2).uplinks == Uplinks(2)


def test_uplinks_are_those_of_the_fabric() -> None:
    spec = {"nodes": [{"hosts": "n[1-8]"}], "rails": 2, "nodesPerUnit": 2, "addressing": {"scheme": "none"}}
    uplinks = {"spines": 4, "links": 2, "rate": 800, "unitsPerPod": 2}
    fabric = Fabric.model_validate(
        {
            "apiVersion": "trackbed.dev/v1alpha1",
            "kind": "Fabric",
            "metadata": {"name": "f"},
            "spec": spec | {"uplinks": uplinks},
        }
    )
    plan = compute_plan(fabric, {})
    assert read_uplinks(plan, port_gbps=400) == Uplinks(4, 2, 2.0, 2)
    assert read_uplinks(plan) == Uplinks(4, 2, 1.0, 2)
    assert list(build_topology(plan).pods) == [0, 0, 0, 0, 1, 1, 1, 1]
