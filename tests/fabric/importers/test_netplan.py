"""netplan files imported as a Fabric whose plan reproduces them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.fabric.importers.sites import (
    EXAMPLE,
    Files,
    addresses,
    changed,
    codes,
    every,
    example,
    import_netplan,
    plain,
    plan_of,
    planned,
    rendered,
)
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError

UNITS = (0, 1, 32, 33)
"""Hosts of the example site in both of its scalable units."""


def written(files: Files) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (host, interface) -> (address, gateway) of all /31s, read with PyYAML only."""
    by_interface = {}
    for host, listed in files.items():
        for name, entry in yaml.load(listed[0][1], yaml.CSafeLoader)["network"]["ethernets"].items():
            for address in entry.get("addresses", []):
                if address.endswith("/31"):
                    by_interface[host, name] = (address, entry["routes"][0]["via"])
    return by_interface


def test_the_plan_of_64_files_is_their_512_addresses_and_leaves() -> None:
    files = example()
    imported = import_netplan(files)
    assert len(written(files)) == 512
    assert addresses(plan_of(imported)) == written(files)
    assert codes(imported) == []


def test_the_64_files_are_said_in_few_lines() -> None:
    text = import_netplan(example(), "spectrum-x-64").render_fabric()
    lines = [line for line in text.splitlines() if not line.startswith("        worker-gpu-")]
    assert lines == [
        "# Imported from 64 netplan files: 64 hosts, 8 rails, 512 ports; the plan reproduces every address.",
        "apiVersion: trackbed.dev/v1alpha1",
        "kind: Fabric",
        "metadata: {name: spectrum-x-64}",
        "spec:",
        "  rails: 8",
        "  nodesPerUnit: 32",
        "  addressing: {scheme: point-to-point, layout: spectrum-x-2tier}",
        "  mtu: 9000",
        "  names: {netdev: keep}",
        "  otherRanges:",
        "    nodes: [10.20.0.0/22]",
        "  nodes:",
        "    - hosts: worker-gpu-[0-63]",
        f"      ports: [{', '.join(f'enp{n}s0np0' for n in (122, 140, 158, 176, 27, 44, 51, 66))}]",
        "      hostPorts:",
    ]


