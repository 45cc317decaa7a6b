"""Hosts and switches: what is rendered agrees, and one value that differs is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.switches.leaves import ADDRESSING, build_wiring, derive_sound_leaves, plan_case
from trackbed.fabric.model.ranges import parse_range
from trackbed.fabric.plan.plan import Plan
from trackbed.switches.dialect import find_mismatches
from trackbed.switches.dialects import MODULES, detect_dialect, load_dialect
from trackbed.switches.leaf import check_leaves, derive_leaves
from trackbed.switches.sonic.read import parse

Change = Callable[[dict[str, Any]], object]


def list_differences(name: str, plan: Plan, text: str, **fields: Any) -> list[str]:
    """Return the codes of the mismatches between the first leaf of a plan and a configuration."""
    dialect = load_dialect(name)
    mismatches = find_mismatches(derive_sound_leaves(name, plan, **fields)[0], dialect, dialect.parse(text.encode()))
    return [mismatch.code for mismatch in mismatches]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("case", ADDRESSING)
def test_what_is_rendered_agrees_with_the_hosts(case: str, name: str) -> None:
    plan = plan_case(case, nodes=[{"hosts": "gpu-[0-4]"}], nodesPerUnit=2)
    for leaf in derive_sound_leaves(name, plan):
        text = load_dialect(name).render(leaf).encode()
        assert detect_dialect(text).name == name
        assert load_dialect(name).read_hostname(load_dialect(name).parse(text)) == leaf.name
        assert find_mismatches(leaf, load_dialect(name), load_dialect(name).parse(text)) == []


@st.composite
def qos(draw: st.DrawFn) -> dict[str, object]:
    """Draw any QoS settings that a Fabric may have."""
    dscp, cnp = draw(st.lists(st.integers(0, 63), min_size=2, max_size=2, unique=True))
    pfc, ecn = draw(st.booleans()), draw(st.booleans())
    return {"dscp": dscp, "cnpDscp": cnp, "priority": draw(st.integers(0, 7)), "pfc": pfc, "ecn": ecn}


@pytest.mark.parametrize("name", MODULES)
@settings(max_examples=150, deadline=None)
@given(classes=qos())
def test_any_traffic_classes_agree(name: str, classes: dict[str, object]) -> None:
    plan = plan_case(qos=classes)
    assert list_differences(name, plan, load_dialect(name).render(derive_sound_leaves(name, plan)[0])) == []


@pytest.mark.parametrize("name", MODULES)
def test_numbered_uplinks_agree(name: str) -> None:
    given_range = parse_range("10.254.0.0/24")
    text = load_dialect(name).render(derive_sound_leaves(name, plan_case(), uplinks4=given_range)[0])
    assert list_differences(name, plan_case(), text, uplinks4=given_range) == []
    assert list_differences(
        name, plan_case(), text.replace("10.254.0.0/31", "10.254.0.8/31"), uplinks4=given_range
    ) == ["address"]


@pytest.mark.parametrize(
    ("case", "old", "new", "codes"),
    [
        pytest.param("point-to-point", "172.16.0.1/31", "172.16.0.0/31", ["address"], id="address"),
        pytest.param("point-to-point", "swp1 link mtu 9216", "swp1 link mtu 1500", ["mtu"], id="mtu"),
        pytest.param("point-to-point", "swp63 link mtu 9216", "swp63 link mtu 1500", ["mtu"], id="mtu of an uplink"),
        pytest.param("point-to-point", "mode lossless", "mode lossy", ["pfc"], id="pfc"),
        pytest.param("point-to-point", "nv set qos roce mode lossless", "", ["class", "cnp"], id="no profile"),
        pytest.param(
            "shared-subnet", "nv set interface swp2 bridge domain br_default access 100", "", ["vlan"], id="not bridged"
        ),
        pytest.param(
            "shared-subnet",
            "swp2 bridge domain br_default access 100",
            "swp2 bridge domain br_default access 101",
            ["vlan"],
            id="another VLAN",
        ),
        pytest.param("shared-subnet", "10.3.255.254/14", "10.0.0.1/14", ["gateway"], id="gateway"),
    ],
)
def test_one_command_that_differs_is_found(case: str, old: str, new: str, codes: list[str]) -> None:
    text = load_dialect("nvue").render(derive_sound_leaves("nvue", plan_case(case))[0])
    assert text.count(old) == 1
    assert list_differences("nvue", plan_case(case), text.replace(old, new)) == codes


@pytest.mark.parametrize(
    ("added", "codes"),
    [
        pytest.param("qos mapping default-global dscp 24-27 switch-priority 5", ["class"], id="dscp"),
        pytest.param("qos mapping default-global dscp 48,26 switch-priority 3", ["cnp"], id="cnp in RDMA's class"),
        pytest.param("qos egress-scheduler default-global traffic-class 6 mode dwrr", ["cnp"], id="cnp in turn"),
        pytest.param("qos congestion-control default-global traffic-class 0-3 ecn disable", ["ecn"], id="ecn"),
        pytest.param("qos pfc default-global switch-priority 4", ["pfc"], id="pfc on another priority"),
        pytest.param("qos pfc default-global tx disable", ["pfc"], id="no pause frames sent"),
        pytest.param("qos roce enable off", ["class", "cnp"], id="profile off"),
        pytest.param("interface swp1-2 link mtu 1500", ["mtu"], id="a later command wins"),
        pytest.param("qos pfc bad switch-priority 4\nnv set interface swp2 qos pfc profile bad", ["pfc"], id="profile"),
    ],
)
def test_one_command_more_is_found(added: str, codes: list[str]) -> None:
    text = load_dialect("nvue").render(derive_sound_leaves("nvue", plan_case())[0])
    assert list_differences("nvue", plan_case(), f"{text}nv set {added}\n") == codes


NVUE_YAML = """\
- header: {model: sn5600, version: "5.11"}
- set:
    system: {hostname: leaf-u0-r0}
    interface:
      swp1-2,swp63-64:
        link: {mtu: 9216}
        type: swp
      swp1:
        ip: {address: {172.16.0.1/31: {}}}
      swp2:
        ip:
          address:
            172.16.0.3/31: {}
    qos:
      roce: {state: enabled, mode: lossless}
