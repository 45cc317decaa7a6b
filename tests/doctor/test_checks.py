"""Each fault, put into a sound view, is what doctor names first; the sound view has none."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.doctor.sound import build_link, build_sound_view, compute_small_plan
from trackbed.doctor.checks import run_checks
from trackbed.doctor.diagnosis import diagnose_nodes
from trackbed.doctor.view import BOOT_FILES, AttachRefusal, EchoResult, NodeView, PodInterface, PodView
from trackbed.fabric.model.ranges import format_address
from trackbed.kernel.netlink.addresses import Address
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, Route
from trackbed.kernel.netlink.rules import PolicyRule
from trackbed.kernel.wire.lldp import Advertisement
from trackbed.kernel.wire.nftables import BaseChain

PLAN = compute_small_plan()
NODE = PLAN.nodes[0]
PORT = NODE.ports[1]
OWN = PORT.addresses[0]
INDEX = 11
"""rail1's interface in the sound view."""


def change_link(**changes: Any) -> Callable[[NodeView], NodeView]:
    def change(view: NodeView) -> NodeView:
        links = tuple(link._replace(**changes) if link.index == INDEX else link for link in view.state.links)
        return replace(view, state=replace(view.state, links=links))

    return change


def change_addresses(change: Callable[[Address], Address | None], *extra: Address) -> Callable[[NodeView], NodeView]:
    def changed(view: NodeView) -> NodeView:
        kept = [
            new for address in view.state.addresses if (new := change(address) if address.index == INDEX else address)
        ]
        return replace(view, state=replace(view.state, addresses=(*kept, *extra)))

    return changed


def keep(address: Address) -> Address:
    return address


def change_v4_addresses(change: Callable[[Address], Address | None]) -> Callable[[NodeView], NodeView]:
    return change_addresses(lambda address: change(address) if address.family == socket.AF_INET else address)


def change_routes(change: Callable[[Route], Route | None], *extra: Route) -> Callable[[NodeView], NodeView]:
    def changed(view: NodeView) -> NodeView:
        table = NODE.common.rails[1].table
        mine = [route for route in view.state.routes if route.family == socket.AF_INET and route.table == table]
        kept = [new for route in view.state.routes if (new := change(route) if route in mine else route)]
        return replace(view, state=replace(view.state, routes=(*kept, *extra)))

    return changed


def change_rules(
    change: Callable[[PolicyRule], PolicyRule | None], *extra: PolicyRule
) -> Callable[[NodeView], NodeView]:
    def changed(view: NodeView) -> NodeView:
        kept = [new for rule in view.state.rules if (new := change(rule))]
        return replace(view, state=replace(view.state, rules=(*extra, *kept)))

    return changed


def is_rail_rule(rule: PolicyRule) -> bool:
    return rule.family == socket.AF_INET and rule.src == OWN.address


def change_sysctl(key: str, value: str) -> Callable[[NodeView], NodeView]:
    return lambda view: replace(view, sysctls={**view.sysctls, key: value})


def change_probes(**changes: Any) -> Callable[[NodeView], NodeView]:
    return lambda view: replace(view, probes={**view.probes, 1: replace(view.probes[1], **changes)})


def add_state(*links_and_more: object) -> Callable[[NodeView], NodeView]:
    """Add interfaces, addresses and routes of other programs."""

    def change(view: NodeView) -> NodeView:
        state = view.state
        for item in links_and_more:
            field = {"Link": "links", "Address": "addresses", "Route": "routes"}[type(item).__name__]
            changes: dict[str, Any] = {field: (*getattr(state, field), item)}
            state = replace(state, **changes)
        return replace(view, state=state)

    return change


def add_pod(**changes: Any) -> Callable[[NodeView], NodeView]:
    def change(view: NodeView) -> NodeView:
        pod = PodView("pod-a", {1: PodInterface("rail1", (OWN,))}, view.state, {"net/ipv4/conf/rail1/rp_filter": "2"})
        return replace(view, pods=(replace(pod, **changes),))

    return change


LOST = (EchoResult(answered=False, target="10.1.0.2"),)
REFUSED = (EchoResult(answered=False, target="10.1.0.2", refusal="unreachable (10.1.0.1: Net Unreachable)"),)
RAIL0 = NODE.ports[0].addresses[0]
FOREIGN = 10 << 24 | 99 << 16 | 1

