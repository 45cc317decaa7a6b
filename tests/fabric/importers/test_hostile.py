"""The importer returns a Fabric or problems for any input; it never fails otherwise."""

from __future__ import annotations

import string
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.importers.sites import codes, example, import_netplan, plain
from trackbed.fabric.importers.netplan import import_netplan as run
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.problems import SpecError

ODD_ENTRIES = {
    "ethernets is a list": {"ethernets": ["a"]},
    "ethernets is text": {"ethernets": "a"},
    "an interface is a list": {"ethernets": {"a": ["x"]}},
    "an interface is text": {"ethernets": {"a": "x"}},
    "an interface is null": {"ethernets": {"a": None}},
    "addresses is text": {"ethernets": {"a": {"addresses": "x"}}},
    "addresses is a mapping": {"ethernets": {"a": {"addresses": {"x": 1}}}},
    "addresses holds a list": {"ethernets": {"a": {"addresses": [["10.0.0.1/24"]]}}},
    "an address without prefix": {"ethernets": {"a": {"addresses": ["10.0.0.1"]}}},
    "an address with prefix 0": {"ethernets": {"a": {"addresses": ["10.0.0.1/0"]}}},
    "an address beyond IPv4": {"ethernets": {"a": {"addresses": ["10.0.0.256/24"]}}},
    "an empty mapping as address": {"ethernets": {"a": {"addresses": [{}]}}},
    "a labelled nothing": {"ethernets": {"a": {"addresses": [{"10.0.0.1/24": None}]}}},
    "routes is text": {"ethernets": {"a": {"routes": "x"}}},
    "a route without to": {"ethernets": {"a": {"routes": [{"via": "10.0.0.1"}]}}},
    "a route to nowhere": {"ethernets": {"a": {"routes": [{"to": "there", "via": "10.0.0.1"}]}}},
    "a route by nothing": {"ethernets": {"a": {"routes": [{"to": "10.0.0.0/8", "via": "here"}]}}},
    "a route with prefix 99": {"ethernets": {"a": {"routes": [{"to": "10.0.0.0/99"}]}}},
    "match is text": {"ethernets": {"a": {"match": "x"}}},
    "match by driver only": {"ethernets": {"a": {"match": {"driver": ["mlx5_core"]}}}},
    "mtu is a list": {"ethernets": {"a": {"mtu": [9000]}}},
    "mtu is text": {"ethernets": {"a": {"mtu": "jumbo"}}},
    "mtu is huge": {"ethernets": {"a": {"mtu": 10**30}}},
    "mac is none": {"ethernets": {"a": {"match": {"macaddress": "xx"}}}},
    "name too long": {"ethernets": {"a": {"set-name": "a-name-of-more-than-15-bytes"}}},
    "name with a slash": {"ethernets": {"../../a": {"addresses": ["10.0.0.1/24"]}}},
    "bonds is a list": {"bonds": ["x"]},
    "a bond is text": {"bonds": {"b": "x"}},
    "members are a mapping": {"bonds": {"b": {"interfaces": {"a": 1}}}},
}


@pytest.mark.parametrize("network", ODD_ENTRIES.values(), ids=ODD_ENTRIES.keys())
def test_an_odd_entry_beside_good_ones_costs_no_rail(network: dict[str, Any]) -> None:
    files = example(0, 1)
    odd = ("99-odd.yaml", yaml.safe_dump({"network": network}).encode())
    imported = run({**files, "worker-gpu-1": [*files["worker-gpu-1"], odd]})
    assert len(imported.fabric.spec.rails) == 8
    assert imported.lock == {"worker-gpu-0": 0, "worker-gpu-1": 1}


def test_a_host_with_a_broken_file_is_left_out() -> None:
    files = {**example(0, 1, 2), "worker-gpu-2": [("worker-gpu-2.yaml", b"network: [")]}
    imported = import_netplan(files)
    assert list(imported.lock) == ["worker-gpu-0", "worker-gpu-1"]
    assert sorted(codes(imported)) == ["bad-yaml", "left-out"]


@pytest.mark.parametrize("host", ["../etc", "a/b", "", "-a", "a b", "gpu-[0-3]", "@all", "a,b", "a" * 254, "ä"])
def test_a_name_that_is_no_host_name_is_left_out(host: str) -> None:
    imported = import_netplan({**example(0), host: example(1)["worker-gpu-1"]})
    assert list(imported.lock) == ["worker-gpu-0"]
    assert codes(imported) == ["bad-host"]


_TEXT = st.text(string.ascii_lowercase + string.digits + ".:/-*[]{}#'\"\\ \téß\x85", max_size=12)
_ADDRESS = st.builds(
    "10.{}.{}.{}/{}".format, st.integers(0, 3), st.integers(0, 1), st.integers(0, 255), st.sampled_from([8, 16, 27, 31])
)
_ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "addresses": st.lists(_ADDRESS | _TEXT, max_size=3),
        "routes": st.lists(st.fixed_dictionaries({"to": _ADDRESS | _TEXT, "via": _TEXT}), max_size=2),
        "mtu": st.integers(0, 99_999) | _TEXT,
        "match": st.fixed_dictionaries({}, optional={"macaddress": _TEXT, "name": _TEXT}),
        "set-name": _TEXT,
        "dhcp4": st.booleans(),
        "gateway4": _TEXT,
    },
)
_HOSTS = st.dictionaries(
    st.sampled_from(["a", "b", "c1", "c2"]), st.dictionaries(_TEXT, _ENTRY, max_size=4), min_size=1
)


@settings(max_examples=150)
@given(_HOSTS)
def test_any_entries_end_in_a_readable_fabric_or_findings(hosts: dict[str, Any]) -> None:
    files = {
        host: [(f"{host}.yaml", yaml.safe_dump({"network": {"ethernets": entry}}).encode())]
        for host, entry in hosts.items()
    }
    try:
        imported = run(files)
    except SpecError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        return
    if any(finding.severity == "error" for finding in imported.problems):
        return
    loaded = load_fabric((imported.render_fabric() + "---\n" + imported.render_lock()).encode(), "fabric.yaml")
    assert (loaded.fabric, loaded.lock.nodes if loaded.lock else None) == (imported.fabric, imported.lock)


def test_subnets_that_no_scheme_knows_are_told_and_no_fabric() -> None:
    files = plain({f"n{n}": {f"r{r}": f"{{addresses: [10.{r}.0.{4 * n + 2}/30]}}" for r in (1, 2)} for n in range(3)})
    with pytest.raises(SpecError) as caught:
        run(files)
    assert str(caught.value) == (
        "n0.yaml:4:22: error: the addresses, as 10.1.0.2/30, look like scheme node-subnet, but a Fabric cannot express "
        "that: ipv4NodePrefix is 30, it must be at most 29 [no-scheme]"
    )
