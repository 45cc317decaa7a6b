"""NodeFeatureRules: which nodes get the labels that stacks select by."""

from __future__ import annotations

import json

from tests.cluster.stacks.fabrics import site
from tests.cluster.stacks.sites import NODE_SUBNET, alike, unlike
from trackbed.cluster.stacks.groups import group_nodes
from trackbed.cluster.stacks.nfd import MAX_NODES_PER_RULE, build_node_feature_rules
from trackbed.cluster.stacks.objects import Manifest
from trackbed.cluster.stacks.size import MAX_REQUEST_BYTES


def names(rule: Manifest) -> list[str]:
    (nodes,) = [f for f in rule["spec"]["rules"][0]["matchFeatures"] if f["feature"] == "system.name"]
    result: list[str] = nodes["matchExpressions"]["nodename"]["value"]
    return result


def test_a_node_is_labelled_once_every_rails_port_is_there() -> None:
    (rule,) = build_node_feature_rules(site(alike(2, 2), 2))
    assert rule["apiVersion"] == "nfd.k8s-sigs.io/v1alpha1"
    assert rule["spec"]["rules"] == [
        {
            "name": "trackbed-train-0-0",
            "labels": {"trackbed.dev/fabric": "train"},
            "matchFeatures": [
                {"feature": "system.name", "matchExpressions": {"nodename": {"op": "In", "value": ["gpu-0", "gpu-1"]}}},
                {"feature": "network.device", "matchExpressions": {"name": {"op": "In", "value": ["rail0"]}}},
                {"feature": "network.device", "matchExpressions": {"name": {"op": "In", "value": ["rail1"]}}},
            ],
        }
    ]


def test_where_ports_move_into_pods_the_label_hangs_on_the_card_not_on_the_ports() -> None:
    (rule,) = build_node_feature_rules(site(alike(2, 2), 2, pods={"mode": "move"}))
    assert [matcher["feature"] for matcher in rule["spec"]["rules"][0]["matchFeatures"]] == [
        "system.name",
        "pci.device",
    ]
    assert rule["spec"]["rules"][0]["matchFeatures"][1]["matchExpressions"] == {
        "vendor": {"op": "In", "value": ["15b3"]},
        "device": {"op": "In", "value": ["1021"]},
    }


def test_without_a_known_card_the_name_alone_decides() -> None:
    nodes = [{"hosts": "gpu-[0-1]"}]
    (rule,) = build_node_feature_rules(site(nodes, 2), ports_stay=False)
    assert [matcher["feature"] for matcher in rule["spec"]["rules"][0]["matchFeatures"]] == ["system.name"]


def test_labels_are_the_ones_that_groups_select_by() -> None:
    planned = site(unlike())
    rules = list(build_node_feature_rules(planned))
    assert [rule["spec"]["rules"][0]["labels"] for rule in rules] == [
        group.node_labels for group in group_nodes(planned)
    ]
    assert [names(rule) for rule in rules] == [["gpu-0", "gpu-1"], ["big-0", "big-1"]]


def test_12500_nodes_stand_in_rules_that_fit_each_node_in_one() -> None:
    nodes = [{"hosts": "gpu-[0-12499]"}]
    planned = site(nodes, addressing=NODE_SUBNET | {"ipv4": "10.0.0.0/8", "ipv4NodePrefix": 29})
    rules = list(build_node_feature_rules(planned))
    named = [name for rule in rules for name in names(rule)]
    assert len(rules) == 13
    assert sorted(named) == sorted(node.name for node in planned.nodes)
    assert len({rule["metadata"]["name"] for rule in rules}) == len(rules)
    assert max(len(json.dumps(rule)) for rule in rules) + MAX_NODES_PER_RULE * 253 < MAX_REQUEST_BYTES
