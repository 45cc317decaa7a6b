import pytest

from tests.node.rails.node import planned
from trackbed.node.rails.attachment import Attachment, PodAddress, PodPort
from trackbed.node.rails.result import build_result

COMMON = planned().common
PORTS = tuple(
    PodPort(rail, f"rail{rail}", f"m{rail}", 9000, (PodAddress(f"10.{2 * rail}.0.35/27", f"10.{2 * rail}.0.33"),))
    for rail in (0, 3)
)
ATTACHMENT = Attachment("c1", "net1", "rails", "macvlan", "/run/netns/c1", 7, "boot", PORTS)


def test_each_rail_is_an_interface_of_the_pod() -> None:
    assert build_result("1.1.0", ATTACHMENT, COMMON, None)["interfaces"] == [
        {"name": "rail0", "mac": "m0", "mtu": 9000, "sandbox": "/run/netns/c1"},
        {"name": "rail3", "mac": "m3", "mtu": 9000, "sandbox": "/run/netns/c1"},
    ]


def test_an_address_names_its_interface_and_gateway() -> None:
    assert build_result("1.1.0", ATTACHMENT, COMMON, None)["ips"] == [
        {"address": "10.0.0.35/27", "gateway": "10.0.0.33", "interface": 0},
        {"address": "10.6.0.35/27", "gateway": "10.6.0.33", "interface": 1},
    ]


def test_the_older_version_gets_no_field_it_does_not_know() -> None:
    old = build_result("1.0.0", ATTACHMENT, COMMON, None)
    assert old["cniVersion"] == "1.0.0"
    assert {key for interface in old["interfaces"] for key in interface} == {"name", "mac", "sandbox"}
    assert old["routes"] == [
        {"dst": "10.0.0.0/15", "gw": "10.0.0.33"},
        {"dst": "10.0.0.0/12", "gw": "10.0.0.33"},
        {"dst": "10.6.0.0/15", "gw": "10.6.0.33"},
    ]


@pytest.mark.parametrize("version", ["0.3.0", "0.3.1", "0.4.0"])
def test_before_1_0_an_address_says_of_which_ip_version_it_is(version: str) -> None:
    old = build_result(version, ATTACHMENT, COMMON, None)
    assert old["cniVersion"] == version
    assert old["ips"][0] == {"version": "4", "address": "10.0.0.35/27", "gateway": "10.0.0.33", "interface": 0}
    assert old["routes"] == build_result("1.0.0", ATTACHMENT, COMMON, None)["routes"]


def test_the_newer_version_says_in_which_table_a_route_is() -> None:
    assert build_result("1.1.0", ATTACHMENT, COMMON, None)["routes"][1] == {
        "dst": "0.0.0.0/0",
        "gw": "10.0.0.33",
        "table": 1000,
    }


def test_what_the_plugins_before_did_is_passed_on() -> None:
    previous = {
        "cniVersion": "1.0.0",
        "interfaces": [{"name": "veth1"}, {"name": "eth0", "sandbox": "/run/netns/c1"}],
        "ips": [{"address": "10.244.0.5/24", "interface": 1}],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dns": {"nameservers": ["10.96.0.10"]},
    }
    merged = build_result("1.1.0", ATTACHMENT, COMMON, previous)
    assert [interface["name"] for interface in merged["interfaces"]] == ["veth1", "eth0", "rail0", "rail3"]
    assert [address["interface"] for address in merged["ips"]] == [1, 2, 3]
    assert merged["routes"][0] == {"dst": "0.0.0.0/0"}
    assert merged["dns"] == {"nameservers": ["10.96.0.10"]}


def test_a_previous_result_may_leave_everything_out() -> None:
    assert len(build_result("1.1.0", ATTACHMENT, COMMON, {"ips": None})["ips"]) == 2
