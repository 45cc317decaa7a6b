from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fabric.plan.fabrics import HEAD, fabric, fabrics
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.ranges import Range
from trackbed.fabric.plan.compute import build_layouts, compute_plan
from trackbed.fabric.plan.explain import explain_address
from trackbed.fabric.plan.lock import merge_slots
from trackbed.fabric.plan.node_document import decode_node, encode_node
from trackbed.fabric.plan.plan import AddressPlan, Plan, PortPlan


def _list_addresses(plan: Plan) -> list[tuple[PortPlan, AddressPlan]]:
    return [(port, address_plan) for node in plan.nodes for port in node.ports for address_plan in port.addresses]


def _list_assigned(address_plan: AddressPlan) -> list[int]:
    """Return the addresses of the port and its pods; in a /31 they are the same."""
    return sorted(
        {address_plan.address, *range(address_plan.pods_first, address_plan.pods_first + address_plan.pods_count)}
    )


@given(fabrics())
def test_no_address_is_handed_out_twice(wanted: Fabric) -> None:
    given_out = [
        (address_plan.version, address)
        for _, address_plan in _list_addresses(compute_plan(wanted, {}))
        for address in _list_assigned(address_plan)
    ]
    assert len(given_out) == len(set(given_out))


@given(fabrics())
def test_every_address_lies_in_its_rails_range_and_its_own_subnet(wanted: Fabric) -> None:
    plan = compute_plan(wanted, {})
    for port, address_plan in _list_addresses(plan):
        rail = plan.common.rails[port.rail]
        rail_range = rail.v4 if address_plan.version == 4 else rail.v6
        assert rail_range is not None
        assert all(address in rail_range and address in address_plan.subnet for address in _list_assigned(address_plan))


@given(fabrics())
def test_gateways_network_and_broadcast_addresses_are_never_handed_out(wanted: Fabric) -> None:
    plan = compute_plan(wanted, {})
    gateways = {(address_plan.version, address_plan.gateway) for _, address_plan in _list_addresses(plan)}
    for _, address_plan in _list_addresses(plan):
        point_to_point = address_plan.subnet.size == 2
        for address in _list_assigned(address_plan):
            assert (address_plan.version, address) not in gateways
            if not point_to_point:
                assert address != address_plan.subnet.base
                assert address_plan.version == 6 or address != address_plan.subnet.last


@given(fabrics())
def test_a_gateway_lies_in_the_subnet_of_its_port(wanted: Fabric) -> None:
    assert all(
        address_plan.gateway in address_plan.subnet
        for _, address_plan in _list_addresses(compute_plan(wanted, {}))
        if address_plan.gateway
    )


@given(st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=1, max_size=8), fabrics())
def test_adding_and_removing_nodes_never_renumbers_another(steps: list[set[int]], like: Fabric) -> None:
    lock: dict[str, int] = {}
    first_addresses: dict[str, list[str]] = {}
    for members in steps:
        hosts = ",".join(f"n{number}" for number in sorted(members))
        document = like.model_dump(by_alias=True, mode="json", exclude_none=True)
        document["spec"]["nodes"] = [{"hosts": hosts}]
        document["spec"]["addressing"] = {"scheme": "point-to-point", "ipv4": "10.0.0.0/8"}
        plan = compute_plan(type(like).model_validate(document), lock)
        for node in plan.nodes:
            addresses = [str(address_plan) for port in node.ports for address_plan in port.addresses]
            assert first_addresses.setdefault(node.name, addresses) == addresses
        lock = merge_slots(lock, {node.name: node.slot for node in plan.nodes})
    assert len(set(lock.values())) == len(lock)


@given(fabrics())
def test_a_node_plan_survives_its_document(wanted: Fabric) -> None:
    for node in compute_plan(wanted, {}).nodes:
        assert decode_node(encode_node(node)) == node


@given(fabrics())
def test_explain_knows_every_address_of_the_plan(wanted: Fabric) -> None:
    plan = compute_plan(wanted, {})
    for node in plan.nodes:
        for port in node.ports:
            for address_plan in port.addresses:
                explanation = explain_address(wanted, plan, address_plan.version, address_plan.address)
                assert (explanation.role, explanation.node, explanation.rail) == ("port", node.name, port.rail)


