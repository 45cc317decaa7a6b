"""States of nmstate, plain and in objects of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fabric.importers.sites import Files, addresses, codes, plan_of, planned
from tests.fabric.importers.test_networkd import FABRICS
from trackbed.fabric.importers.inference.import_hosts import MAX_INTERFACES
from trackbed.fabric.importers.nmstate import import_nmstate
from trackbed.fabric.importers.nmstate.interfaces import NmstateReader
from trackbed.fabric.importers.nmstate.states import State
from trackbed.fabric.importers.result import ImportResult
from trackbed.fabric.importers.values import MAX_HOST_VALUES
from trackbed.fabric.model.problems import SpecError
from trackbed.fabric.model.source import read_yaml

Document = dict[str, Any]


def port(rail: int, number: int, **fields: object) -> Document:
    """Return an interface on a routed /31."""
    address = {"ip": f"10.{rail}.0.{2 * number}", "prefix-length": 31}
    entry = {"name": f"eth{rail}", "type": "ethernet", "state": "up", "mtu": 9000}
    return entry | {"ipv4": {"enabled": True, "dhcp": False, "address": [address]}} | fields


def route(rail: int, number: int) -> Document:
    """Return the route to a rail's range."""
    via = f"10.{rail}.0.{2 * number + 1}"
    return {"destination": f"10.{rail}.0.0/16", "next-hop-interface": f"eth{rail}", "next-hop-address": via}


def state(number: int) -> Document:
    """Return the state of a host with two rails."""
    return {
        "interfaces": [port(rail, number) for rail in (0, 1)],
        "routes": {"config": [route(rail, number) for rail in (0, 1)]},
    }


