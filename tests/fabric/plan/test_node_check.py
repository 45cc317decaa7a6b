"""A host takes no plan whose values no Fabric can have, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.node_document import decode_node, encode_node
from trackbed.fabric.plan.plan_file import decode_plan, encode_plan

FULL = b"""
apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {name: train}
spec:
  nodes: [{hosts: gpu-0, nic: "15b3:1021", gpus: 2, ports: [
    {pci: "0000:18:00.0", netdev: enp1s0}, {mac: "b8:3f:d2:00:00:01"}]}]
  rails: 2
  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/15, ipv6: "fd00:10::/48", gateway: last}
  vfs: {count: 2}
  kernel: {isolatedCpus: "4-63", arguments: [pci=realloc], hugepages: [{size: 1G, count: 2}]}
  kubelet: {topologyManager: best-effort, reservedCpus: "0-3"}
  bios: {acs: disabled}
  firmware: {parameters: write}
  kubernetes: {versions: {nvidia-network-operator: v26.4.1}, management: calico,
    images: {agent: "registry.example/agent:1"}}
  repositories: [{name: doca, manager: apt, url: "https://example.com/doca/", key: /etc/apt/keyrings/doca.asc,
    components: [main], install: {doca-ofed: "2.10"}}]
"""
"""A Fabric whose plan has a value in each field."""
_PLAN = compute_plan(load_fabric(FULL, "fabric.yaml").fabric, {})
NODE: dict[str, Any] = json.loads(encode_node(_PLAN.nodes[0]))
PLAN: dict[str, Any] = json.loads(encode_plan(_PLAN, _PLAN.nodes))

HOSTILE = ("x\ntouch /x #", "$(touch /x)", "`id`", '";id;"', "'", "a b", "\\", "<x>", "x: {y}", "", "-h\0", "ä")
_Path = tuple[str | int, ...]


def leaves(value: object, kind: type, path: _Path = ()) -> Iterator[_Path]:
    """The paths of all values of a type."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from leaves(item, kind, (*path, key))
    if type(value) is kind:
        yield path


def replaced(document: dict[str, Any], path: _Path, value: object) -> bytes:
    """The document with another value at a path."""
    changed = deepcopy(document)
    part: Any = changed
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return json.dumps(changed).encode()


def named(paths: Iterator[_Path]) -> list[Any]:
    return [pytest.param(path, id=".".join(map(str, path))) for path in paths]


def test_the_plan_itself_is_taken() -> None:
    assert decode_node(json.dumps(NODE).encode()) == _PLAN.nodes[0]
    assert decode_plan(json.dumps(PLAN).encode()).nodes == _PLAN.nodes


@pytest.mark.parametrize("path", named(leaves(NODE, str)))
def test_no_text_of_a_nodes_plan_may_be_hostile(path: _Path) -> None:
    for text in HOSTILE:
        with pytest.raises(SpecError) as caught:
            decode_node(replaced(NODE, path, text))
        assert [problem.code for problem in caught.value.problems] == ["bad-node-plan"], text


@pytest.mark.parametrize("path", named(leaves(PLAN, str)))
def test_no_text_of_a_whole_plan_may_be_hostile(path: _Path) -> None:
    for text in HOSTILE:
        with pytest.raises(SpecError) as caught:
            decode_plan(replaced(PLAN, path, text))
        assert [problem.code for problem in caught.value.problems] == ["bad-plan"], text


@pytest.mark.parametrize("path", named(path for path in leaves(NODE, int) if path != ("fabric", "nodes")))
def test_no_number_of_a_nodes_plan_may_be_out_of_bounds(path: _Path) -> None:
    for number in (-1, 1 << 40):
        with pytest.raises(SpecError):
            decode_node(replaced(NODE, path, number))


MISFITS = {
    "two ports of one name": (("node", "ports", 1, "netdev"), "rail0"),
    "two ports of one rail": (("node", "ports", 1, "rail"), 0),
    "IPv6 for IPv4": (("node", "ports", 0, "ipv4", "address"), "fd00::1/64"),
    "a gateway of IPv6": (("node", "ports", 0, "ipv4", "gateway"), "fd00::1"),
    "pods of IPv6": (("node", "ports", 0, "ipv4", "podsFirst"), "fd00::1"),
    "a range of IPv6": (("fabric", "rails", 0, "v4"), "fd00::/64"),
    "more rails than there are": (("fabric", "rails"), NODE["fabric"]["rails"] * 33),
    "arguments that fill the command line": (("fabric", "kernel", "arguments"), ["a=" + "b" * 2000]),
    "a name that is a folder of sysctls": (("node", "ports", 0, "netdev"), "all"),
    "a name that tools take for an index": (("node", "ports", 0, "netdev"), "17"),
}


@pytest.mark.parametrize(("path", "value"), MISFITS.values(), ids=MISFITS)
def test_what_cannot_be_planned_is_not_taken(path: _Path, value: object) -> None:
    with pytest.raises(SpecError):
        decode_node(replaced(NODE, path, value))