def test_units_of_32_hosts_are_found() -> None:
    units = {node.name: node.unit for node in plan_of(import_netplan(example())).nodes}
    assert units == {f"worker-gpu-{n}": n // 32 for n in range(64)}


def test_four_of_the_files_keep_their_places_in_both_units() -> None:
    imported = import_netplan(example(*UNITS))
    assert imported.lock == {"worker-gpu-0": 0, "worker-gpu-1": 1, "worker-gpu-32": 32, "worker-gpu-33": 33}
    assert addresses(plan_of(imported)) == written(example(*UNITS))


def test_every_port_keeps_its_mac_address() -> None:
    files = example()
    macs = {
        (host, name): entry["match"]["macaddress"]
        for host in files
        for name, entry in yaml.load(files[host][0][1], yaml.CSafeLoader)["network"]["ethernets"].items()
        if "match" in entry
    }
    imported_macs = {(n.name, p.kernel_name): p.mac for n in plan_of(import_netplan(files)).nodes for p in n.ports}
    assert imported_macs == macs


def test_rails_are_ordered_by_range_whatever_the_order_of_interfaces() -> None:
    backwards = every(example(*UNITS), lambda ethernets: _reorder(ethernets, sorted(ethernets, reverse=True)))
    assert import_netplan(backwards).document == import_netplan(example(*UNITS)).document


def _reorder(ethernets: dict[str, Any], names: list[str]) -> None:
    entries = dict(ethernets)
    ethernets.clear()
    ethernets.update({name: entries[name] for name in names})


def test_management_and_storage_are_set_aside_with_the_reason() -> None:
    notes = [(f.message, f.severity) for f in import_netplan(example(*UNITS)).problems]
    who = "(4 hosts: worker-gpu-[0-1,32-33])"
    assert notes == [
        (f"eno1 is no rail: DHCP gives its address {who}", "note"),
        (f"ens255np0 is no rail: 10.20.0.0/22, MTU 1500 is none of the rails' ranges {who}", "note"),
    ]


BOTH = "ipv4: 10.0.0.0/15, ipv6: 'fd00:10::/48'"
SCHEMES = {
    "shared": f"{{scheme: shared-subnet, {BOTH}}}",
    "shared-gateway-first": f"{{scheme: shared-subnet, {BOTH}, gateway: first, podAddresses: 31}}",
    "shared-gateway-last": f"{{scheme: shared-subnet, {BOTH}, gateway: last}}",
    "shared-v6-only": "{scheme: shared-subnet, ipv6: 'fd00:10::/48'}",
    "node-subnet": f"{{scheme: node-subnet, {BOTH}}}",
    "node-subnet-v6-only": "{scheme: node-subnet, ipv6: 'fd00:10::/48', ipv6NodePrefix: 112}",
    "node-subnet-small": "{scheme: node-subnet, ipv4: 10.0.0.0/20, ipv4NodePrefix: 29}",
    "point-to-point": f"{{scheme: point-to-point, {BOTH}}}",
    "point-to-point-v6-only": "{scheme: point-to-point, ipv6: 'fd00:10::/48'}",
    "spectrum-x": "{scheme: point-to-point, layout: spectrum-x-2tier, ipv6: 'fd00:10::/48'}",
}


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES.keys())
@pytest.mark.parametrize(("nodes", "rails"), [(1, 2), (2, 1), (3, 4), (40, 8)])
def test_what_trackbed_renders_is_imported_again(addressing: str, nodes: int, rails: int) -> None:
    fabric = f"  {{nodes: [{{hosts: 'gpu-[0-{nodes - 1}]'}}], rails: {rails}, addressing: {addressing}}}\n"
    imported = import_netplan(rendered(fabric))
    for version in (4, 6):
        assert addresses(plan_of(imported), version) == addresses(planned(fabric), version)
    assert codes(imported) == []


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES.keys())
def test_the_scheme_is_recognised(addressing: str) -> None:
    fabric = f"  {{nodes: [{{hosts: 'gpu-[0-3]'}}], rails: 2, addressing: {addressing}}}\n"
    wanted = planned(fabric).common
    common = plan_of(import_netplan(rendered(fabric))).common
    assert common.scheme == wanted.scheme
    if "gateway" in addressing or "shared" not in addressing:  # without gateway no route tells the supernet
        assert (common.supernet4, common.supernet6) == (wanted.supernet4, wanted.supernet6)
    assert [(r.v4, r.v6) for r in common.rails] == [(r.v4, r.v6) for r in wanted.rails]


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES.keys())
def test_both_documents_read_back_as_they_were(addressing: str) -> None:
    fabric = f"  {{nodes: [{{hosts: 'gpu-[0-3]'}}], rails: 3, addressing: {addressing}}}\n"
    imported = import_netplan(rendered(fabric), "a-1")
    text = imported.render_fabric() + "---\n" + imported.render_lock()
    loaded = load_fabric(text.encode(), "fabric.yaml")
    assert loaded.fabric == imported.fabric
    assert loaded.lock is not None
    assert loaded.lock.nodes == imported.lock


def test_other_yaml_readers_see_no_numbers_in_addresses() -> None:
    site = changed(
        example(0), "worker-gpu-0", lambda e: e["enp27s0np0"]["match"].update(macaddress="10:20:30:40:50:59")
    )
    ports = yaml.safe_load(import_netplan(site).render_fabric())["spec"]["nodes"][0]["hostPorts"]["worker-gpu-0"]
    assert ports[4] == "10:20:30:40:50:59"


def shared(*offsets: int, suffix: str = "") -> Files:
    """Return hosts with two rails 10.1.0.0/16 and 10.2.0.0/16 and the given host parts."""
    return plain(
        {
            f"n{index}": {f"rail{r}": f"{{mtu: 9000, addresses: [10.{r + 1}.0.{offset}/16]{suffix}}}" for r in range(2)}
            for index, offset in enumerate(offsets)
        }
    )


def test_ports_side_by_side_leave_no_addresses_for_pods() -> None:
    imported = import_netplan(shared(10, 11, 12))
    assert imported.document["spec"]["addressing"]["podAddresses"] == "0"
    assert imported.document["spec"]["pods"] == {"mode": "move"}
    assert addresses(plan_of(imported))["n1", "rail1"] == ("10.2.0.11/16", None)


def test_gaps_between_ports_become_blocks_for_pods() -> None:
    imported = import_netplan(shared(32, 64, 160))
    assert imported.document["spec"]["addressing"]["podAddresses"] == "31"
    assert imported.lock == {"n0": 0, "n1": 1, "n2": 4}


def test_a_gateway_within_a_block_makes_blocks_smaller() -> None:
    wide, narrow = (
        plain({f"n{o}": {"r": f"{{addresses: [10.1.0.{o}/16], gateway4: 10.1.0.{gateway}}}"} for o in (64, 128)})
        for gateway in (1, 80)
    )
    assert import_netplan(wide).document["spec"]["addressing"]["podAddresses"] == "63"
    assert "podAddresses" not in import_netplan(narrow).document["spec"]["addressing"]  # the default, 15


