"""RCP's configuration for Spectrum-X."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.importers.sites import Files, addresses, codes, plan_of
from trackbed.fabric.importers.rcp import import_rcp
from trackbed.fabric.importers.rcp.inventory import MAX_HOSTS, read_hosts
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.model.problems import SpecError

CONFIG = {
    "pod_num": 1,
    "pod_size": 2,
    "topology": "2-tier",
    "system_type": "h100",
    "host_interfaces": ["eth1", "eth2"],
    "host_first_octet": 172,
    "overlay": "none",
    "leaf_rails": 2,
    "planes_num": 1,
    "ip_version": "ipv4",
}
HOSTS = "[host:vars]\nansible_user=ubuntu\n[leaf]\nleaf-su00-r0\n[host]\nhgx-su00-h[00:01]\nhgx-su01-h05 ip=1\n"


def site(hosts: str = HOSTS, **changes: object) -> Files:
    """Return RCP's files with keys of the configuration changed."""
    config = yaml.safe_dump({**CONFIG, **changes})
    return {"": [("config/config.yaml", config.encode()), ("inventory/hosts", hosts.encode())]}


def lay(imported: ImportResult, version: int = 4) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return (node, interface) -> (address/prefix, gateway) of the plan."""
    return addresses(plan_of(imported), version)


def test_the_addresses_of_the_reference_come_back() -> None:
    imported = import_rcp(site())
    assert codes(imported) == []
    assert lay(imported) == {
        ("hgx-su00-h00", "eth1"): ("172.16.0.0/31", "172.16.0.1"),
        ("hgx-su00-h00", "eth2"): ("172.18.0.0/31", "172.18.0.1"),
        ("hgx-su00-h01", "eth1"): ("172.16.0.2/31", "172.16.0.3"),
        ("hgx-su00-h01", "eth2"): ("172.18.0.2/31", "172.18.0.3"),
        ("hgx-su01-h05", "eth1"): ("172.16.1.10/31", "172.16.1.11"),
        ("hgx-su01-h05", "eth2"): ("172.18.1.10/31", "172.18.1.11"),
    }
    assert imported.summary == "2 RCP files: 3 hosts, 2 rails, 6 ports; the plan reproduces every address"


def test_another_octet_and_three_tiers_come_back() -> None:
    hosts = "[host]\nhgx-pod00-su00-h00\nhgx-pod03-su02-h01\n"
    imported = import_rcp(site(hosts, topology="3-tier", host_first_octet=11))
    assert codes(imported) == []
    assert lay(imported)["hgx-pod03-su02-h01", "eth2"] == ("11.35.2.2/31", "11.35.2.3")


def test_disabled_hosts_are_left_out() -> None:
    hosts = "[host]\nhgx-su00-h[00:03]\n[disabled]\nhgx-su00-h[02:31]\nleaf-su00-r[2:3]\n"
    assert sorted(import_rcp(site(hosts)).lock) == ["hgx-su00-h00", "hgx-su00-h01"]


def test_pci_addresses_select_the_ports_and_rails_name_them() -> None:
    rename = {"netdev_prefix": "eth", "rdma_prefix": "roce", "pci_addr": {"dell": ["0000:18:00.0", "0000:2a:00.0"]}}
    files = site(ports_rename=rename, host_interfaces=None)
    imported = import_rcp(files)
    assert codes(imported) == ["no-place"]
    [group] = imported.document["spec"]["nodes"]
    assert group["ports"] == ["0000:18:00.0", "0000:2a:00.0"]
    assert lay(imported)["hgx-su00-h01", "rail1"] == ("172.18.0.2/31", "172.18.0.3")


def test_wider_subnets_give_the_leaf_the_first_address_and_the_host_the_second() -> None:
    imported = import_rcp(site(host_subnet_size=29))
    assert codes(imported) == ["patch-version"]
    assert lay(imported)["hgx-su00-h00", "eth1"] == ("172.16.0.2/29", "172.16.0.1")
    assert lay(imported)["hgx-su01-h05", "eth2"] == ("172.18.1.42/29", "172.18.1.41")


def test_subnets_of_four_addresses_are_refused() -> None:
    with pytest.raises(SpecError, match="ipv4NodePrefix is 30, it must be at most 29"):
        import_rcp(site(host_subnet_size=30))


@pytest.mark.parametrize("overlay", [False, "none", None])
def test_no_overlay_is_no_finding(overlay: object) -> None:
    assert codes(import_rcp(site(overlay=overlay))) == []


def test_ipv6_comes_back() -> None:
    imported = import_rcp(site(ip_version="ipv6"))
    assert codes(imported) == []
    assert lay(imported, 6)["hgx-su01-h05", "eth2"] == ("fd02:0:100:105::1/64", "fd02:0:100:105::2")


def test_planes_become_rails_and_are_said() -> None:
    ports = [f"eth{n}" for n in range(4)]
    imported = import_rcp(site(planes_num=2, system_type="gb200", host_interfaces=ports))
    assert codes(imported) == ["no-place"]
    assert lay(imported)["hgx-su01-h05", "eth1"] == ("172.20.1.10/31", "172.20.1.11")


def test_a_topology_places_hosts_whatever_their_names() -> None:
    links = [
        [
            {"node": "leaf", "attributes": {"role": "leaf", "plane": 0}},
            {"node": host, "interface": "x", "attributes": {"role": "host", "rail": rail, "su": unit}},
        ]
        for host, unit in (("anna", 0), ("bert", 0), ("cleo", 3))
        for rail in (0, 1)
    ]
    topology = json.dumps({"nodes": [], "links": [*links, ["unconnected", links[0][0]]]}).encode()
    imported = import_rcp({"": [*site("")[""], ("out/topology.json", topology)]})
    assert codes(imported) == []
    assert lay(imported)["bert", "eth2"] == ("172.18.0.2/31", "172.18.0.3")
    assert lay(imported)["cleo", "eth1"] == ("172.16.3.0/31", "172.16.3.1")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"topology": "ring"}, "bad-value"),
        ({"host_first_octet": "many"}, "bad-value"),
        ({"host_first_octet": 10**30}, "bad-value"),
        ({"host_subnet_size": 24}, "bad-value"),
        ({"host_interfaces": []}, "no-ports"),
        ({"hosts": "[leaf]\nleaf-su00-r0\n"}, "no-hosts"),
        ({"hosts": "[host]\nanna\n"}, "no-hosts"),
        ({"hosts": "[host]\nhgx-su99-h00\n"}, "no-rails"),
        ({"hosts": "[host]\nh[0:999999]\n"}, "too-large"),
    ],
)
def test_what_gives_no_address_is_refused(changes: dict[str, Any], code: str) -> None:
    with pytest.raises(SpecError) as caught:
        import_rcp(site(**changes))
    assert code in {problem.code for problem in caught.value.problems}


def test_without_a_configuration_nothing_is_imported() -> None:
    with pytest.raises(SpecError, match=r"no file here is RCP's config\.yaml"):
        import_rcp({"": [("a.yaml", b"a: 1\n")]})


def test_ranges_in_ranges_are_bounded() -> None:
    with pytest.raises(SpecError):
        read_hosts(("hosts", b"[host]\n" + b"a" + b"[0:999999]" * 9))
    assert len(read_hosts(("hosts", f"[host]\nn[1:{MAX_HOSTS}]".encode()))) == MAX_HOSTS
    assert read_hosts(("hosts", b"[host]\nn[000000:999999][000000:999999][1:0]")) == {}
    assert list(read_hosts(("hosts", b"[host]\na[00:01]b[8:9]c"))) == ["a00b8c", "a00b9c", "a01b8c", "a01b9c"]


_VALUES = st.none() | st.integers(-1, 300) | st.text("0ethx:.-é", max_size=6) | st.lists(st.text("et0"), max_size=3)
_CONFIGS = st.dictionaries(st.sampled_from([*CONFIG, "ports_rename", "host_subnet_size"]), _VALUES, max_size=3)
_INVENTORY = st.lists(
    st.sampled_from(["[host]", "[disabled]", "hgx-su00-h[00:03]", "hgx-su01-h0", "x", "[", "h[3:1]", "hgx-su9-h[0:9]"])
    | st.text(max_size=6)
).map("\n".join)


@settings(max_examples=150)
@given(_CONFIGS, _INVENTORY)
def test_any_files_end_in_a_fabric_or_problems(changes: dict[str, Any], hosts: str) -> None:
    try:
        imported = import_rcp(site(f"{HOSTS}{hosts}", **changes))
    except SpecError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        return
    assert imported.lock
