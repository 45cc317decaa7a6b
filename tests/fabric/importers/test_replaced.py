"""Routes, tables, rules and VRFs of netplan files that the plan has not, or otherwise: told, and exit status 1."""

from __future__ import annotations

import pytest

from tests.fabric.importers.sites import Files, codes, import_netplan, plain, plan_of, planned, rendered
from trackbed.fabric.plan.routes import build_source_rule, iter_routes

_POINT_TO_POINT = """  rails: 2
  addressing: {scheme: point-to-point, ipv4: 10.0.0.0/14, ipv6: "fd02::/32", ipv6RailPrefix: 40, ipv6NodePrefix: 64}
  nodes: [{hosts: "n[0-2]", ports: [eth0, eth1]}]
"""
_SITES = {
    "point-to-point": _POINT_TO_POINT,
    "tables": f"{_POINT_TO_POINT}  routing: {{tableBase: 700, rulePriority: 1500}}\n",
    "isolated": f"{_POINT_TO_POINT}  routing: {{crossRail: isolated}}\n",
    "shared": "  rails: 2\n  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/15}\n"
    '  nodes: [{hosts: "n[0-2]", ports: [eth0, eth1]}]\n',
    "gateways": "  rails: 2\n  addressing: {scheme: shared-subnet, ipv4: 10.0.0.0/15, gateway: last}\n"
    '  nodes: [{hosts: "n[0-2]", ports: [eth0, eth1]}]\n',
    "node-subnet": "  rails: 2\n  addressing: {scheme: node-subnet, ipv4: 10.0.0.0/15}\n"
    '  nodes: [{hosts: "n[0-2]", ports: [eth0, eth1]}]\n',
}


def _site(routes: str = "", rules: str = "") -> Files:
    """Return two hosts with two /31 rails; `{rail}` and `{number}` in routes and rules stand for those of the port."""

    def build_port(rail: int, number: int) -> str:
        values = {"rail": rail, "number": number, "leaf": number + 1, "table": 101 + rail}
        usual = f"{{to: 10.{rail}.0.0/16, via: 10.{rail}.0.{number + 1}}}"
        listed = ", ".join(filter(None, (usual, routes.format(**values))))
        return (
            f"{{mtu: 9000, addresses: [10.{rail}.0.{number}/31], routes: [{listed}], "
            f"routing-policy: [{rules.format(**values)}]}}"
        )

    return plain({f"n{n}": {f"eth{rail}": build_port(rail, 2 * n) for rail in (0, 1)} for n in (0, 1)})


def _messages(files: Files) -> list[str]:
    imported = import_netplan(files)
    return [f"{problem.message} [{problem.code}]" for problem in imported.problems if problem.severity != "note"]


@pytest.mark.parametrize("fabric", _SITES.values(), ids=_SITES.keys())
def test_what_trackbed_renders_comes_back_with_every_route_table_and_rule(fabric: str) -> None:
    imported = import_netplan(rendered(fabric))
    assert codes(imported) == []
    assert imported.summary.endswith("the plan reproduces every address")
    plan, source = plan_of(imported), planned(fabric)
    for node, other in zip(plan.nodes, source.nodes, strict=True):
        for port, other_port in zip(node.ports, other.ports, strict=True):
            for address, other_address in zip(port.addresses, other_port.addresses, strict=True):
                assert list(iter_routes(plan.common, port.rail, address, carries_supernet=True)) == list(
                    iter_routes(source.common, port.rail, other_address, carries_supernet=True)
                )
                assert build_source_rule(plan.common, port.rail, address) == build_source_rule(
                    source.common, port.rail, other_address
                )


def test_tables_and_priorities_that_all_rails_count_from_one_number_are_kept() -> None:
    imported = import_netplan(
        _site(
            "{{to: default, via: 10.{rail}.0.{leaf}, table: 60{rail}}}",
            "{{from: 10.{rail}.0.{number}, table: 60{rail}, priority: 120{rail}}}",
        )
    )
    assert codes(imported) == []
    assert imported.document["spec"]["routing"] == {"tableBase": "600", "rulePriority": "1200"}


