"""Addresses that a Fabric cannot express are told by the name of their pattern, and IPv6 beside IPv4 is expressed."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.fabric.importers.sites import Files, addresses, codes, import_netplan, plain, plan_of, planned, rendered
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.ranges import format_address

_POINT_TO_POINT = "{{scheme: point-to-point, {layout}ipv6: {supernet}, ipv6RailPrefix: {rail}, ipv6NodePrefix: {node}}}"


def _refuse(files: Files) -> str:
    with pytest.raises(SpecError) as caught:
        import_netplan(files)
    return "\n".join(f"{problem.message} [{problem.code}]" for problem in caught.value.problems)


@pytest.mark.parametrize("hosts", ["n0", "n[0-2]", "n[0-39]"])
@pytest.mark.parametrize(
    "addressing",
    [
        _POINT_TO_POINT.format(layout="layout: spectrum-x-2tier, ", supernet='"fd02::/32"', rail=40, node=64),
        _POINT_TO_POINT.format(layout="ipv4: 10.0.0.0/14, ", supernet='"fd02::/32"', rail=48, node=64),
        _POINT_TO_POINT.format(layout="ipv4: 10.0.0.0/14, ", supernet='"fd02::/32"', rail=48, node=126),
        _POINT_TO_POINT.format(layout="ipv4: 10.0.0.0/14, ", supernet='"fd02::/32"', rail=48, node=127),
    ],
    ids=["spectrum-x", "dense-64", "dense-126", "dense-127"],
)
def test_a_prefix_of_its_own_in_ipv6_beside_a_31_comes_back(addressing: str, hosts: str) -> None:
    fabric = f"  rails: 4\n  addressing: {addressing}\n  nodes: [{{hosts: '{hosts}', ports: [e0, e1, e2, e3]}}]\n"
    imported = import_netplan(rendered(fabric + "  otherRanges: {docker: []}\n"))
    wanted = planned(fabric + "  otherRanges: {docker: []}\n")
    assert addresses(plan_of(imported), 6) == addresses(wanted, 6)
    assert addresses(plan_of(imported), 4) == addresses(wanted, 4)
    assert set(codes(imported)) <= {"docker-range"}


def test_files_with_a_31_and_a_64_for_each_port_and_no_routes_are_spectrum_x() -> None:
    files = plain(
        {
            f"n{host}": {
                f"eth{rail}": f"{{mtu: 9000, addresses: [172.{16 + 2 * rail}.0.{2 * host}/31, "
                f"'fd02:0:{rail}00:{host:x}::1/64']}}"
                for rail in range(8)
            }
            for host in range(12)
        }
    )
    imported = import_netplan(files)
    assert set(codes(imported)) <= {"docker-range"}
    spec = imported.document["spec"]["addressing"]
    assert (spec["layout"], spec["ipv6NodePrefix"]) == ("spectrum-x-2tier", "64")


def test_an_additional_ipv6_address_is_told_and_the_first_is_planned() -> None:
    v6 = "'fd00::{}/64', 'fd00:9::{}/64'"
    files = plain({f"n{n}": {"eth0": f"{{addresses: [10.0.0.{n}/24, {v6.format(n, n)}]}}"} for n in (1, 2)})
    imported = import_netplan(files)
    assert {address for address, _ in addresses(plan_of(imported), 6).values()} == {"fd00::1/64", "fd00::2/64"}
    messages = [problem.message for problem in imported.problems if problem.code == "second-address"]
    assert messages == [
        f"n{n} rail 0 (eth0): fd00:9::{n}/64 is an additional address; the plan has fd00::{n}/64 only" for n in (1, 2)
    ]
    assert imported.summary.endswith("the plan reproduces every address but 2 additional ones")


def test_additional_addresses_of_a_port_off_the_plan_are_told_too() -> None:
    hosts = {f"n{n}": {f"eth{r}": f"{{addresses: [10.{r}.0.{2 * n}/31]}}" for r in (0, 1)} for n in range(6)}
    hosts["n3"]["eth1"] = "{addresses: [10.1.0.77/31, 192.0.2.1/24]}"
    imported = import_netplan(plain(hosts))
    assert "second-address" in codes(imported)


def test_a_link_local_address_is_noted() -> None:
    files = plain({f"n{n}": {"eth0": f"{{addresses: [10.0.0.{n}/24, 'fe80::{n}/64']}}"} for n in (1, 2)})
    notes = [problem for problem in import_netplan(files).problems if problem.code == "link-local"]
    assert [note.severity for note in notes] == ["note", "note"]


def test_ipv6_of_another_scheme_is_left_out_and_told() -> None:
    files = plain(
        {
            f"n{host}": {
                f"eth{rail}": f"{{mtu: 9000, addresses: [10.{rail}.0.{2 * host}/31, 'fd0{rail}::{host + 5:x}/64']}}"
                for rail in range(4)
            }
            for host in range(6)
        }
    )
    imported = import_netplan(files)
    assert addresses(plan_of(imported), 6) == {}
    assert codes(imported) == ["other-version"]
    assert imported.summary.endswith("the plan reproduces every address of one IP version")
    assert "are none that a Fabric has beside scheme point-to-point in IPv4" in imported.problems[0].message


def _build_blocks(rails: int, hosts: int, prefix: int, step: int) -> Files:
    size = 1 << (32 - prefix)

    def build_port(host: int, rail: int) -> str:
        base = (172 << 24) + (16 << 16) + step * (host + 1) + size * rail
        return f"{{mtu: 9000, addresses: [{format_address(4, base + (size > 2))}/{prefix}]}}"

    return plain(
        {
            f"n{host}": {"eno1": f"{{addresses: [192.168.0.{host + 1}/24]}}"}
            | {f"eth{rail}": build_port(host, rail) for rail in range(rails)}
            for host in range(hosts)
        }
    )


@pytest.mark.parametrize(
    ("rails", "hosts", "prefix", "step", "expected"),
    [
        pytest.param(
            8,
            2,
            27,
            256,
            "the addresses are node-major in 2 hosts: n0 has block 172.16.1.0/24, and each of its rails a part "
            "(172.16.1.0/27; 172.16.1.32/27; 172.16.1.64/27; and 5 more).",
            id="27s-of-a-24",
        ),
        pytest.param(4, 9, 26, 256, "node-major in 9 hosts: n0 has block 172.16.1.0/24", id="26s"),
        pytest.param(8, 3, 31, 16, "node-major in 3 hosts: n0 has block 172.16.0.16/28", id="31s"),
    ],
)
def test_blocks_of_nodes_are_named(rails: int, hosts: int, prefix: int, step: int, expected: str) -> None:
    text = _refuse(_build_blocks(rails, hosts, prefix, step))
    assert expected.replace(";", ",") in text
    assert f"renumber the hosts with `rails: {rails}`" in text
    assert "[node-major]" in text


def test_rails_of_which_each_node_has_a_part_are_no_blocks_of_nodes() -> None:
    nodes = "[{hosts: 'n[0-3]', ports: [a, b, c, d]}]"
    fabric = f"  rails: 4\n  addressing: {{scheme: node-subnet, ipv4: 10.0.0.0/14}}\n  nodes: {nodes}\n"
    assert codes(import_netplan(rendered(fabric))) == []


def _build_ring(hosts: int, prefix: int) -> Files:
    ports: dict[str, dict[str, str]] = {f"n{host}": {} for host in range(hosts)}
    for link, ends in enumerate(combinations(ports, 2)):
        for end, host in enumerate(ends):
            number = end + (prefix < 31)
            ports[host][f"eth{len(ports[host])}"] = f"{{mtu: 9000, addresses: [10.7.{link}.{number}/{prefix}]}}"
    return plain({host: {"eno1": "{dhcp4: true}"} | entries for host, entries in ports.items()})


@pytest.mark.parametrize("prefix", [24, 30, 31])
def test_cables_between_three_hosts_are_named(prefix: int) -> None:
    text = _refuse(_build_ring(3, prefix))
    assert "these are 3 cables between hosts, without a switch: n0 eth0 and n1 eth0 share 10.7.0.0/" in text
    assert "[host-to-host]" in text


def test_two_hosts_with_a_31_between_them_are_cabled_to_each_other() -> None:
    text = _refuse(_build_ring(2, 31))
    assert "this is a cable between hosts, without a switch: n0 eth0 and n1 eth0 share 10.7.0.0/31" in text


def test_two_hosts_with_a_subnet_for_each_rail_have_rails() -> None:
    files = plain(
        {
            f"n{host}": {f"eth{rail}": f"{{mtu: 9000, addresses: [10.{rail}.0.{host + 1}/24]}}" for rail in (0, 1)}
            for host in (0, 1)
        }
    )
    assert codes(import_netplan(files)) == []


def test_hosts_with_the_odd_address_are_told_and_no_fabric_is_made() -> None:
    files = plain(
        {
            f"n{host}": {f"eth{rail}": f"{{mtu: 9000, addresses: [10.{rail}.0.{2 * host + 1}/31]}}" for rail in (0, 1)}
            for host in (0, 1, 2)
        }
    )
    text = _refuse(files)
    assert "hosts have the odd address of their subnet, as 10.0.0.1/31, which is the leaf's; exchange the two" in text
    assert " of 0 ports" not in text