FAULTS: dict[str, Callable[[NodeView], NodeView]] = {
    "names-rename-conflict": change_link(name="rename7"),
    "addr-link-admin-down": change_link(flags=0, carrier=False),
    "addr-no-carrier": change_link(carrier=False),
    "addr-missing": change_v4_addresses(lambda _: None),
    "addr-prefix-length-wrong": change_v4_addresses(lambda address: replace(address, prefix=24)),
    "addr-same-on-two-local-ports": change_addresses(keep, Address(10, socket.AF_INET, OWN.address, 32)),
    "addr-docker0-overlap": add_state(
        build_link(50, "docker0", "x"), Address(50, socket.AF_INET, (10 << 24) + 5 * 256 + 1, 24)
    ),
    "addr-pod-cidr-overlap": add_state(
        build_link(50, "cali12", "x"), Route(socket.AF_INET, 254, (10 << 24) + 77, 32, 50)
    ),
    "addr-ipv6-dad-failed": change_addresses(
        lambda address: replace(address, flags=8) if address.family == socket.AF_INET6 else address
    ),
    "addr-mtu-wrong": change_link(mtu=1500),
    "addr-arp-flux": change_sysctl("net/ipv4/conf/rail1/arp_ignore", "0"),
    "addr-router-advertisement-default": change_sysctl("net/ipv6/conf/rail1/accept_ra", "1"),
    "addr-unplanned-extra": change_addresses(keep, Address(INDEX, socket.AF_INET, FOREIGN, 24)),
    "addr-not-persistent": lambda view: replace(view, unpersisted_files=("/etc/netplan/90-trackbed.yaml",)),
    "fabric-port-on-wrong-leaf": change_probes(lldp=Advertisement("leaf-u0-r0", "swp1", system_name="leaf-u0-r0")),
    "fabric-vlan-or-segment-wrong": change_probes(lldp=Advertisement(PORT.leaf, "swp1", port_vlan=999), gateway=False),
    "switch-gateway-address-missing": lambda view: replace(
        change_probes(gateway=False)(view), switches={PORT.leaf: frozenset()}
    ),
    "addr-neighbour-failed": change_probes(gateway=False),
    "route-rule-missing": change_rules(lambda rule: None if is_rail_rule(rule) else rule),
    "route-rule-wrong-table": change_rules(lambda rule: replace(rule, table=1000) if is_rail_rule(rule) else rule),
    "route-rule-shadowed": change_rules(lambda rule: rule, PolicyRule(socket.AF_INET, 500, 254)),
    "route-table-empty": change_routes(lambda _: None),
    "route-table-flushed-by-link-down": lambda view: change_link(carrier_up_count=2)(
        change_routes(lambda _: None)(view)
    ),
    "route-gateway-not-on-link": change_routes(
        lambda route: replace(route, gateway=RAIL0.gateway) if route.gateway else route
    ),
    "route-supernet-missing": change_routes(lambda route: None if route.gateway else route),
    "route-source-hint-wrong": change_routes(lambda route: replace(route, prefsrc=RAIL0.address)),
    "route-two-connected-for-one-subnet": add_state(
        Route(socket.AF_INET, 254, OWN.subnet.base, 31, 10, scope=RT_SCOPE_LINK),
        Route(socket.AF_INET, 254, OWN.subnet.base, 31, 11, scope=RT_SCOPE_LINK),
    ),
    "route-default-through-rail": add_state(Route(socket.AF_INET, 254, 0, 0, INDEX, OWN.gateway, OWN.address)),
    "route-host-traffic-on-rail": change_rules(lambda rule: None if rule.invert else rule),
    "route-table-id-shared": add_state(Route(socket.AF_INET, NODE.common.rails[1].table, FOREIGN - 1, 24, 2)),
    "route-rp-filter-strict": change_sysctl("net/ipv4/conf/rail1/rp_filter", "1"),
    "route-linkdown-kept": add_state(Route(socket.AF_INET, 254, FOREIGN - 1, 24, INDEX, linkdown=True)),
    "route-firewall-drops-rails": lambda view: replace(
        view, chains=(BaseChain("inet", "t", "c", "filter", "input", 0, "drop", 0),)
    ),
    "cni-interface-exists": lambda view: replace(
        view, refusals=(AttachRefusal("pod-a", "interface-exists", "rail1 exists"),)
    ),
    "cni-interface-sysctls-reset": add_pod(sysctls={"net/ipv4/conf/rail1/rp_filter": "1"}),
    "pod-rail-routes-missing": lambda view: add_pod(state=replace(view.state, routes=()))(view),
    "fabric-lldp-silent": change_probes(lldp=None, lldp_heard=False),
    "fabric-mtu-black-hole": change_probes(full_size=EchoResult(answered=False, target="peer")),
    "switch-route-missing": change_probes(same_rail=REFUSED),
    "fabric-same-rail-unreachable": change_probes(same_rail=LOST),
    "fabric-cross-rail-differs-from-plan": change_probes(cross_rail=LOST),
    "fabric-link-flapping": change_link(carrier_up_count=2, carrier_down_count=2),
}


