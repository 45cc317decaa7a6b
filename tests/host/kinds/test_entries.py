"""Undo of addresses, routes and rules: those with Trackbed's mark go, those of others stay."""

from socket import AF_INET

from tests.host.places import Host
from trackbed.host.kinds.registry import KINDS
from trackbed.host.setting import PROTOCOL
from trackbed.host.state import read_host_state
from trackbed.host.transaction.compare import read_view
from trackbed.kernel.netlink.addresses import Address, build_add_address
from trackbed.kernel.netlink.routes import Route, build_add_route
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule

OTHER = 99
"""A protocol number of another program."""
TABLE = 1500


def add_entries(place: Host, protocol: int) -> None:
    """Add an address, a route and a rule with a protocol, which is also in their values."""
    mgmt = place.index("mgmt0")
    place.send(
        build_add_address(Address(mgmt, AF_INET, protocol << 24 | 1, 24, protocol=protocol)),
        build_add_route(Route(AF_INET, TABLE, protocol << 24, 8, oif=mgmt, protocol=protocol)),
        build_add_rule(PolicyRule(AF_INET, TABLE, TABLE, protocol << 24, 8, protocol=protocol)),
    )


def list_protocols(place: Host) -> dict[str, set[int]]:
    state, protocols = read_host_state(place.machine), {OTHER, PROTOCOL}
    return {
        "addresses": {entry.protocol for entry in state.addresses} & protocols,
        "routes": {entry.protocol for entry in state.routes if entry.table == TABLE} & protocols,
        "rules": {entry.protocol for entry in state.rules} & protocols,
    }


def test_undo_removes_entries_with_trackbeds_mark_and_keeps_those_of_others(place: Host) -> None:
    view = read_view(place.machine, ())
    before = {kind: kind.read_undo_data(view) for kind in KINDS if kind.name in {"address", "route", "rule"}}
    for protocol in (OTHER, PROTOCOL):
        add_entries(place, protocol)
    assert list(list_protocols(place).values()) == [{OTHER, PROTOCOL}] * 3
    assert [failure for kind, kept in before.items() for failure in kind.restore(place.machine, kept)] == []
    assert list_protocols(place) == {"addresses": {OTHER}, "routes": {OTHER}, "rules": {OTHER}}
