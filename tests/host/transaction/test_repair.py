"""Drift is repaired where it stands: only what pods need not notice, and the record of the apply stays."""

import errno
from socket import AF_INET, AF_INET6

import pytest

from tests.host.places import PORTS, Host, everything
from tests.host.steps.fabrics import P2P, node_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.change import Change
from trackbed.host.kinds.kind import keep_pods
from trackbed.host.kinds.mtu import KIND as MTU
from trackbed.host.kinds.registry import KINDS
from trackbed.host.machine import Machine
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import ApplyError, ApplyOptions, ApplyResult, apply, undo
from trackbed.host.transaction.compare import compare
from trackbed.host.transaction.record import load_record
from trackbed.kernel.netlink.addresses import build_delete_address, list_addresses
from trackbed.kernel.netlink.links import build_set_link
from trackbed.kernel.netlink.routes import build_delete_route, list_routes
from trackbed.kernel.netlink.rules import build_delete_rule, list_rules

ARP_IGNORE = "net/ipv4/conf/rail0/arp_ignore"
FILE = "/etc/systemd/network/10-trackbed-rail0.network"


@pytest.fixture
def node() -> NodePlan:
    return node_plan(P2P, PORTS)


def drift(place: Host) -> None:
    """Change by hand what others could: a sysctl, an address with its routes, a rule, and a name."""
    place.machine.write_sysctl(ARP_IGNORE, "0")
    with place.machine.open_socket() as sock:
        address = next(address for address in list_addresses(sock) if address.index == place.index("rail0"))
        route = next(route for route in list_routes(sock) if route.table not in {254, 255})
        rule = next(rule for rule in list_rules(sock, AF_INET) if 0 < rule.priority < 32766)
    place.send(build_delete_rule(rule), build_delete_route(route), build_delete_address(address))
    place.send(build_set_link(place.index("rail1"), name="other"))


def changes(place: Host, node: NodePlan) -> tuple[Change, ...]:
    return compare(place.machine, iter_settings(node)).changes


def repair(place: Host, node: NodePlan, *listed: Change) -> ApplyResult:
    options = ApplyOptions(repairs=frozenset((change.step, change.subject) for change in listed))
    return apply(place.machine, iter_settings(node), place.records, options=options)


def test_kinds_that_are_changed_under_running_pods_are_those_that_no_pod_notices() -> None:
    assert {kind.name for kind in KINDS if kind.disrupts_pods is keep_pods} == {
        *("up", "sysctl", "vf_probe", "attribute", "vf_mtu", "dcb", "rdma_tos", "address", "route", "rule"),
        *("file", "module"),
    }


@pytest.mark.parametrize(("have", "want", "disrupts"), [("1500", "9000", False), ("9000", "1500", True)])
def test_only_a_smaller_mtu_disrupts_pods(have: str, want: str, disrupts: bool) -> None:
    change = Change(None, "addresses", 0, "MTU of rail0", have, want, "change", ())
    assert MTU.disrupts_pods(change) is disrupts


def test_a_repair_makes_what_no_pod_notices_and_leaves_the_rest(place: Host, node: NodePlan) -> None:
    apply(place.machine, iter_settings(node), place.records)
    drift(place)
    listed = changes(place, node)
    repaired = repair(place, node, *listed)
    assert {change.step for change in repaired.changes} == {"addresses", "routing"}
    (left,) = changes(place, node)
    assert (left.step, left.needs_drain, left.is_repairable) == ("names", True, False)


def test_only_the_listed_settings_are_repaired(place: Host, node: NodePlan) -> None:
    apply(place.machine, iter_settings(node), place.records)
    drift(place)
    before = changes(place, node)
    sysctl = next(change for change in before if change.subject == ARP_IGNORE)
    assert repair(place, node, sysctl).changes == (sysctl,)
    assert [change.subject for change in changes(place, node)] == [
        change.subject for change in before if change is not sysctl
    ]


def test_after_a_repair_undo_leads_back_to_before_the_apply(place: Host, node: NodePlan) -> None:
    before = everything(place.machine)
    apply(place.machine, iter_settings(node), place.records)
    record = load_record(place.records)
    drift(place)
    repair(place, node, *changes(place, node))
    assert load_record(place.records) == record
    assert load_record(place.records / "repair") is None
    assert undo(place.machine, place.records) == ()
    assert everything(place.machine) == before


def test_a_repair_that_fails_puts_back_what_it_changed(
    place: Host, node: NodePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(place.machine, iter_settings(node), place.records)
    drift(place)
    before, real = everything(place.machine), Machine.write_sysctl

    def write_sysctl(machine: Machine, key: str, value: str) -> None:
        if key == ARP_IGNORE:
            raise PermissionError(errno.EACCES, "Permission denied")
        real(machine, key, value)

    monkeypatch.setattr(Machine, "write_sysctl", write_sysctl)
    with pytest.raises(ApplyError, match=rf"{ARP_IGNORE}: cannot write 1: Permission denied; everything was put back"):
        repair(place, node, *changes(place, node))
    assert everything(place.machine) == before
    assert load_record(place.records) is not None


def test_files_are_repaired_only_if_listed(place: Host) -> None:
    files = {FILE: "[Match]\n"}
    options = ApplyOptions(repairs=frozenset())
    assert apply(place.machine, (), place.records, files, options).files == ()
    listed = ApplyOptions(repairs=frozenset({("files", FILE)}))
    assert [file.path for file in apply(place.machine, (), place.records, files, listed).files] == [FILE]


def test_a_setting_is_repaired_for_ipv6_too(place: Host, node: NodePlan) -> None:
    apply(place.machine, iter_settings(node), place.records)
    with place.machine.open_socket() as sock:
        rules = [rule for rule in list_rules(sock, AF_INET6) if 0 < rule.priority < 32766]
    place.send(*map(build_delete_rule, rules))
    repair(place, node, *changes(place, node))
    assert place.differs(node) == []