def policy(name: str, desired: Document, **selector: str) -> Document:
    """Return a NodeNetworkConfigurationPolicy; `hostname` selects by the host's label."""
    labels = {"kubernetes.io/hostname": selector["hostname"]} if selector else {"node-role.kubernetes.io/worker": ""}
    spec = {"nodeSelector": labels, "desiredState": desired}
    return {
        "apiVersion": "nmstate.io/v1",
        "kind": "NodeNetworkConfigurationPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


def dump(*documents: Document) -> bytes:
    """Return YAML documents."""
    return yaml.safe_dump_all(documents, sort_keys=False).encode()


def lay(imported: ImportResult) -> dict[tuple[str, str], str]:
    """Return the address of each port of the plan."""
    return {key: address for key, (address, _) in addresses(plan_of(imported)).items()}


WANTED = {(f"gpu-{n}", f"eth{r}"): f"10.{r}.0.{2 * n}/31" for n in range(2) for r in range(2)}


def test_plain_states_come_back_as_the_same_addresses() -> None:
    imported = import_nmstate({f"gpu-{n}": [(f"gpu-{n}.yaml", dump(state(n)))] for n in range(2)})
    assert codes(imported) == []
    assert lay(imported) == WANTED
    assert imported.summary == "2 nmstate files: 2 hosts, 2 rails, 4 ports; the plan reproduces every address"


def test_policies_in_one_file_are_for_the_hosts_that_they_select() -> None:
    content = dump(*(policy(f"rails-{n}", state(n), hostname=f"gpu-{n}") for n in range(2)))
    imported = import_nmstate({"policies": [("policies.yaml", content)]})
    assert codes(imported) == []
    assert lay(imported) == WANTED
    assert imported.summary.startswith("1 nmstate file: 2 hosts")


def test_a_list_of_objects_is_read_item_by_item() -> None:
    items = [policy(f"rails-{n}", state(n), hostname=f"gpu-{n}") for n in range(2)]
    assert lay(import_nmstate({"x": [("x.yaml", dump({"kind": "List", "items": items}))]})) == WANTED


def test_a_route_that_names_no_interface_is_told() -> None:
    documents = [state(n) for n in range(2)]
    documents[1]["routes"]["config"] += [
        {"destination": "198.51.200.0/24", "route-type": "blackhole"},
        {"destination": "198.51.100.0/24", "state": "absent"},
    ]
    imported = import_nmstate({f"gpu-{n}": [(f"gpu-{n}.yaml", dump(document))] for n, document in enumerate(documents)})
    [problem] = imported.problems
    assert (problem.code, problem.severity) == ("route-replaced", "warning")
    assert problem.message.startswith("the blackhole route to 198.51.200.0/24 names no interface")


def test_a_lease_is_no_address_of_a_rail() -> None:
    lease = {"ip": "192.168.127.74", "prefix-length": 24}
    dynamic = {"name": "eth9", "type": "ethernet", "ipv4": {"enabled": True, "dhcp": True, "address": [lease]}}
    documents = [{**state(n), "interfaces": [*state(n)["interfaces"], dynamic]} for n in range(2)]
    imported = import_nmstate({f"gpu-{n}": [(f"gpu-{n}.yaml", dump(document))] for n, document in enumerate(documents)})
    assert [problem.message for problem in imported.problems] == [
        "eth9 is no rail: DHCP gives its address (2 hosts: gpu-[0-1])"
    ]
    assert lay(imported) == WANTED


def test_a_policy_for_many_hosts_completes_their_own() -> None:
    bare = [{**state(n), "interfaces": [port(r, n) | {"mtu": None} for r in (0, 1)]} for n in range(2)]
    for document in bare:
        for entry in document["interfaces"]:
            del entry["mtu"]
    common = policy("mtu", {"interfaces": [{"name": f"eth{r}", "type": "ethernet", "mtu": 4200} for r in (0, 1)]})
    policies = [policy(f"rails-{n}", bare[n], hostname=f"gpu-{n}") for n in range(2)]
    imported = import_nmstate({"x": [("x.yaml", dump(common, *policies))]})
    assert imported.fabric.spec.mtu == 4200
    assert lay(imported) == WANTED


def test_addresses_in_a_policy_for_many_hosts_are_reported() -> None:
    policies = [policy(f"rails-{n}", state(n), hostname=f"gpu-{n}") for n in range(2)]
    imported = import_nmstate({"x": [("x.yaml", dump(policy("all", state(7)), *policies))]})
    assert codes(imported) == ["many-hosts"]
    assert imported.problems[0].message.startswith("policy all gives static addresses, as 10.0.0.14, to every node")
    assert lay(imported) == WANTED


def test_the_state_that_a_node_reports_is_read() -> None:
    nodes = [
        {"kind": "NodeNetworkState", "metadata": {"name": f"gpu-{n}"}, "status": {"currentState": state(n)}}
        for n in range(2)
    ]
    assert lay(import_nmstate({"x": [("x.yaml", dump(*nodes))]})) == WANTED


def test_an_nmstateconfig_has_macs_apart_from_names() -> None:
    configs = [
        {
            "kind": "NMStateConfig",
            "metadata": {"name": f"gpu-{n}"},
            "spec": {
                "config": state(n),
                "interfaces": [{"name": f"eth{r}", "macAddress": f"B8:3F:D2:00:0{n}:0{r}"} for r in (0, 1)],
            },
        }
        for n in range(2)
    ]
    imported = import_nmstate({"x": [("x.yaml", dump(*configs))]})
    [group] = imported.document["spec"]["nodes"]
    assert group["hostPorts"]["gpu-1"] == ["b8:3f:d2:00:01:00", "b8:3f:d2:00:01:01"]


@pytest.mark.parametrize("field", ["absent", "down", "ignore"])
def test_an_interface_that_is_not_up_is_not_read(field: str) -> None:
    assert read({"interfaces": [port(0, 0, state=field)]}) == ([], [])


def test_members_of_bonds_and_bridges_are_no_rails() -> None:
    entries = [
        {"name": "bond0", "type": "bond", "link-aggregation": {"port": ["eth0"]}, "ipv4": port(0, 0)["ipv4"]},
        {"name": "br0", "type": "linux-bridge", "bridge": {"port": [{"name": "eth1"}]}},
        {"name": "eth0", "type": "ethernet"},
        {"name": "eth1", "type": "ethernet"},
        port(2, 0, controller="br1"),
        {"name": "lo", "type": "loopback", "ipv4": port(0, 0)["ipv4"]},
        {"name": "cali1", "type": "veth"},
    ]
    assert read({"interfaces": entries}) == (
        [],
        [
            "bond bond0 is no rail: rails are Ethernet ports (it has 10.0.0.0/31)",
            "linux-bridge br0 is no rail: rails are Ethernet ports",
            "eth0 is no rail: it belongs to bond0",
            "eth1 is no rail: it belongs to br0",
            "eth2 is no rail: it belongs to br1 (it has 10.2.0.0/31)",
        ],
    )


def test_infiniband_and_vrfs_are_told() -> None:
    entries = [
        {"name": "ib0", "type": "infiniband", "mtu": 2044, "infiniband": {"mode": "datagram"}},
        {"name": "ib0.8001", "type": "infiniband", "infiniband": {"pkey": "0x8001", "base-iface": "ib0"}},
        {"name": "blue", "type": "vrf", "vrf": {"port": ["eth0"], "route-table-id": 100}},
        port(0, 0),
    ]
    [parsed] = read_yaml(dump({"interfaces": entries}), "h.yaml")
    reader = NmstateReader("h")
    interfaces = list(reader.read_interfaces([State(parsed.to_scalars(), ("h.yaml", b""), {})]))
    assert [(entry.name, entry.link_type, entry.vrf) for entry in interfaces] == [
        ("ib0", "infiniband", ""),
        ("eth0", "ethernet", "blue"),
    ]


def test_an_interface_found_by_mac_has_no_name() -> None:
    entry = port(0, 0, identifier="mac-address", **{"mac-address": "B8:3F:D2:00:00:01"})
    assert read({"interfaces": [entry]}) == ([("", "b8:3f:d2:00:00:01", ["10.0.0.0/31"])], [])


def test_addresses_of_a_disabled_family_are_not_read() -> None:
    entry = port(0, 0) | {"ipv6": {"enabled": False, "address": [{"ip": "fd00::1", "prefix-length": 64}]}}
    assert read({"interfaces": [entry]})[0] == [("eth0", None, ["10.0.0.0/31"])]


def read(document: Document) -> tuple[list[tuple[str, str | None, list[str]]], list[str]]:
    """Return (name, MAC, addresses) of the interfaces of a state, and the messages of its problems."""
    [parsed] = read_yaml(dump(document), "h.yaml")
    reader = NmstateReader("h")
    interfaces = list(reader.read_interfaces([State(parsed.to_scalars(), ("h.yaml", b""), {})]))
    ports = [(port.name, port.mac, list(map(str, port.addresses))) for port in interfaces]
    return ports, [problem.message for problem in reader.problems]


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"- a\n", "no-state"), (b"a: 1\n", "no-state"), (b"interfaces: [", "bad-yaml"), (b"\xff", "not-utf8")],
)
def test_a_file_that_cannot_be_read_leaves_its_host_out(content: bytes, code: str) -> None:
    files: Files = {f"gpu-{n}": [(f"gpu-{n}.yaml", dump(state(n)))] for n in range(2)}
    imported = import_nmstate({**files, "gpu-2": [("gpu-2.yaml", content)]})
    assert sorted(codes(imported)) == sorted(["left-out", code])
    assert lay(imported) == WANTED