@pytest.mark.parametrize(
    ("routes", "rules", "expected"),
    [
        pytest.param(
            "{{to: default, via: 10.{rail}.0.{leaf}, table: {table}}}",
            "",
            "rail 0 (eth0): the plan replaces the route to everywhere by its gateway in table 101: it has it in table "
            "1000; correct what refers to the other table, or write routing.tableBase (2 hosts: n[0-1]) "
            "[route-replaced]",
            id="table-below-256",
        ),
        pytest.param(
            "{{to: 10.0.0.0/8, via: 10.{rail}.0.{leaf}, metric: 50}}",
            "",
            "rail 0 (eth0): the plan replaces the route to 10.0.0.0/8 by its gateway: it has its route without metric "
            "50 (2 hosts: n[0-1]) [route-replaced]",
            id="metric",
        ),
        pytest.param(
            "{{to: 192.168.7.0/24, via: 10.{rail}.0.{leaf}}}",
            "",
            "rail 0 (eth0): the plan replaces the route to 192.168.7.0/24 by its gateway: it leads to no rail; keep it "
            "in a file of its own if it is needed (2 hosts: n[0-1]) [route-replaced]",
            id="elsewhere",
        ),
        pytest.param(
            "{{to: 0.0.0.0/0, via: 10.{rail}.0.{leaf}}}",
            "",
            "rail 0 (eth0): the plan replaces the route to everywhere by its gateway: the default route of a host does "
            "not lead over a rail; give another interface the default route (2 hosts: n[0-1]) [route-replaced]",
            id="default",
        ),
        pytest.param(
            "",
            "{{from: 10.{rail}.0.0/16, table: 1000}}",
            "rail 0 (eth0): the plan replaces the rule from 10.0.0.0/16 for table 1000: its rule asks for the port's "
            "address only, for table 1000 (2 hosts: n[0-1]) [rule-replaced]",
            id="wide-rule",
        ),
        pytest.param(
            "",
            "{{to: 10.{rail}.0.0/16, table: 1000, mark: 7}}",
            "rail 0 (eth0): the plan replaces the rule, mark 7, to 10.0.0.0/16 for table 1000: its rule asks for the "
            "port's address only, for table 1000 (2 hosts: n[0-1]) [rule-replaced]",
            id="mark",
        ),
        pytest.param(
            "",
            "{{from: 10.{rail}.0.{number}/32, table: {table}, priority: 1010}}",
            "rail 0 (eth0): the plan replaces the rule from its address for table 101 with priority 1010: its rule is "
            "for table 1000; correct what refers to the other table (2 hosts: n[0-1]) [rule-replaced]",
            id="rule-table",
        ),
        pytest.param(
            "{{to: 10.{rail}.9.0/24, type: blackhole}}",
            "",
            "rail 0 (eth0): the plan replaces the blackhole route to 10.0.9.0/24: it has no route of type blackhole "
            "there (2 hosts: n[0-1]) [route-replaced]",
            id="blackhole",
        ),
    ],
)
def test_what_the_plan_replaces_is_told_once_for_a_rail(routes: str, rules: str, expected: str) -> None:
    messages = _messages(_site(routes, rules))
    assert expected in messages
    assert {message.rpartition("[")[2] for message in messages} <= {"route-replaced]", "rule-replaced]"}


def test_the_summary_counts_what_is_replaced() -> None:
    summary = import_netplan(_site("{{to: 192.168.7.0/24, via: 10.{rail}.0.{leaf}}}")).summary
    assert summary.endswith("the plan reproduces every address, and has 4 routes, rules and VRFs otherwise")


def test_a_rule_that_is_no_mapping_or_has_no_address_is_reported() -> None:
    messages = _messages(_site("", "x, {{from: here, table: 7}}"))
    assert "cannot read 'here' in a rule (2 hosts: n[0-1]) [bad-rule]" in messages
    assert "a rule must be a mapping, as in {from: 10.0.0.1, table: 101} (2 hosts: n[0-1]) [bad-rule]" in messages


def _build_vrf_file(number: int) -> str:
    text = "network:\n  ethernets:\n    eno1: {dhcp4: true}\n"
    for rail in (0, 1):
        text += f"    eth{rail}: {{mtu: 9000, addresses: [10.{rail}.0.{number}/31]}}\n"
    text += "  vrfs:\n"
    for rail in (0, 1):
        routes = f"[{{to: default, via: 10.{rail}.0.{number + 1}}}]"
        rules = f"[{{from: 10.{rail}.0.{number}}}]"
        text += (
            f"    red{rail}: {{table: 10{rail}, interfaces: [eth{rail}], routes: {routes}, routing-policy: {rules}}}\n"
        )
    return text


def _build_vrf_site() -> Files:
    return {f"n{n}": [(f"n{n}.yaml", _build_vrf_file(2 * n).encode())] for n in (0, 1, 2)}


def test_a_rail_inside_a_vrf_is_found_and_told_with_its_table() -> None:
    imported = import_netplan(_build_vrf_site())
    assert [str(rail.v4) for rail in plan_of(imported).common.rails] == ["10.0.0.0/16", "10.1.0.0/16"]
    messages = [problem.message for problem in imported.problems]
    assert (
        "rail 0 (eth0) is in VRF red0 (table 100): a plan has no VRFs, and a rule for the port's address with table "
        "1000 in its place; take the port out of the VRF (3 hosts: n[0-2])"
    ) in messages
    assert (
        "rail 0 (eth0): the plan replaces the route to everywhere by its gateway in table 100: it has it in table "
        "1000; correct what refers to the other table, or write routing.tableBase (3 hosts: n[0-2])"
    ) in messages
    assert not imported.is_clean


@pytest.mark.parametrize("vrfs", ["[red]", "red", "{red: [eth0]}", "{red: {interfaces: {a: b}}}", "{red: {table: []}}"])
def test_an_odd_vrf_costs_no_rail(vrfs: str) -> None:
    files = {host: [(path, text + f"  vrfs: {vrfs}\n".encode())] for host, [(path, text)] in _site().items()}
    assert len(plan_of(import_netplan(files)).common.rails) == 2