def test_gateways_of_their_own_are_kept_for_each_rail() -> None:
    files = plain(
        {
            f"n{n}": {
                f"rail{r}": f"{{addresses: [10.{r + 1}.0.{16 * n}/16], mtu: 9000, "
                f"routes: [{{to: 10.0.0.0/8, via: 10.{r + 1}.0.{200 + r}}}]}}"
                for r in range(2)
            }
            for n in (1, 2)
        }
    )
    imported = import_netplan(files)
    assert [rail["gateway"] for rail in imported.document["spec"]["rails"]] == ["10.1.0.200", "10.2.0.201"]
    assert addresses(plan_of(imported))["n2", "rail1"] == ("10.2.0.32/16", "10.2.0.201")


def test_rails_whose_ranges_are_scattered_are_listed() -> None:
    files = plain(
        {f"n{n}": {"x": f"{{addresses: [10.7.0.{n}/16]}}", "y": f"{{addresses: [10.3.0.{n}/16]}}"} for n in (1, 2)}
    )
    rails = import_netplan(files).document["spec"]["rails"]
    assert rails == [{"ipv4": "10.3.0.0/16"}, {"ipv4": "10.7.0.0/16"}]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.pop("routes"),
        lambda entry: entry.update(routes=entry["routes"][1:]),
        lambda entry: entry.update(gateway4=entry.pop("routes")[0]["via"]),
        lambda entry: entry.update(routes=[{"to": "default", "via": entry["routes"][0]["via"], "table": 101}]),
    ],
    ids=["none", "supernet only", "gateway4", "default in a table"],
)
def test_rails_are_found_without_routes_to_their_ranges(change: Any) -> None:
    def apply(ethernets: dict[str, Any]) -> None:
        for entry in ethernets.values():
            if "routes" in entry:
                change(entry)

    imported = import_netplan(every(example(*UNITS), apply))
    assert addresses(plan_of(imported)) == written(example(*UNITS))
    assert imported.document["spec"]["addressing"]["layout"] == "spectrum-x-2tier"


def test_rails_that_are_not_routed_to_each_other_are_isolated() -> None:
    def narrow(ethernets: dict[str, Any]) -> None:
        for entry in ethernets.values():
            entry["routes"] = entry.get("routes", [])[:1]

    assert plan_of(import_netplan(example(*UNITS))).common.cross_rail == "routed"
    assert plan_of(import_netplan(every(example(*UNITS), narrow))).common.cross_rail == "isolated"


def test_set_name_is_the_name() -> None:
    def rename(ethernets: dict[str, Any]) -> None:
        ethernets["enp27s0np0"]["set-name"] = "gpu4"

    imported = import_netplan(every(example(*UNITS), rename))
    assert {p.netdev for n in plan_of(imported).nodes for p in n.ports if p.rail == 4} == {"gpu4"}


def test_a_literal_match_by_name_is_the_name_and_a_pattern_is_not() -> None:
    files = plain(
        {
            "n0": {
                "one": "{match: {name: enp1s0}, addresses: [10.1.0.16/16]}",
                "two": "{match: {name: 'enp2*', macaddress: 'AA-BB-CC-00-00-01'}, addresses: [10.2.0.16/16]}",
            }
        }
    )
    [node] = plan_of(import_netplan(files)).nodes
    assert [(p.netdev, p.mac) for p in node.ports] == [("enp1s0", None), ("two", "aa:bb:cc:00:00:01")]


def test_hosts_with_other_port_names_are_groups_of_their_own() -> None:
    def rename(ethernets: dict[str, Any]) -> None:
        for name in [name for name in ethernets if name.startswith("enp")]:
            ethernets[name.replace("enp", "ens")] = ethernets.pop(name)

    groups = import_netplan(changed(example(*UNITS), "worker-gpu-1", rename)).document["spec"]["nodes"]
    assert [group["hosts"] for group in groups] == ["worker-gpu-[0,32-33]", "worker-gpu-1"]


def test_a_missing_rail_is_null_and_a_finding() -> None:
    files = changed(example(*UNITS), "worker-gpu-1", lambda ethernets: ethernets.pop("enp158s0np0"))
    imported = import_netplan(files)
    group = imported.document["spec"]["nodes"][0]
    assert group["hosts"] == "worker-gpu-[0-1,32-33]"
    assert group["hostPorts"]["worker-gpu-1"][2] is None
    assert codes(imported) == ["rail-missing"]
    assert len(addresses(plan_of(imported))) == 31


