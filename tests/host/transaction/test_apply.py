import signal
import subprocess
import sys
from collections.abc import Callable
from errno import EPERM
from pathlib import Path
from socket import AF_INET, AF_INET6

import pytest

from tests.host.places import MACS, PORTS, Host, everything
from tests.host.steps.fabrics import FLAT, P2P, SCHEMES, node_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import Comparison, count_changes
from trackbed.host.kinds.name import build_renames
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL
from trackbed.host.state import read_host_state
from trackbed.host.steps import iter_settings
from trackbed.host.transaction import carriers, record, rounds
from trackbed.host.transaction.apply import ApplyError, ApplyOptions, NothingToUndoError, apply, undo
from trackbed.host.transaction.compare import compare, compare_view
from trackbed.host.transaction.record import load_record, save_record
from trackbed.kernel.netlink.addresses import (
    IFA_F_NODAD,
    Address,
    build_add_address,
    build_delete_address,
    build_replace_address,
    list_addresses,
)
from trackbed.kernel.netlink.codec import (
    NLM_F_CREATE,
    NLM_F_EXCL,
    NLM_F_REPLACE,
    Message,
    pack_nested,
    pack_u32,
)
from trackbed.kernel.netlink.links import build_add_altname, build_delete_link, build_set_link, list_links
from trackbed.kernel.netlink.routes import (
    RTM_NEWROUTE,
    RTPROT_STATIC,
    Route,
    build_add_route,
    build_delete_route,
    get_route,
    list_routes,
)
from trackbed.kernel.netlink.rules import RTM_NEWRULE, PolicyRule, build_add_rule, build_delete_rule, list_rules

MGMT = 10 << 24 | 99 << 16  # 10.99.0.0


def made(place: Host, node: NodePlan) -> None:
    apply(place.machine, iter_settings(node), place.records)


def replace_plan(place: Host, node: NodePlan) -> None:
    """Apply a plan that removes most of what is there, with the number of removals confirmed."""
    removals = count_changes(compare(place.machine, iter_settings(node))).remove
    apply(place.machine, iter_settings(node), place.records, options=ApplyOptions(removals=removals))


@pytest.fixture
def node() -> NodePlan:
    return node_plan(P2P, PORTS)


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_after_an_apply_nothing_differs_and_a_second_changes_nothing(place: Host, addressing: str) -> None:
    node = node_plan(addressing, PORTS)
    done = apply(place.machine, iter_settings(node), place.records)
    assert done.changes
    assert compare(place.machine, iter_settings(node)).changes == ()
    before = everything(place.machine)
    assert apply(place.machine, iter_settings(node), place.records).changes == ()
    assert everything(place.machine) == before


@pytest.mark.parametrize("addressing", SCHEMES.values(), ids=SCHEMES)
def test_undo_brings_everything_back(place: Host, addressing: str) -> None:
    before = everything(place.machine)
    made(place, node_plan(addressing, PORTS))
    assert everything(place.machine) != before
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_traffic_leaves_by_the_rail_whose_address_it_carries(place: Host, node: NodePlan) -> None:
    made(place, node)
    far = 172 << 24 | 18 << 16 | 5 << 8  # an address on rail 1
    with place.machine.open_socket() as sock:
        for port in node.ports:
            assert port.v4
            route = get_route(sock, AF_INET, far, src=port.v4.address)
            assert (route.oif, route.gateway) == (place.index(port.netdev), port.v4.gateway)


def test_traffic_to_elsewhere_never_takes_a_rail(place: Host, node: NodePlan) -> None:
    made(place, node)
    place.send(build_add_address(Address(place.index("mgmt0"), AF_INET, MGMT + 1, 24)))
    place.send(build_add_route(Route(AF_INET, 254, gateway=MGMT + 254, oif=place.index("mgmt0"))))
    port = node.ports[1]
    assert port.v4
    with place.machine.open_socket() as sock:
        assert get_route(sock, AF_INET, 8 << 24 | 8, src=port.v4.address).oif == place.index("mgmt0")