def test_a_host_with_too_many_addresses_is_left_out() -> None:
    many = "{ip: 10.9.0.1, prefix-length: 24}, " * (MAX_HOST_VALUES + 1)
    text = f"interfaces: [{{name: eth0, ipv4: {{address: [{many}]}}}}]".encode()
    files: Files = {f"gpu-{n}": [(f"gpu-{n}.yaml", dump(state(n)))] for n in range(2)}
    imported = import_nmstate({**files, "gpu-2": [("gpu-2.yaml", text)]})
    assert sorted(codes(imported)) == ["left-out", "too-large"]


def test_a_host_with_too_many_interfaces_is_left_out() -> None:
    entries = "".join(f"- {{name: e{number}}}\n" for number in range(MAX_INTERFACES + 1))
    files: Files = {f"gpu-{n}": [(f"gpu-{n}.yaml", dump(state(n)))] for n in range(2)}
    imported = import_nmstate({**files, "gpu-2": [("gpu-2.yaml", f"interfaces:\n{entries}".encode())]})
    assert sorted(codes(imported)) == ["left-out", "too-large"]


_TEXT = st.text("eth01.:/-*é \x85", max_size=8)
_LEAF = _TEXT | st.integers(-1, 99_999) | st.booleans() | st.none() | st.sampled_from(["10.0.0.0", "eth0", "up"])
_KEYS = st.sampled_from([
    "interfaces", "name", "type", "state", "mtu", "ipv4", "address", "ip", "prefix-length", "routes", "config", "kind",
    "destination", "next-hop-interface", "spec", "desiredState", "nodeSelector", "items", "bridge", "port", "metadata",
])  # fmt: skip
_VALUES = st.recursive(_LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4))


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["a", "b"]), st.lists(_VALUES, max_size=2), min_size=1))
def test_any_documents_end_in_a_fabric_or_problems(hosts: dict[str, list[Any]]) -> None:
    files: Files = {
        host: [(f"{host}.yaml", yaml.safe_dump_all(documents).encode())] for host, documents in hosts.items()
    }
    try:
        imported = import_nmstate(files)
    except SpecError as error:
        assert error.problems  # noqa: PT017 - either outcome is right
        return
    assert imported.lock


def test_the_same_plan_comes_back_for_every_scheme() -> None:
    for fabric in FABRICS.values():
        plan = planned(fabric)
        files: Files = {}
        for node in plan.nodes:
            entries, routes = [], []
            for member in node.ports:
                address, _, prefix = str(member.v4).partition("/")
                ip = {"enabled": True, "address": [{"ip": address, "prefix-length": int(prefix)}]}
                entries.append({"name": member.netdev, "type": "ethernet", "mtu": 9000, "ipv4": ip})
                gateway = addresses(plan)[node.name, member.netdev][1]
                supernet = str(plan.common.supernet4)
                routes += [
                    {"destination": destination, "next-hop-interface": member.netdev, "next-hop-address": gateway}
                    for destination in (str(plan.common.rails[member.rail].v4), supernet)
                    if gateway
                ]
            document = {"interfaces": entries, "routes": {"config": routes}}
            files[node.name] = [(f"{node.name}.yaml", dump(document))]
        imported = import_nmstate(files)
        assert codes(imported) == []
        assert addresses(plan_of(imported)) == addresses(plan)