@given(st.data())
def test_the_capacity_that_a_message_names_is_exact(data: st.DataObject) -> None:
    prefix = data.draw(st.integers(24, 27))
    pods = data.draw(st.integers(1, 9))
    addressing = {"scheme": "shared-subnet", "ipv4": "10.0.0.0/16", "ipv4RailPrefix": prefix, "podAddresses": pods}
    addressing |= {"gateway": data.draw(st.sampled_from(["none", "first", "last"]))}

    def sized(nodes: int) -> Fabric:
        return fabric(nodes=[{"hosts": f"n[1-{nodes}]"}], rails=2, addressing=addressing)

    layout = build_layouts(sized(1).spec, 4)[0][1]
    assert layout is not None
    fit = layout.slots
    if fit:
        assert len(compute_plan(sized(fit), {}).nodes) == fit
    with pytest.raises(SpecError, match=f"has room for {fit} nodes, {fit + 1} are wanted"):
        compute_plan(sized(fit + 1), {})


def _ranges(draw: st.DrawFn) -> dict[str, object]:
    """Draw a range of any length in one IP version or both, some with prefix lengths for rails and nodes."""
    ranges: dict[str, object] = {}
    for version, bits in (("ipv4", 32), ("ipv6", 128)):
        if draw(st.booleans()):
            prefix = draw(st.integers(0, bits))
            ranges[version] = str(Range(int(version[-1]), 0, prefix))
            for part in ("RailPrefix", "NodePrefix"):
                ranges |= {f"{version}{part}": draw(st.integers(1, bits))} if draw(st.booleans()) else {}
    return ranges


@st.composite
def _documents(draw: st.DrawFn) -> dict[str, object]:
    scheme = draw(st.sampled_from(["shared-subnet", "node-subnet", "point-to-point"]))
    ranges = {k: v for k, v in _ranges(draw).items() if scheme == "node-subnet" or not k.endswith("NodePrefix")}
    layout = {"layout": draw(st.sampled_from(["dense", "spectrum-x-2tier"]))} if scheme == "point-to-point" else {}
    return {
        "nodes": [{"hosts": f"n[1-{draw(st.integers(1, 40))}]"}],
        "rails": draw(st.integers(1, 64)),
        "addressing": {"scheme": scheme} | ranges | layout,
        "pods": {"mode": "move"},
        "otherRanges": {"docker": []},
    }


@given(_documents())
@example(
    {"nodes": [{"hosts": "n1"}], "rails": 8, "addressing": {"scheme": "shared-subnet", "ipv4": "10.64.0.0/30"}},
)
def test_a_range_of_any_length_is_planned_or_refused_in_words(spec: dict[str, object]) -> None:
    document = json.dumps(HEAD | {"spec": spec})
    try:
        plan = compute_plan(load_fabric(document.encode(), "f.yaml").fabric, {})
        assert len(plan.common.rails) == spec["rails"]
    except SpecError as error:
        assert all(problem.message for problem in error.problems)  # noqa: PT017 - either outcome is right


def test_a_freed_slot_is_not_given_away_while_the_lock_holds_it() -> None:
    lock = {"n1": 0, "n2": 1}
    plan = compute_plan(
        fabric(nodes=[{"hosts": "n2,n3"}], rails=1, addressing={"scheme": "point-to-point", "ipv4": "10.0.0.0/8"}), lock
    )
    assert {node.name: node.slot for node in plan.nodes} == {"n2": 1, "n3": 2}


def test_nodes_of_a_unit_get_slots_of_that_unit_only() -> None:
    groups = [{"hosts": "a[1-2]"}, {"hosts": "b1", "unit": 0}, {"hosts": "c1", "unit": 5}]
    addressing = {"scheme": "point-to-point", "ipv4": "10.0.0.0/8"}
    plan = compute_plan(fabric(nodes=groups, rails=1, nodesPerUnit=2, addressing=addressing), {})
    assert {node.name: node.unit for node in plan.nodes} == {"b1": 0, "a1": 1, "a2": 1, "c1": 5}


def test_the_same_input_gives_the_same_plan() -> None:
    wanted = fabric(nodes=[{"hosts": "n[1-9]"}], rails=8, addressing={"scheme": "node-subnet", "ipv4": "10.0.0.0/8"})
    assert compute_plan(wanted, {}) == compute_plan(wanted, {})
