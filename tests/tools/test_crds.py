"""Fabric and RailNode on a real API server: it takes what the file format takes, and refuses what it can tell."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from trackbed_lab.kubernetes.blocking import BlockingClient, connect

from tests.kinds import installed
from tools.pages.crds import iter_crds
from trackbed.cluster.api.errors import ApiRefusedError
from trackbed.cluster.api.response import Object
from trackbed.cluster.resources.conditions import Condition
from trackbed.cluster.resources.railnode import API_VERSION, RailNodeSpec, RailNodeStatus
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import build_fabric_from_resource, load_fabric
from trackbed.fabric.model.problems import SpecError

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.yaml"))


@pytest.fixture(scope="module")
def client(api_server: Path) -> Iterator[BlockingClient]:
    with connect(str(api_server)) as blocking_client:
        installed(blocking_client)
        yield blocking_client


def example(name: str) -> Object:
    """A Fabric as kubectl sends it: YAML's own types, not text."""
    body: Object = yaml.safe_load((ROOT / "examples" / f"{name}.yaml").read_text())
    return body


def changed(at: str, value: Any) -> Object:
    """The example with one field of `spec` set; keys are separated by dots."""
    body = example("shared-subnet")
    *keys, last = at.split(".")
    inner = body["spec"]
    for key in keys:
        inner = inner.setdefault(key, {})
    inner[last] = value
    return body


def outcome(read: Callable[[], Fabric]) -> Fabric | list[str]:
    """What was read, or what is wrong with it: fields that do not fit together are the webhook's to refuse."""
    try:
        return read()
    except SpecError as error:
        return [problem.code for problem in error.problems]


def refusal(client: BlockingClient, body: Object) -> str:
    with pytest.raises(ApiRefusedError) as caught:
        client.create(body, dry_run=True)
    return str(caught.value)


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_is_a_custom_resource_as_it_stands(client: BlockingClient, path: Path) -> None:
    answer = client.create(example(path.stem), dry_run=True)
    assert answer.warnings == ()
    assert build_fabric_from_resource(answer.body) == load_fabric(path.read_bytes(), path.name).fabric


@pytest.mark.parametrize(
    ("at", "value"),
    [
        ("rails", [{"name": "ib0"}, {"gateway": "10.1.255.254"}, {}]),
        ("nodes", [{"hosts": "a[0-3]", "ports": ["0000:18:00.0", None, {"mac": "b8:3f:d2:00:00:01"}], "gpus": 8}]),
        ("nodes", [{"hosts": "a", "hostPorts": {"a": ["b8:3f:d2:00:00:01", None]}}]),
        ("kubernetes.pkey", "0x8001"),
        ("kubernetes.pkey", 32769),
        ("bios.numaPerSocket", 2),
        ("bios.numaPerSocket", "2"),
        ("rollout.maxUnavailable", 3),
        ("rollout.maxUnavailable", "10%"),
        ("otherRanges.pods", ["10.244.0.0/16", "fd00:244::/56"]),
    ],
)
def test_fields_of_several_types_are_taken_as_the_file_takes_them(client: BlockingClient, at: str, value: Any) -> None:
    sent = changed(at, value)
    kept = client.create(sent, dry_run=True).body
    assert kept["spec"] == sent["spec"]
    text = yaml.safe_dump(sent, sort_keys=False).encode()
    assert outcome(lambda: build_fabric_from_resource(kept)) == outcome(lambda: load_fabric(text, "x").fabric)


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        ("addressing.ipv4", "10.0.0.1/13", "spec.addressing.ipv4: .*host bits are set"),
        ("addressing.ipv4", "fd00::/32", "spec.addressing.ipv4: .*write an IPv4 range, for example 10.0.0.0/16"),
        ("addressing.ipv4NodePrefix", 27, "ipv4NodePrefix goes with scheme node-subnet only"),
        ("addressing.scheme", "flat", 'Unsupported value: "flat": supported values: "shared-subnet"'),
        ("addressing.podAddress", 3, 'unknown field "spec.addressing.podAddress"'),
        ("otherRanges.services", ["10.96.0.1/12"], "write a range without host bits"),
        ("qos.dscp", 64, "spec.qos.dscp in body should be less than or equal to 63"),
        ("names.rdma", "y{rail}\ntouch /x #", "spec.names.rdma in body should match"),
        ("names.netdev", "{rail[0]}", "spec.names.netdev in body should match"),
        ("names.leaf", "{rail:>99}", "spec.names.leaf in body should match"),
        ("names.leaf", "{rail}" * 22, "spec.names.leaf: Too long: may not be more than 128"),
        ("kubernetes.stack", "Native", "spec.kubernetes.stack in body should match"),
        ("nodes", [], "spec.nodes in body should have at least 1 items"),
        ("mtu", "9000", "spec.mtu.*must be of type integer"),
    ],
)
def test_what_a_schema_can_tell_is_refused_by_the_server_itself(
    client: BlockingClient, at: str, value: Any, message: str
) -> None:
    assert re.search(message, refusal(client, changed(at, value)))


def test_a_scheme_bounds_its_own_fields(client: BlockingClient) -> None:
    body = example("point-to-point")
    body["spec"]["addressing"]["podAddresses"] = 2
    assert "podAddresses is 1 at most in scheme point-to-point" in refusal(client, body)
    body["spec"]["addressing"] |= {"podAddresses": 1, "ipv6": "fd02::/32", "ipv6NodePrefix": 56}
    assert "ipv6NodePrefix is 64 at least in scheme point-to-point" in refusal(client, body)


def test_the_name_of_a_fabric_is_a_label(client: BlockingClient) -> None:
    body = example("shared-subnet")
    body["metadata"]["name"] = "with.dots"
    assert "a fabric's name is a DNS label" in refusal(client, body)


def test_every_field_of_the_models_is_explained() -> None:
    def undocumented(schema: dict[str, Any], path: str) -> Iterator[str]:
        for name, definition in schema.get("properties", {}).items():
            if not definition.get("description") and path:
                yield f"{path}.{name}"
            yield from undocumented(definition.get("items", definition), f"{path}.{name}")

    for definition in iter_crds():
        inside = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        assert not [path for part in ("spec", "status") for path in undocumented(inside[part], part)]


def railnode(name: str, **spec: Any) -> Object:
    rail_node_spec = msgspec.to_builtins(RailNodeSpec(**{"fabric": "train", "slot": 3, **spec}))
    return {"apiVersion": API_VERSION, "kind": "RailNode", "metadata": {"name": name}, "spec": rail_node_spec}


def test_a_railnode_keeps_what_the_structs_say(client: BlockingClient) -> None:
    sent = railnode("whole", plan={"node": {"name": "whole", "ports": [{"rail": 0}]}}, plan_hash="ab", may_change=True)
    kept = client.create(sent).body
    assert kept["spec"] == sent["spec"]
    status = RailNodeStatus(
        "ab", "boot", conditions=(Condition("Prepared", "True", "AsPlanned", "", "2026-01-01T00:00:00Z"),)
    )
    response = client.apply(
        {**railnode("whole"), "spec": {}, "status": msgspec.to_builtins(status)}, subresource="/status"
    )
    assert msgspec.convert(response.body["status"], RailNodeStatus) == status


def test_fabric_and_slot_of_a_railnode_stay(client: BlockingClient) -> None:
    client.apply(railnode("fixed"))
    for other in (railnode("fixed", slot=4), railnode("fixed", fabric="other")):
        with pytest.raises(ApiRefusedError, match="fabric and slot of a node stay"):
            client.apply(other)