def lose_rule(place: Host) -> None:
    with place.machine.open_socket() as sock:
        place.send(build_delete_rule(next(rule for rule in list_rules(sock, AF_INET) if rule.priority == 1001)))


def lose_fence(place: Host) -> None:
    with place.machine.open_socket() as sock:
        place.send(build_delete_rule(next(rule for rule in list_rules(sock, AF_INET6) if rule.priority == 999)))


def lead_to_the_wrong_table(place: Host) -> None:
    with place.machine.open_socket() as sock:
        rule = next(rule for rule in list_rules(sock, AF_INET) if rule.priority == 1001)
    place.send(build_delete_rule(rule), build_add_rule(PolicyRule(AF_INET, 1001, 1000, rule.src, 32)))


def select_further(place: Host) -> None:
    with place.machine.open_socket() as sock:
        rule = next(rule for rule in list_rules(sock, AF_INET) if rule.priority == 1001)
    tos = 3  # place of the type of service in struct fib_rule_hdr
    body = rule.body[:tos] + b"\x10" + rule.body[tos + 1 :]
    place.send(build_delete_rule(rule), Message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, body))


def limit_packets(place: Host) -> None:
    with place.machine.open_socket() as sock:
        route = next(route for route in list_routes(sock, AF_INET, 1000) if route.prefix == 0)
    metrics = pack_nested(8, pack_u32(2, 1400))  # RTA_METRICS, RTAX_MTU
    place.send(Message(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route.body + metrics))


def lose_default(place: Host) -> None:
    with place.machine.open_socket() as sock:
        place.send(build_delete_route(next(r for r in list_routes(sock, AF_INET, 1000) if r.prefix == 0)))


def lead_to_the_wrong_gateway(place: Host) -> None:
    lose_default(place)
    index = place.index("rail0")
    with place.machine.open_socket() as sock:
        present = next(a for a in list_addresses(sock, AF_INET) if a.index == index)
    place.send(build_add_route(Route(AF_INET, 1000, gateway=present.address + 1, oif=index, protocol=4)))


def lose_address(place: Host) -> None:
    with place.machine.open_socket() as sock:
        present = next(a for a in list_addresses(sock, AF_INET) if a.index == place.index("rail1"))
    place.send(build_delete_address(present))


def flap(place: Host) -> None:
    place.send(build_set_link(place.index("rail1"), up=False))
    place.send(build_set_link(place.index("rail1"), up=True))


def stay_down(place: Host) -> None:
    place.send(build_set_link(place.index("rail1"), up=False))


def small_mtu(place: Host) -> None:
    place.send(build_set_link(place.index("rail0"), mtu=1500))


def strict_filter(place: Host) -> None:
    place.machine.write_sysctl("net/ipv4/conf/rail0/rp_filter", "1")


def second_rule(place: Host) -> None:
    with place.machine.open_socket() as sock:
        rule = next(rule for rule in list_rules(sock, AF_INET) if rule.priority == 1000)
    place.send(build_add_rule(PolicyRule(AF_INET, 1000, rule.table, rule.src + 2, 32)))


def other_name(place: Host) -> None:
    place.send(build_set_link(place.index("rail1"), name="eth7"))