"""


def test_the_yaml_that_nvue_shows_is_read() -> None:
    assert list_differences("nvue", plan_case(), NVUE_YAML) == []
    assert list_differences("nvue", plan_case(), NVUE_YAML.replace("mtu: 9216", "mtu: 1500")) == ["mtu"]
    assert list_differences("nvue", plan_case(), NVUE_YAML.replace("state: enabled", "enable: off")) == ["class", "cnp"]


def to_former_commands(text: str) -> str:
    """Return a configuration in the commands of Cumulus Linux 5.14 and earlier."""
    return (
        text.replace("ipv4 address", "ip address")
        .replace("ipv6 address", "ip address")
        .replace("state enabled", "enable on")
    )


@pytest.mark.parametrize("case", ["dual-stack", "shared-subnet"])
def test_commands_of_earlier_releases_are_read(case: str) -> None:
    text = to_former_commands(load_dialect("nvue").render(derive_sound_leaves("nvue", plan_case(case))[0]))
    assert " ip address " in text
    assert list_differences("nvue", plan_case(case), text) == []


@pytest.mark.parametrize(
    ("case", "old", "new", "fixes"),
    [
        pytest.param(
            "dual-stack",
            "fd00:10::1/64",
            "fd00:10::9/64",
            ("nv set interface swp1 ipv6 address fd00:10::1/64", "nv set interface swp1 ip address fd00:10::1/64"),
            id="address",
        ),
        pytest.param(
            "shared-subnet",
            "10.3.255.254/14",
            "10.0.0.1/14",
            (
                "nv set interface vlan100 ipv4 address 10.3.255.254/14",
                "nv set interface vlan100 ip address 10.3.255.254/14",
            ),
            id="gateway",
        ),
        pytest.param(
            "point-to-point",
            "qos roce",
            "qos congestion-control default-global traffic-class 3 ecn disabled\nnv set qos roce",
            (
                "nv set qos roce, and set ecn enabled below qos congestion-control default-global",
                "nv set qos roce, and set ecn enable below qos congestion-control default-global",
            ),
            id="ecn",
        ),
    ],
)
def test_a_fix_is_a_command_of_the_switchs_release(case: str, old: str, new: str, fixes: tuple[str, str]) -> None:
    leaf = derive_sound_leaves("nvue", plan_case(case))[0]
    text = load_dialect("nvue").render(leaf).replace(old, new)
    trees = [load_dialect("nvue").parse(dump.encode()) for dump in (text, to_former_commands(text))]
    assert [[mismatch.fix for mismatch in find_mismatches(leaf, load_dialect("nvue"), tree)] for tree in trees] == [
        [fix] for fix in fixes
    ]


@pytest.mark.parametrize(
    ("mode", "codes"),
    [
        pytest.param("lossless", [], id="lossless"),
        pytest.param("lossless-single-ipool", [], id="other buffers"),
        pytest.param("lossy", ["pfc"], id="lossy"),
    ],
)
def test_modes_of_the_roce_profile_that_are_known(mode: str, codes: list[str]) -> None:
    text = load_dialect("nvue").render(derive_sound_leaves("nvue", plan_case())[0])
    assert list_differences("nvue", plan_case(), text.replace("mode lossless", f"mode {mode}")) == codes


def build_stock_tables(ports: list[str]) -> dict[str, Any]:
    """Return the tables of a stock image: every map is AZURE, priorities 3 and 4 are lossless."""
    maps = dict.fromkeys(("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map"), "AZURE")
    marked = {"scheduler": "scheduler.1", "wred_profile": "AZURE_LOSSLESS"}
    return {
        "PORT": {name: {"mtu": "9216"} for name in ports},
        "INTERFACE": {"Ethernet0|172.16.0.1/31": {}, "Ethernet4|172.16.0.3/31": {}},
        "PORT_QOS_MAP": {name: maps | {"pfc_enable": "3,4"} for name in ports},
        "QUEUE": {f"{name}|3-4": marked for name in ports}
        | {f"{name}|6": {"scheduler": "scheduler.0"} for name in ports},
        "SCHEDULER": {"scheduler.0": {"type": "DWRR"}, "scheduler.1": {"type": "DWRR"}},
    }


PORTS = ["Ethernet0", "Ethernet4", "Ethernet248", "Ethernet252"]


def test_the_usual_dscp_falls_into_a_lossy_class_of_stock_sonic() -> None:
    mismatches = find_mismatches(
        derive_sound_leaves("sonic", plan_case())[0],
        load_dialect("sonic"),
        parse(json.dumps(build_stock_tables(PORTS)).encode()),
    )
    ports = "leaf-u0-r0 Ethernet0, Ethernet4, Ethernet248 and 1 more"
    assert [str(mismatch) for mismatch in mismatches] == [
        (
            f"{ports}: RDMA's DSCP 26: hosts pause priority 3, switch puts it in lossy priority 0; give DSCP_TO_TC_MAP "
            "26 a class whose priority group is 3; stock maps do so for 3 and 4 only [class]"
        ),
        (
            f"{ports}: congestion notifications, DSCP 48: hosts need a class of their own, served first, switch serves "
            "them in turn with others; give DSCP 48 a class of its own whose queue has a scheduler of type STRICT [cnp]"
        ),
    ]


@pytest.mark.parametrize(
    ("dscp", "codes"),
    [
        pytest.param(3, ["cnp"], id="a lossless one of stock"),
        pytest.param(26, ["class", "cnp"], id="RoCE guides"),
        pytest.param(24, ["class", "cnp"], id="Spectrum-X"),
    ],
)
def test_stock_sonic_by_dscp(dscp: int, codes: list[str]) -> None:
    assert list_differences("sonic", plan_case(qos={"dscp": dscp}), json.dumps(build_stock_tables(PORTS))) == codes


def test_references_of_older_releases_are_read() -> None:
    written = json.dumps(build_stock_tables(PORTS)).replace(
        '"dscp_to_tc_map": "AZURE"', '"dscp_to_tc_map": "[DSCP_TO_TC_MAP|AZURE]"'
    )
    assert list_differences("sonic", plan_case(qos={"dscp": 3}), written) == ["cnp"]


def set_value(value: object, *keys: str) -> Change:
    """Return a change that sets the value below these keys."""

    def change(tables: dict[str, Any]) -> None:
        for key in keys[:-1]:
            tables = tables[key]
        tables[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("case", "change", "codes"),
    [
        pytest.param("point-to-point", set_value("9000", "PORT", "Ethernet0", "mtu"), [], id="as large as the hosts'"),
        pytest.param("point-to-point", set_value("8999", "PORT", "Ethernet0", "mtu"), ["mtu"], id="mtu"),
        pytest.param("point-to-point", lambda t: t["PORT"].pop("Ethernet0"), ["no-port"], id="port"),
        pytest.param("point-to-point", lambda t: t["PORT"].pop("Ethernet248"), ["no-port"], id="uplink"),
        pytest.param(
            "point-to-point", lambda t: t["INTERFACE"].pop("Ethernet0|172.16.0.1/31"), ["address"], id="address"
        ),
        pytest.param("point-to-point", set_value("4", "PORT_QOS_MAP", "Ethernet0", "pfc_enable"), ["pfc"], id="pfc"),
        pytest.param("point-to-point", set_value("1", "DSCP_TO_TC_MAP", "TRACKBED", "26"), ["class"], id="dscp"),
        pytest.param(
            "point-to-point", set_value("3", "DSCP_TO_TC_MAP", "TRACKBED", "48"), ["cnp"], id="cnp in RDMA's class"
        ),
        pytest.param(
            "point-to-point", set_value("DWRR", "SCHEDULER", "TRACKBED_CNP", "type"), ["cnp"], id="cnp in turn"
        ),
        pytest.param(
            "point-to-point", set_value("0", "TC_TO_PRIORITY_GROUP_MAP", "TRACKBED", "3"), ["class"], id="group"
        ),
        pytest.param(
            "point-to-point", set_value("2", "MAP_PFC_PRIORITY_TO_QUEUE", "TRACKBED", "3"), ["pfc"], id="other queue"
        ),
        pytest.param(
            "point-to-point", set_value("ecn_none", "WRED_PROFILE", "TRACKBED_RDMA", "ecn"), ["ecn"], id="ecn"
        ),
        pytest.param("point-to-point", lambda t: t["QUEUE"].pop("Ethernet4|3"), ["ecn"], id="no profile"),
        pytest.param("point-to-point", lambda t: t.pop("PORT_QOS_MAP"), ["class", "cnp"], id="no maps"),
        pytest.param("shared-subnet", lambda t: t["VLAN_MEMBER"].pop("Vlan100|Ethernet4"), ["vlan"], id="no member"),
        pytest.param(
            "shared-subnet",
            set_value("tagged", "VLAN_MEMBER", "Vlan100|Ethernet0", "tagging_mode"),
            ["vlan"],
            id="tagged",
        ),
        pytest.param("shared-subnet", lambda t: t.pop("VLAN_INTERFACE"), ["gateway"], id="gateway"),
    ],
)
def test_one_value_that_differs_is_found(case: str, change: Change, codes: list[str]) -> None:
    tables = json.loads(load_dialect("sonic").render(derive_sound_leaves("sonic", plan_case(case))[0]))
    change(tables)
    assert list_differences("sonic", plan_case(case), json.dumps(tables)) == codes


POLICY_ROW = ("BGP_NEIGHBOR_AF", "default|Ethernet248|ipv4_unicast")


@pytest.mark.parametrize(
    ("change", "codes"),
    [
        pytest.param(set_value([], *POLICY_ROW, "route_map_in"), ["policy"], id="no policy for received routes"),
        pytest.param(set_value({"admin_status": "up"}, *POLICY_ROW), ["policy"], id="no policy"),
        pytest.param(
            set_value({"prefix_list_in": "A", "filter_list_out": "B"}, *POLICY_ROW), [], id="policies of other kinds"
        ),
        pytest.param(set_value({"admin_status": "down"}, *POLICY_ROW), [], id="an inactive family"),
        pytest.param(lambda t: t["BGP_NEIGHBOR_AF"].clear(), [], id="no family"),
        pytest.param(
            lambda t: (
                t["BGP_NEIGHBOR_AF"].update({POLICY_ROW[1]: {}}),
                t["BGP_NEIGHBOR"]["default|Ethernet248"].update(peer_group_name="SPINES"),
                t.update(BGP_PEER_GROUP_AF={"default|SPINES|ipv4_unicast": {"route_map_in": ["A"]}}),
            ),
            ["policy"],
            id="a group with half a policy",
        ),
        pytest.param(
            lambda t: (
                t["BGP_NEIGHBOR_AF"].update({POLICY_ROW[1]: {"route_map_out": ["B"]}}),
                t["BGP_NEIGHBOR"]["default|Ethernet248"].update(peer_group_name="SPINES"),
                t.update(BGP_PEER_GROUP_AF={"default|SPINES|ipv4_unicast": {"route_map_in": ["A"]}}),
            ),
            [],
            id="the rest of it at the neighbour",
        ),
        pytest.param(
            lambda t: (
                t["BGP_NEIGHBOR_AF"].update({POLICY_ROW[1]: {"admin_status": "up"}}),
                t["BGP_NEIGHBOR"].update({"default|Ethernet248": {"asn": "4200000000"}}),
            ),
            [],
            id="a neighbour of the same AS",
        ),
        pytest.param(
            lambda t: (
                t["BGP_NEIGHBOR_AF"].update({POLICY_ROW[1]: {"admin_status": "up"}}),
                t["DEVICE_METADATA"]["localhost"].pop("frr_mgmt_framework_config"),
            ),
            [],
            id="the older daemon, which needs none",
        ),
    ],
)
def test_neighbours_without_a_policy_get_no_routes(change: Change, codes: list[str]) -> None:
    tables = json.loads(load_dialect("sonic").render(derive_sound_leaves("sonic", plan_case())[0]))
    change(tables)
    assert list_differences("sonic", plan_case(), json.dumps(tables)) == codes


def test_the_field_that_frr_never_sees_is_no_policy() -> None:
    leaf = derive_sound_leaves("sonic", plan_case(), uplinks4=parse_range("10.254.0.0/24"))[0]
    tables = json.loads(load_dialect("sonic").render(leaf))
    tables["BGP_GLOBALS"]["default"]["ebgp_requires_policy"] = "false"
    tables["BGP_NEIGHBOR_AF"] = {key: {"admin_status": "true"} for key in tables["BGP_NEIGHBOR_AF"]}
    mismatches = find_mismatches(leaf, load_dialect("sonic"), parse(json.dumps(tables).encode()))
    assert list(map(str, mismatches)) == [
        (
            "leaf-u0-r0 Ethernet248, Ethernet252: BGP's routes: hosts need those of other leaves, switch discards "
            "them, because the neighbour has no policy in both directions (RFC 8212); give its rows of BGP_NEIGHBOR_AF "
            "a route_map_in and a route_map_out, as `trackbed render switch` does [policy]"
        )
    ]


def test_a_rail_may_have_another_vlan_than_ours() -> None:
    text = load_dialect("sonic").render(derive_sound_leaves("sonic", plan_case("shared-subnet"))[0])
    assert list_differences("sonic", plan_case("shared-subnet"), text.replace("Vlan100", "Vlan77")) == []


def test_an_address_may_be_spelt_otherwise() -> None:
    text = load_dialect("nvue").render(derive_sound_leaves("nvue", plan_case("dual-stack"))[0])
    assert "fd00:10::1/64" in text
    assert list_differences("nvue", plan_case("dual-stack"), text.replace("fd00:10::1/64", "FD00:0010:0::1/64")) == []


def test_a_whole_fabric_agrees_with_itself() -> None:
    plan = plan_case(nodes=[{"hosts": "gpu-[0-299]"}], rails=8)
    wiring = build_wiring(load_dialect("sonic"))
    assert check_leaves(plan, wiring) == []
    for leaf in derive_leaves(plan, wiring):
        tree = load_dialect("sonic").parse(load_dialect("sonic").render(leaf).encode())
        assert find_mismatches(leaf, load_dialect("sonic"), tree) == []
