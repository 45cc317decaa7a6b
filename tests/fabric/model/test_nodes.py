"""Node groups: host ranges and port selectors."""

from __future__ import annotations

import time

import pytest
from pydantic_core import PydanticCustomError

from trackbed.fabric.model.nodes import MAX_NODES, NodeGroup, expand_hosts


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("gpu-0", ["gpu-0"]),
        ("gpu-[0-2]", ["gpu-0", "gpu-1", "gpu-2"]),
        ("gpu-[9-11]", ["gpu-9", "gpu-10", "gpu-11"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[0-4/2,7]", ["n0", "n2", "n4", "n7"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("a[0-1],b.example.com", ["a0", "a1", "b.example.com"]),
    ],
)
def test_ranges_name_hosts_in_the_order_of_numbers(hosts: str, names: list[str]) -> None:
    assert sorted(expand_hosts(hosts)) == sorted(names)
    assert NodeGroup(hosts=hosts).list_names() == tuple(expand_hosts(hosts))


@pytest.mark.parametrize("hosts", ["n[0-999999999]", "n[0-99999][0-99999]", ",".join(["n[0-99999]"] * 50)])
def test_a_range_of_too_many_hosts_is_refused_before_it_is_spelt_out(hosts: str) -> None:
    began = time.perf_counter()
    with pytest.raises(PydanticCustomError, match="it must be 1 to 100000"):
        expand_hosts(hosts)
    assert time.perf_counter() - began < 1


def test_the_largest_group_is_read() -> None:
    assert len(list(expand_hosts(f"n[1-{MAX_NODES}]"))) == MAX_NODES


def test_a_port_of_a_host_completes_that_of_its_group() -> None:
    group = NodeGroup.model_validate(
        {"hosts": "a,b", "ports": ["eth0", "eth1"], "hostPorts": {"a": ["b8:3f:d2:00:00:01", None]}}
    )
    [first, second] = group.select_ports("a", 2)
    assert first is not None
    assert (first.mac, first.netdev, second) == ("b8:3f:d2:00:00:01", "eth0", None)
    assert group.select_ports("b", 2) == group.ports


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("enp1s0", "netdev", "enp1s0"),
        ("0000:3B:00.0", "pci", "0000:3b:00.0"),
        ("B8:3F:D2:00:00:01", "mac", "b8:3f:d2:00:00:01"),
        ("b8-3f-d2-00-00-01", "mac", "b8:3f:d2:00:00:01"),
        ("a-b-c-d-e-f", "netdev", "a-b-c-d-e-f"),
    ],
)
def test_a_port_written_as_text_is_recognised_by_its_form(text: str, field: str, value: str) -> None:
    group = NodeGroup.model_validate({"hosts": "a", "ports": [text]})
    assert group.ports is not None
    assert group.ports[0] is not None
    assert getattr(group.ports[0], field) == value