ROUTES_OF_RAIL_1 = [
    "route to 172.18.0.2/31 in table 1001",
    "route to 0.0.0.0/0 in table 1001",
    "route to 172.18.0.0/15 in table main",
]
FAULTS: dict[str, tuple[Callable[[Host], None], list[str]]] = {
    "a rule is lost": (lose_rule, ["rule 1001 IPv4"]),
    "the fence is lost": (lose_fence, ["rule 999 IPv6"]),
    "a rule selects further": (select_further, ["rule 1001 IPv4"]),
    "a route limits the packets": (limit_packets, ["route to 0.0.0.0/0 in table 1000"]),
    "a rule leads to the wrong table": (lead_to_the_wrong_table, ["rule 1001 IPv4"]),
    "a default route is lost": (lose_default, ["route to 0.0.0.0/0 in table 1000"]),
    "an address is lost, and with it its routes": (lose_address, ["IPv4 address of rail1", *ROUTES_OF_RAIL_1]),
    "a port flaps": (
        flap,
        [
            *ROUTES_OF_RAIL_1,
            "route to fd00:10:0:8000::2/127 in table 1001",
            "route to ::/0 in table 1001",
            "route to fd00:10:0:8000::/49 in table main",
        ],
    ),
    "an MTU is small": (small_mtu, ["MTU of rail0"]),
    "a switch is set back": (strict_filter, ["net/ipv4/conf/rail0/rp_filter"]),
    "a rule of an old address": (second_rule, ["old rule 1000"]),
    "a port has another name": (other_name, [f"name of {MACS[1]}"]),
}


