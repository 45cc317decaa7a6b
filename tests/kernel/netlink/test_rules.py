from __future__ import annotations

import errno
from dataclasses import replace
from ipaddress import ip_address
from socket import AF_INET, AF_INET6

import pytest

from trackbed.kernel.netlink.codec import MalformedError
from trackbed.kernel.netlink.rules import PolicyRule, _parse_rule, build_add_rule, build_delete_rule, list_rules
from trackbed.kernel.netlink.sockets import BatchError, Socket

SOURCE = PolicyRule(AF_INET, 1000, 1000, src=int(ip_address("172.16.0.0")), src_prefix=32, protocol=99)


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(SOURCE, id="source"),
        pytest.param(replace(SOURCE, table=254), id="table below 256"),
        pytest.param(replace(SOURCE, dst=int(ip_address("10.0.0.0")), dst_prefix=8), id="destination"),
        pytest.param(
            PolicyRule(AF_INET, 999, 254, dst=int(ip_address("172.16.0.0")), dst_prefix=12, invert=True),
            id="everything but",
        ),
        pytest.param(replace(SOURCE, iif="lo", oif="rail0"), id="interfaces, present or not"),
        pytest.param(replace(SOURCE, fwmark=0x40, fwmask=0xF0), id="masked mark"),
        pytest.param(replace(SOURCE, fwmark=0x40), id="whole mark"),
        pytest.param(replace(SOURCE, table=0, action=7), id="unreachable"),
        pytest.param(PolicyRule(AF_INET6, 1000, 1000, int(ip_address("fd00::")), 128), id="IPv6"),
        pytest.param(
            PolicyRule(AF_INET6, 999, 254, dst=int(ip_address("fd00::")), dst_prefix=8, invert=True),
            id="IPv6 everything but",
        ),
    ],
)
def test_rule_is_listed_as_it_was_added_and_goes_when_deleted(sock: Socket, rule: PolicyRule) -> None:
    before = list_rules(sock, rule.family)
    sock.send([build_add_rule(rule)])
    assert set(list_rules(sock, rule.family)) - set(before) == {rule}
    sock.send([build_delete_rule(rule)])
    assert list_rules(sock, rule.family) == before


def test_rules_come_in_the_order_they_are_asked(sock: Socket) -> None:
    sock.send([build_add_rule(replace(SOURCE, priority=number)) for number in (3000, 1000, 2000)])
    assert [rule.priority for rule in list_rules(sock, AF_INET)] == [0, 1000, 2000, 3000, 32766, 32767]


def test_both_families_are_listed(sock: Socket) -> None:
    assert [(rule.family, rule.priority) for rule in list_rules(sock)] == [
        (AF_INET, 0),
        (AF_INET, 32766),
        (AF_INET, 32767),
        (AF_INET6, 0),
        (AF_INET6, 32766),
    ]


def test_same_rule_twice_is_refused(sock: Socket) -> None:
    with pytest.raises(BatchError) as caught:
        sock.send([build_add_rule(SOURCE), build_add_rule(SOURCE)])
    assert [(f.index, f.errno) for f in caught.value.failures] == [(1, errno.EEXIST)]


@pytest.mark.parametrize(
    "other",
    [replace(SOURCE, src=1), replace(SOURCE, table=7), replace(SOURCE, priority=1001), replace(SOURCE, protocol=98)],
    ids=["source", "table", "priority", "protocol"],
)
def test_rule_that_differs_is_not_deleted(sock: Socket, other: PolicyRule) -> None:
    sock.send([build_add_rule(SOURCE)])
    with pytest.raises(BatchError) as caught:
        sock.send([build_delete_rule(other)])
    assert caught.value.failures[0].errno == errno.ENOENT
    assert SOURCE in list_rules(sock, AF_INET)


def test_short_rule_is_malformed() -> None:
    with pytest.raises(MalformedError):
        _parse_rule(memoryview(bytes(11)))