@pytest.mark.parametrize("fault_id", FAULTS)
def test_a_fault_is_named_first(fault_id: str) -> None:
    diagnosis = diagnose_nodes([FAULTS[fault_id](build_sound_view(NODE))])
    assert diagnosis.first is not None
    assert diagnosis.first.id == fault_id
    assert diagnosis.exit_status == 1
    assert diagnosis.first.fix


def test_a_sound_node_passes_every_check() -> None:
    diagnosis = diagnose_nodes([build_sound_view(NODE)])
    assert {finding.verdict for finding in diagnosis.findings} == {"pass"}
    assert diagnosis.exit_status == 0
    assert diagnosis.first is None


def test_what_follows_a_failure_on_the_same_rail_points_at_it() -> None:
    view = change_rules(lambda rule: None if is_rail_rule(rule) else rule)(
        change_link(flags=0, carrier=False)(build_sound_view(NODE))
    )
    later = [
        f
        for f in diagnose_nodes([view]).findings
        if f.id == "route-rule-missing" and f.rail == 1 and f.verdict == "fail"
    ]
    assert [f.because for f in later] == ["addr-link-admin-down"]


def test_what_cannot_be_read_is_unknown_and_never_passes() -> None:
    view = replace(build_sound_view(NODE), chains=None, unpersisted_files=None)
    verdicts = {f.id: f.verdict for f in diagnose_nodes([view]).findings if f.rail is None}
    assert verdicts["route-firewall-drops-rails"] == "unknown"
    assert verdicts["addr-not-persistent"] == "unknown"
    assert diagnose_nodes([view]).exit_status == 3


def test_files_that_could_not_be_compared_are_unknown_with_the_reason() -> None:
    view = replace(build_sound_view(NODE), unpersisted_files=None, unread={BOOT_FILES: "no network manager is known"})
    findings = [f for f in diagnose_nodes([view]).findings if f.id == "addr-not-persistent"]
    assert [(f.verdict, f.evidence) for f in findings] == [("unknown", "no network manager is known")]


def test_a_missing_rule_is_named_by_the_address_alone() -> None:
    view = change_rules(lambda rule: None if rule.src else rule)(build_sound_view(NODE))
    evidence = {f.evidence for f in diagnose_nodes([view]).findings if f.id == "route-rule-missing" and f.rail == 1}
    assert evidence == {
        f"no rule from {format_address(address.version, address.address)}" for address in PORT.addresses
    }


def test_a_port_that_was_in_a_pod_has_not_flapped() -> None:
    flapped = change_link(carrier_up_count=2, carrier_down_count=2)(build_sound_view(NODE))
    assert diagnose_nodes([replace(flapped, moved_ports=frozenset({"rail1"}))]).exit_status == 0


def test_a_fix_names_the_address_that_the_finding_is_about() -> None:
    change = change_rules(lambda rule: None if rule.family == socket.AF_INET6 and rule.src else rule)
    findings = diagnose_nodes([change(build_sound_view(NODE))]).findings
    fixes = [finding.fix for finding in findings if finding.id == "route-rule-missing" and finding.verdict == "fail"]
    addresses = [format_address(address.version, address.address) for port in NODE.ports for address in port.addresses]
    assert [address for address in addresses if any(f"from {address} lookup" in fix for fix in fixes)] == addresses[
        1::2
    ]


@pytest.mark.parametrize(
    ("vlan", "gateway", "verdicts"),
    [(0, False, set()), (1, False, {"pass"}), (100, True, {"pass"}), (100, False, {"fail"})],
    ids=["none", "the default", "another, and the gateway answers", "another"],
)
def test_a_routed_rail_is_in_the_default_vlan_unless_its_gateway_answers(
    vlan: int, gateway: bool, verdicts: set[str]
) -> None:
    advertisement = Advertisement(PORT.leaf, "swp1", system_name=PORT.leaf, port_vlan=vlan)
    view = change_probes(lldp=advertisement, gateway=gateway)(build_sound_view(NODE))
    findings = [finding for finding in run_checks(view) if finding.id == "fabric-vlan-or-segment-wrong"]
    assert {finding.verdict for finding in findings if finding.rail == PORT.rail} == verdicts


def test_a_bridged_rail_may_be_in_any_vlan() -> None:
    advertisement = Advertisement(PORT.leaf, "swp1", system_name=PORT.leaf, port_vlan=100)
    view = change_probes(lldp=advertisement, gateway=False)(build_sound_view(NODE))
    common = view.node.common._replace(scheme="shared-subnet")
    bridged = replace(view, node=view.node._replace(common=common))
    findings = [finding for finding in run_checks(bridged) if finding.id == "fabric-vlan-or-segment-wrong"]
    assert {finding.verdict for finding in findings if finding.rail == PORT.rail} == set()