@pytest.mark.parametrize(("fault", "expected"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_shown_exactly_and_healed(
    place: Host, node: NodePlan, fault: Callable[[Host], None], expected: list[str]
) -> None:
    made(place, node)
    sound = everything(place.machine)
    fault(place)
    assert place.differs(node) == expected
    made(place, node)
    assert place.differs(node) == []
    assert everything(place.machine) == sound


def test_a_port_that_is_down_is_set_up_again_with_all_that_went_with_it(place: Host, node: NodePlan) -> None:
    made(place, node)
    sound = everything(place.machine)
    stay_down(place)
    assert "state of rail1" in place.differs(node)
    made(place, node)
    assert everything(place.machine) == sound


def test_a_rule_to_the_wrong_table_is_shown_with_what_it_is_and_shall_be(place: Host, node: NodePlan) -> None:
    made(place, node)
    lead_to_the_wrong_table(place)
    (change,) = compare(place.machine, iter_settings(node)).changes
    assert (change.have, change.want) == ("from 172.18.0.2/32 lookup 1000", "from 172.18.0.2/32 lookup 1001")
    assert (change.step, change.rail, change.action) == ("routing", 1, "change")


def test_what_no_word_of_a_rule_or_route_shows_is_shown_beside_it(place: Host, node: NodePlan) -> None:
    made(place, node)
    select_further(place)
    limit_packets(place)
    have = {change.subject: change.have for change in compare(place.machine, iter_settings(node)).changes}
    assert have["rule 1001 IPv4"].endswith("lookup 1001 (tos is 16, was not set)")
    assert have["route to 0.0.0.0/0 in table 1000"].endswith(" (mtu is 1400, was not set)")


def test_a_route_over_the_port_is_replaced_whoever_made_it(place: Host, node: NodePlan) -> None:
    made(place, node)
    lose_default(place)
    port = node.ports[0]
    assert port.v4
    place.send(build_add_route(Route(AF_INET, 1000, oif=place.index("rail0"), scope=253, protocol=4)))
    (change,) = compare(place.machine, iter_settings(node)).changes
    assert (change.have, change.want) == ("dev rail0", "via 172.16.0.3 dev rail0 src 172.16.0.2")
    made(place, node)
    assert place.differs(node) == []


def test_two_ports_exchange_their_names(place: Host, node: NodePlan) -> None:
    made(place, node)
    sound = everything(place.machine)
    state = read_host_state(place.machine)
    ports = {link.name: link for link in state.links}
    place.send(*build_renames([(ports["rail0"], "rail1"), (ports["rail1"], "rail0")], live=True))
    assert place.index("rail0") == ports["rail1"].index
    made(place, node)
    assert everything(place.machine) == sound


def test_a_rename_on_an_old_kernel_keeps_what_others_have_set(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trackbed.host.kinds.name.can_rename_live", lambda _: False)  # before Linux 6.2
    index, net, net6 = place.index("eth0"), 192 << 24 | 2 << 8, 0x20010DB8 << 96  # 192.0.2.0, 2001:db8::
    place.send(
        build_set_link(index, up=True),
        build_add_address(Address(index, AF_INET, net + 2, 24)),
        build_add_address(Address(index, AF_INET6, net6 + 5, 64, flags=IFA_F_NODAD)),
        build_add_route(Route(AF_INET, 254, oif=index, gateway=net + 1)),
        build_add_route(Route(AF_INET, 77, 10 << 24, 8, oif=index, gateway=net + 1)),
        build_add_route(Route(AF_INET6, 254, net6 + (9 << 64), 64, oif=index, gateway=net6 + 1)),
    )

    def list_others() -> set[Route | tuple[int, int]]:
        with place.machine.open_socket() as sock:
            ours = [entry for entry in list_addresses(sock) if entry.index == index and entry.scope == 0]
            routes = [route for route in list_routes(sock, oif=index) if route.protocol == RTPROT_STATIC]
        return {*routes, *((entry.family, entry.address) for entry in ours if entry.protocol != PROTOCOL)}

    before = list_others()
    assert len(before) == 5
    made(place, node)
    assert place.index("rail0") == index
    assert list_others() >= before


def test_another_plan_leaves_nothing_of_the_first(place: Host, node: NodePlan) -> None:
    made(place, node)
    replace_plan(place, node_plan(FLAT, PORTS))
    assert place.differs(node_plan(FLAT, PORTS)) == []
    with place.machine.open_socket() as sock:
        assert [a for a in list_addresses(sock, AF_INET) if a.address >> 24 == 172] == []
        assert [r for r in list_routes(sock, AF_INET) if r.dst >> 24 == 172] == []
        assert [r for r in list_rules(sock, AF_INET) if r.src >> 24 == 172 or r.dst >> 24 == 172] == []


def test_undo_after_a_second_plan_leads_back_to_the_first(place: Host, node: NodePlan) -> None:
    made(place, node)
    first = everything(place.machine)
    replace_plan(place, node_plan(FLAT, PORTS))
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == first


def test_what_an_older_version_left_anywhere_is_removed_and_comes_back_with_undo(place: Host, node: NodePlan) -> None:
    place.send(
        build_add_address(Address(place.index("mgmt0"), AF_INET, MGMT + 1, 24)),
        build_add_route(
            Route(AF_INET, 1500, 9 << 24, 8, oif=place.index("mgmt0"), gateway=MGMT + 2, protocol=PROTOCOL)
        ),
        build_add_rule(PolicyRule(AF_INET, 1500, 1500, 9 << 24, 8, protocol=PROTOCOL)),
    )
    before = everything(place.machine)
    assert {"old rule 1500", "old route to 9.0.0.0/8 in table 1500"} <= set(place.differs(node))
    replace_plan(place, node)
    assert place.differs(node) == []
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_a_route_in_table_main_over_the_port_gives_way_to_the_planned_one(place: Host, node: NodePlan) -> None:
    made(place, node)
    index, planned = place.index("rail0"), (172 << 24 | 16 << 16, 15)
    with place.machine.open_socket() as sock:
        place.send(build_delete_route(next(r for r in list_routes(sock, AF_INET, 254) if (r.dst, r.prefix) == planned)))
    place.send(build_add_route(Route(AF_INET, 254, *planned, oif=index, scope=253)))
    assert place.differs(node) == ["route to 172.16.0.0/15 in table main"]
    made(place, node)
    assert place.differs(node) == []


def test_an_ipv6_prefix_is_mended_with_the_routes_that_go_with_the_address(place: Host, node: NodePlan) -> None:
    made(place, node)
    sound = everything(place.machine)
    v6, index = node.ports[0].v6, place.index("rail0")
    assert v6
    place.send(build_delete_address(Address(index, AF_INET6, v6.address, 127)))
    place.send(build_add_address(Address(index, AF_INET6, v6.address, 64, flags=IFA_F_NODAD)))
    routes = compare(place.machine, iter_settings(node, {"routing"})).changes
    place.send(*(message for change in routes for message in change.operations if isinstance(message, Message)))
    assert place.differs(node) == ["IPv6 address of rail0"]
    made(place, node)
    assert place.differs(node) == []
    assert len(everything(place.machine)["routes"]) == len(sound["routes"])


def test_undo_brings_an_ipv6_address_back_ready_for_the_routes_that_use_it(place: Host, node: NodePlan) -> None:
    v6, index = node.ports[0].v6, place.index("eth0")
    assert v6
    place.send(build_set_link(index, up=True))
    place.machine.write_sysctl("net/ipv6/conf/eth0/accept_dad", "1")
    # Found unique long ago: not tentative now, but it would be if it were added again without more ado.
    place.send(
        build_add_address(Address(index, AF_INET6, v6.address, 64, flags=IFA_F_NODAD)),
        build_replace_address(Address(index, AF_INET6, v6.address, 64)),
        build_add_route(Route(AF_INET6, 254, 0xFD99 << 112, 64, oif=index, gateway=v6.address + 9, prefsrc=v6.address)),
    )
    made(place, node)
    assert undo(place.machine, place.records) == ()
    with place.machine.open_socket() as sock:
        assert [r.prefsrc for r in list_routes(sock, AF_INET6, 254) if r.dst == 0xFD99 << 112] == [v6.address]


def test_what_another_program_sets_in_the_same_moment_is_no_failure(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As networkd does, from our own files."""
    made(place, node)
    with place.machine.open_socket() as sock:
        ours = [route for route in list_routes(sock, AF_INET) if route.table == 1001 and route.dst == 0]
    place.send(*map(build_delete_route, ours))
    assert len(place.differs(node)) == len(ours) == 1
    looked: list[int] = []

    def slow_to_look(view: View) -> Comparison:
        comparison = compare_view(view)
        if not looked:
            place.send(*map(build_add_route, ours))
        looked.append(len(comparison.changes))
        return comparison

    monkeypatch.setattr("trackbed.host.transaction.apply.compare_view", slow_to_look)
    made(place, node)
    assert (looked[0], looked[-1]) == (1, 0)


def strangers(place: Host) -> None:
    """Addresses, routes and rules that somebody else has made, some of them in our tables and at our priorities."""
    mgmt, port = place.index("mgmt0"), place.index("eth0")
    place.send(
        build_set_link(port, up=True),
        build_add_address(Address(mgmt, AF_INET, MGMT + 1, 24)),
        build_add_address(Address(port, AF_INET, MGMT + (1 << 8) + 1, 24)),
        build_add_route(Route(AF_INET, 1000, 9 << 24, 8, oif=mgmt, gateway=MGMT + 2)),
        build_add_route(Route(AF_INET, 254, 9 << 24, 8, oif=mgmt, gateway=MGMT + 2)),
        build_add_route(Route(AF_INET, 254, 11 << 24, 8, oif=port, gateway=MGMT + (1 << 8) + 2)),
        build_add_rule(PolicyRule(AF_INET, 1000, 77, 5 << 24, 8)),
        build_add_rule(PolicyRule(AF_INET, 500, 1000, iif="mgmt0")),
        build_add_rule(PolicyRule(AF_INET, 1000, 1000, iif="mgmt0")),
    )


def test_what_strangers_made_stays(place: Host, node: NodePlan) -> None:
    strangers(place)
    before = everything(place.machine)
    made(place, node)
    after = everything(place.machine)
    missing = [entry for kind in ("addresses", "routes", "rules") for entry in before[kind] if entry not in after[kind]]
    assert [entry for entry in missing if "eth0" not in repr(entry)] == []
    with place.machine.open_socket() as sock:
        assert {(r.priority, r.table) for r in list_rules(sock, AF_INET)} >= {(1000, 77), (500, 1000)}
        assert "mgmt0" in {r.iif for r in list_rules(sock, AF_INET) if r.priority == 1000}
        assert {r.dst >> 24 for r in list_routes(sock, AF_INET)} >= {9, 11}
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_a_strangers_route_in_the_way_is_named_and_left_alone(place: Host, node: NodePlan) -> None:
    mgmt = place.index("mgmt0")
    place.send(build_add_address(Address(mgmt, AF_INET, MGMT + 1, 24)))
    place.send(build_add_route(Route(AF_INET, 1000, oif=mgmt, gateway=MGMT + 2)))
    done = apply(place.machine, iter_settings(node), place.records)
    (left,) = done.remaining.changes
    assert (left.subject, left.have) == ("route to 0.0.0.0/0 in table 1000", "via 10.99.0.2 dev mgmt0")
    assert left.advice.startswith("a route that is not Trackbed's stands in the way: via 10.99.0.2 dev mgmt0")


def test_an_address_with_the_wrong_prefix_is_replaced_and_others_stay(place: Host, node: NodePlan) -> None:
    made(place, node)
    index, v4 = place.index("rail0"), node.ports[0].v4
    assert v4
    place.send(build_add_address(Address(index, AF_INET, MGMT + 1, 24)))
    place.send(
        build_add_address(Address(index, AF_INET, v4.address, 24)),
        build_delete_address(Address(index, AF_INET, v4.address, 31)),
    )
    assert "IPv4 address of rail0" in place.differs(node)
    made(place, node)
    with place.machine.open_socket() as sock:
        on_rail = {(a.address, a.prefix) for a in list_addresses(sock, AF_INET) if a.index == index}
    assert on_rail == {(v4.address, 31), (MGMT + 1, 24)}
    assert place.differs(node) == []


def test_a_port_that_is_not_there_is_named_and_the_others_are_set(place: Host, node: NodePlan) -> None:
    place.send(build_delete_link(place.index("eth1")))
    done = apply(place.machine, iter_settings(node), place.records)
    (left,) = done.remaining.changes
    assert left.advice == f"no interface has MAC {MACS[1]}; is its driver loaded, or does a pod have it?"
    assert {s.reason for s in done.remaining.skipped if s.setting.rail == 1} == {"there is no rail1 yet"}
    assert place.index("rail0")


def test_while_a_pod_has_a_port_nothing_else_of_its_rail_is_taken_away(place: Host) -> None:
    node = node_plan(FLAT, PORTS)
    made(place, node)
    place.send(build_delete_link(place.index("rail1")))
    assert place.differs(node) == [f"name of {MACS[1]}"]


def test_where_ipv6_is_disabled_its_settings_are_skipped(place: Host, node: NodePlan) -> None:
    place.machine.write_sysctl("net/ipv6/conf/eth0/disable_ipv6", "1")
    done = apply(place.machine, iter_settings(node), place.records)
    assert done.remaining.changes == ()
    assert "IPv6 is disabled on rail0" in {skipped.reason for skipped in done.remaining.skipped}


class Saboteur(Machine):
    """A machine that goes wrong when a certain kernel parameter is written."""

    def write_sysctl(self, key: str, value: str) -> None:
        """Go wrong at one of the parameters."""
        if key.endswith("conf/rail1/arp_ignore") and value == "1":
            self.sabotage()
        super().write_sysctl(key, value)

    def sabotage(self) -> None:
        """What goes wrong: the kernel refuses."""
        raise OSError(EPERM, "Operation not permitted")


class Thief(Saboteur):
    """One whose other port vanishes at that moment."""

    def sabotage(self) -> None:
        """What goes wrong: a port is taken away."""
        with self.open_socket() as sock:
            sock.send([build_delete_link(next(link.index for link in list_links(sock) if link.name == "rail0"))])


def test_a_failure_in_the_middle_puts_everything_back(place: Host, node: NodePlan) -> None:
    strangers(place)
    before = everything(place.machine)
    with pytest.raises(ApplyError) as caught:
        apply(Saboteur(place.machine.root, place.machine.netns), iter_settings(node), place.records)
    assert str(caught.value) == (
        "net/ipv4/conf/rail1/arp_ignore: cannot write 1: Operation not permitted; everything was put back"
    )
    assert everything(place.machine) == before
    with pytest.raises(NothingToUndoError):
        undo(place.machine, place.records)


def test_a_port_that_vanishes_meanwhile_is_named_and_the_rest_put_back(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    with pytest.raises(ApplyError, match=r"No such device.*; put back, except: interface eth0 is gone"):
        apply(Thief(place.machine.root, place.machine.netns), iter_settings(node), place.records)
    after = everything(place.machine)
    gone = before["links"][1]
    assert after["links"] == [link for link in before["links"] if link != gone]
    assert after["rules"] == before["rules"]


class Rival(Saboteur):
    """A machine on which another program takes the addresses of a port at that moment."""

    def sabotage(self) -> None:
        """What goes wrong: the addresses are removed that were set before."""
        with self.open_socket() as sock:
            index = next(link.index for link in list_links(sock) if link.name == "rail0")
            listing = [address for address in list_addresses(sock, AF_INET) if address.index == index]
            assert listing
            sock.send([build_delete_address(address) for address in listing])


def test_addresses_that_another_program_takes_meanwhile_are_set_again(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("trackbed.host.transaction.rounds.time.sleep", pauses.append)
    apply(Rival(place.machine.root, place.machine.netns), iter_settings(node), place.records)
    assert pauses == [1.0]
    assert place.differs(node) == []


def test_a_program_that_takes_them_each_time_makes_the_apply_fail(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "MAX_ROUNDS", 1)
    before = everything(place.machine)
    with pytest.raises(ApplyError, match=r"route to .* in table 1000: .* was refused: .*everything was put back"):
        apply(Rival(place.machine.root, place.machine.netns), iter_settings(node), place.records)
    assert everything(place.machine) == before


def test_ports_get_names_back_that_are_their_second_names_by_now(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)
    place.send(build_add_altname(place.index("rail0"), "eth0"))
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_a_name_that_another_interface_has_as_its_second_is_explained(place: Host, node: NodePlan) -> None:
    place.send(build_add_altname(place.index("mgmt0"), "rail1"))
    before = everything(place.machine)
    with pytest.raises(ApplyError, match=r"an interface has the name or alternative name rail1"):
        apply(place.machine, iter_settings(node), place.records)
    assert everything(place.machine) == before


def test_a_name_that_another_interface_has_is_left_to_a_person(place: Host, node: NodePlan) -> None:
    place.send(build_set_link(place.index("mgmt0"), name="rail1", up=False))
    done = apply(place.machine, iter_settings(node), place.records)
    assert [change.subject for change in done.remaining.changes][:1] == [f"name of {MACS[1]}"]
    assert "another interface is called rail1" in done.remaining.changes[0].advice


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.places import PORTS
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply
from trackbed.host.machine import Machine

class Doomed(Machine):
    writes = 0
    def write_sysctl(self, key, value):
        Doomed.writes += 1
        if Doomed.writes == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        super().write_sysctl(key, value)

apply(Doomed(Path(sys.argv[1]), Path(sys.argv[2])), iter_settings(node_plan(P2P, PORTS)), Path(sys.argv[4]))
"""


@pytest.mark.parametrize("writes", [1, 2, 3, 8])
def test_a_killed_apply_is_finished_by_the_next_and_undone_to_before_the_first(
    place: Host, node: NodePlan, writes: int
) -> None:
    strangers(place)
    before = everything(place.machine)
    arguments = [str(place.machine.root), str(place.machine.netns), str(writes), str(place.records)]
    done = subprocess.run(
        [sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3], timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    killed = load_record(place.records)
    assert killed is not None
    assert not killed.finished
    assert place.differs(node) != []
    made(place, node)
    assert place.differs(node) == []
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_a_killed_apply_can_be_undone_at_once(place: Host) -> None:
    before = everything(place.machine)
    arguments = [str(place.machine.root), str(place.machine.netns), "5", str(place.records)]
    subprocess.run([sys.executable, "-c", KILLED, *arguments], cwd=Path(__file__).parents[3], timeout=60, check=False)
    assert everything(place.machine) != before
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_undo_restores_the_ports_that_only_the_apply_after_a_killed_one_has(place: Host, node: NodePlan) -> None:
    port = place.index("eth1")
    place.send(build_set_link(port, up=True), build_add_address(Address(port, AF_INET, MGMT + (1 << 8) + 1, 24)))
    place.send(
        build_add_route(Route(AF_INET, 1001, 9 << 24, 8, oif=port, gateway=MGMT + (1 << 8) + 2)),
        build_add_rule(PolicyRule(AF_INET, 1001, 1001, 7 << 24, 8)),
    )
    before = everything(place.machine)
    key = "net/ipv4/conf/eth1/arp_ignore"
    made(place, node_plan(P2P, f'["{MACS[0]}", null]'))
    killed = load_record(place.records)
    assert killed
    save_record(place.records, killed._replace(finished=False))
    made(place, node)
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before
    assert place.machine.read_sysctl(key) == "0"


def test_undo_twice_says_that_there_is_nothing(place: Host, node: NodePlan) -> None:
    made(place, node)
    undo(place.machine, place.records)
    with pytest.raises(NothingToUndoError, match=r"there is nothing to undo: .*undo\.json is not there"):
        undo(place.machine, place.records)


def test_what_others_made_after_the_apply_survives_the_undo(place: Host, node: NodePlan) -> None:
    made(place, node)
    place.send(
        build_add_address(Address(place.index("mgmt0"), AF_INET, MGMT + 1, 24)),
        build_add_rule(PolicyRule(AF_INET, 1000, 77, 5 << 24, 8)),
    )
    undo(place.machine, place.records)
    with place.machine.open_socket() as sock:
        assert (1000, 77) in {(rule.priority, rule.table) for rule in list_rules(sock, AF_INET)}
        assert MGMT + 1 in {address.address for address in list_addresses(sock, AF_INET)}


def test_everything_set_carries_trackbeds_mark(place: Host, node: NodePlan) -> None:
    made(place, node)
    state = read_host_state(place.machine)
    assert {r.protocol for r in state.routes if r.table in {1000, 1001}} == {PROTOCOL}
    assert {r.protocol for r in state.rules if 999 <= r.priority <= 1001} == {PROTOCOL}
    assert len([address for address in state.addresses if address.protocol == PROTOCOL]) == 4


def test_settings_that_another_program_sets_back_end_in_an_error(place: Host, node: NodePlan) -> None:
    class Stubborn(Machine):
        def write_sysctl(self, key: str, value: str) -> None:
            super().write_sysctl(key, "0" if key.endswith("rail0/rp_filter") else value)

    before = everything(place.machine)
    with pytest.raises(ApplyError, match="do not stay as they are set: net/ipv4/conf/rail0/rp_filter is 0, not 2"):
        apply(Stubborn(place.machine.root, place.machine.netns), iter_settings(node), place.records)
    assert everything(place.machine) == before


def test_only_some_steps_can_be_compared(place: Host, node: NodePlan) -> None:
    made(place, node)
    lose_rule(place)
    small_mtu(place)
    comparison = compare(place.machine, iter_settings(node, {"routing"}))
    assert [change.subject for change in comparison.changes] == ["rule 1001 IPv4"]


def test_carrier_counts_of_another_boot_are_none(place: Host) -> None:
    boot = place.machine.locate("/proc/sys/kernel/random/boot_id")
    boot.parent.mkdir(parents=True)
    boot.write_text("one\n")
    folder = record.find_folder(place.machine)
    folder.mkdir(parents=True, exist_ok=True)
    carriers.save_counts(place.machine, frozenset({"eth0"}), folder)
    assert carriers.load_counts(place.machine) is not None
    boot.write_text("two\n")
    assert carriers.load_counts(place.machine) is None