def test_bonds_vlans_and_bridges_are_set_aside_with_their_members() -> None:
    sections = b"""
    eth8: {}
  bonds: {bond0: {interfaces: [eth8], addresses: [10.9.0.1/24]}}
  vlans: {v7: {id: 7, link: eno1}}
  bridges: {br0: {interfaces: []}}
"""
    [(name, raw)] = example(0)["worker-gpu-0"]
    notes = [f.message for f in import_netplan({"worker-gpu-0": [(name, raw + sections)]}).problems]
    assert "bond bond0 is no rail: rails are Ethernet ports (it has 10.9.0.1/24)" in notes
    assert "vlan v7 is no rail: rails are Ethernet ports" in notes
    assert "bridge br0 is no rail: rails are Ethernet ports (worker-gpu-0)" in notes
    assert "eth8 is no rail: it belongs to bond bond0 (worker-gpu-0)" in notes


def test_an_address_may_carry_a_label() -> None:
    def label(ethernets: dict[str, Any]) -> None:
        for entry in ethernets.values():
            entry["addresses"] = [{a: {"label": "x", "lifetime": 0}} for a in entry.get("addresses", [])]

    assert addresses(plan_of(import_netplan(every(example(*UNITS), label)))) == written(example(*UNITS))


@pytest.mark.parametrize("offset", [0, 7], ids=["first", "other"])
def test_docker_gives_way_where_rails_already_use_its_range(offset: int) -> None:
    files = plain(
        {f"n{n}": {f"r{r}": f"{{addresses: [172.17.{offset + r}.{n}/24]}}" for r in range(4)} for n in (1, 2)}
    )
    imported = import_netplan(files)
    assert "docker-range" in codes(imported)
    assert addresses(plan_of(imported))["n1", "r0"] == (f"172.17.{offset}.1/24", None)


def test_a_small_mtu_lowers_the_path_mtu_of_rdma() -> None:
    files = every(example(*UNITS), lambda ethernets: [entry.update(mtu=1500) for entry in ethernets.values()])
    spec = import_netplan(files).fabric.spec
    assert (spec.mtu_bytes, spec.rdma.path_mtu) == (1500, 1024)


def test_a_storage_network_off_the_spacing_of_the_rails_is_no_rail() -> None:
    ranges = ("10.1", "10.2", "10.3", "10.4", "10.77")
    files = plain(
        {f"n{n}": {f"e{net[3:]}": f"{{mtu: 9000, addresses: [{net}.0.{n}/16]}}" for net in ranges} for n in (1, 2)}
    )
    imported = import_netplan(files)
    assert len(imported.fabric.spec.rails) == 4
    assert [f.message for f in imported.problems] == [
        "e77 is no rail: 10.77.0.0/16, MTU 9000 is none of the rails' ranges (2 hosts: n[1-2])"
    ]


def test_no_host_with_a_rail_is_no_fabric() -> None:
    with pytest.raises(SpecError, match="no rail found in the files of 1 host") as caught:
        import_netplan(plain({"n0": {"eno1": "{dhcp4: true}"}}))
    assert [p.code for p in caught.value.problems] == ["no-rails", "set-aside"]


def test_the_example_in_the_repository_is_whole() -> None:
    assert len(list(EXAMPLE.glob("*.yaml"))) == 64


def test_the_interface_with_the_default_route_is_management() -> None:
    files = plain(
        {
            f"n{n}": {
                "eno1": f"{{mtu: 9000, addresses: [192.168.0.{n}/24], gateway4: 192.168.0.254}}",
                "rail": f"{{mtu: 9000, addresses: [10.0.0.{16 * n}/24]}}",
            }
            for n in (1, 2)
        }
    )
    imported = import_netplan(files)
    assert [rail.v4 and str(rail.v4) for rail in plan_of(imported).common.rails] == ["10.0.0.0/24"]
    assert [f.message for f in imported.problems] == [
        "eno1 is no rail: the default route leaves here, so it is management (2 hosts: n[1-2])"
    ]


def test_a_unit_is_as_large_as_its_highest_host_asks_for() -> None:
    spec = "{scheme: point-to-point, layout: spectrum-x-2tier}"
    fabric = f"  {{nodes: [{{hosts: 'gpu-[0-79]'}}], rails: 1, nodesPerUnit: 64, addressing: {spec}}}\n"
    imported = import_netplan(rendered(fabric))
    assert imported.fabric.spec.nodes_per_unit == 64
    assert addresses(plan_of(imported)) == addresses(planned(fabric))
