from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_address, ip_network
from socket import AF_INET, AF_INET6

import pytest

from tests.waiting import wait_until
from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import IFA_F_NODAD, Address, build_add_address, pack_address
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link
from trackbed.kernel.netlink.routes import (
    RT_SCOPE_LINK,
    RT_TABLE_MAIN,
    RTA_MULTIPATH,
    RTM_NEWROUTE,
    RTN_BLACKHOLE,
    RTN_PROHIBIT,
    RTN_UNREACHABLE,
    Route,
    _parse_route,
    build_add_route,
    build_append_route,
    build_delete_route,
    build_replace_route,
    get_route,
    list_routes,
)
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule
from trackbed.kernel.netlink.sockets import BatchError, RequestError, Socket


def number(text: str) -> int:
    return int(ip_address(text))


def route(family: int, table: int, to: str, via: str = "", oif: int = 20) -> Route:
    network = ip_network(to)
    scope = RT_SCOPE_LINK if family == AF_INET and not via else 0
    gateway = number(via) if via else 0
    return Route(family, table, int(network.network_address), network.prefixlen, oif, gateway, scope=scope)


CONNECTED = route(AF_INET, 1000, "172.16.0.0/31")
DEFAULT = route(AF_INET, 1000, "0.0.0.0/0", "172.16.0.1")
DEFAULT6 = route(AF_INET6, 1000, "::/0", "fd00::1")
OWN, OWN6 = number("172.16.0.0"), number("fd00::")
FAR, FAR6 = number("172.20.0.4"), number("fd00:9::4")


@pytest.fixture(autouse=True)
def port(sock: Socket) -> None:
    """A port of index 20 with a carrier, 172.16.0.0/31 and fd00::/127; another of index 21."""
    sock.send(
        [
            build_create_veth(VethEnd("a", index=20), VethEnd("b", index=21)),
            *(build_set_link(index, up=True) for index in (1, 20, 21)),
            build_add_address(Address(20, AF_INET, OWN, 31)),
            build_add_address(Address(20, AF_INET6, OWN6, 127, flags=IFA_F_NODAD)),
        ]
    )


def test_routes_of_a_rails_own_table_are_listed_as_they_were_added(sock: Socket) -> None:
    routes = (CONNECTED, replace(DEFAULT, prefsrc=OWN, metric=7))
    sock.send([build_add_route(each) for each in routes])
    assert set(list_routes(sock, AF_INET, 1000)) == set(routes)


def test_ipv6_route_is_listed_as_it_was_added_with_the_kernels_metric(sock: Socket) -> None:
    sock.send([build_add_route(DEFAULT6)])
    assert list_routes(sock, AF_INET6, 1000) == (replace(DEFAULT6, metric=1024),)


def test_both_families_are_listed_without_local_routes(sock: Socket) -> None:
    sock.send([build_add_route(CONNECTED), build_add_route(DEFAULT6)])
    listed = list_routes(sock)
    assert {each.family for each in listed} == {AF_INET, AF_INET6}
    assert {each.table for each in listed} == {RT_TABLE_MAIN, 1000}


@pytest.mark.parametrize("family", [AF_INET, AF_INET6])
def test_table_that_does_not_exist_has_no_routes(sock: Socket, family: int) -> None:
    assert list_routes(sock, family, 4242) == ()


@pytest.mark.parametrize("table", [1, 252, 255, 256, 1007, 0xFFFFFFFF])
def test_tables_of_any_number_are_told_apart(sock: Socket, table: int) -> None:
    blackhole = Route(AF_INET, table, FAR, 32, type=RTN_BLACKHOLE)
    sock.send([build_add_route(blackhole)])
    assert get_route_table(sock, table) == ([table] if table != 255 else [])
    sock.send([build_delete_route(blackhole)])
    assert get_route_table(sock, table) == []


def get_route_table(sock: Socket, table: int) -> list[int]:
    return [each.table for each in list_routes(sock, AF_INET, table) if each.dst == FAR]


@pytest.mark.parametrize("kind", [RTN_UNREACHABLE, RTN_BLACKHOLE, RTN_PROHIBIT])
def test_types_that_refuse_are_listed(sock: Socket, kind: int) -> None:
    sock.send([build_add_route(Route(AF_INET, 1000, type=kind))])
    assert [each.type for each in list_routes(sock, AF_INET, 1000)] == [kind]


def test_second_route_to_a_place_is_refused_replaced_or_appended(sock: Socket) -> None:
    other = replace(CONNECTED, oif=21)
    sock.send([build_add_route(CONNECTED)])
    with pytest.raises(BatchError) as caught:
        sock.send([build_add_route(other)])
    assert caught.value.failures[0].errno == errno.EEXIST
    sock.send([build_replace_route(other)])
    assert list_routes(sock, AF_INET, 1000) == (other,)
    sock.send([build_append_route(CONNECTED)])
    assert list_routes(sock, AF_INET, 1000) == (other, CONNECTED)


def test_route_that_differs_is_not_deleted(sock: Socket) -> None:
    sock.send([build_add_route(CONNECTED)])
    for other in (replace(CONNECTED, oif=21), replace(CONNECTED, protocol=99), replace(CONNECTED, prefix=32)):
        with pytest.raises(BatchError) as caught:
            sock.send([build_delete_route(other)])
        assert caught.value.failures[0].errno == errno.ESRCH
    sock.send([build_delete_route(CONNECTED)])
    assert list_routes(sock, AF_INET, 1000) == ()


def test_gateway_that_is_not_on_the_link_is_refused_with_words_unless_onlink(sock: Socket) -> None:
    stray = route(AF_INET, 1000, "10.9.0.0/16", "192.0.2.1")
    with pytest.raises(BatchError) as caught:
        sock.send([build_add_route(stray)])
    assert [(f.errno, f.text) for f in caught.value.failures] == [(errno.ENETUNREACH, "Nexthop has invalid gateway")]
    sock.send([build_add_route(replace(stray, onlink=True))])
    assert list_routes(sock, AF_INET, 1000) == (replace(stray, onlink=True),)


def test_route_over_a_link_without_carrier_says_so(sock: Socket) -> None:
    sock.send([build_add_route(CONNECTED)])
    assert [each.linkdown for each in list_routes(sock, AF_INET, 1000)] == [False]
    sock.send([build_set_link(21, up=False)])
    # The kernel gets there in its own time (linkwatch).
    wait_until(lambda: list_routes(sock, AF_INET, 1000)[0].linkdown, "the route is down")


def test_lookup_follows_source_rules_into_a_rails_table(sock: Socket) -> None:
    rules = [PolicyRule(AF_INET, 500, 1000, OWN, 32), PolicyRule(AF_INET6, 500, 1000, OWN6, 128)]
    sock.send([*map(build_add_route, (CONNECTED, DEFAULT, DEFAULT6)), *map(build_add_rule, rules)])
    selected = get_route(sock, AF_INET, FAR, src=OWN)
    assert (selected.table, selected.oif, selected.gateway, selected.dst, selected.prefix) == (
        1000,
        20,
        OWN + 1,
        FAR,
        32,
    )
    selected = get_route(sock, AF_INET6, FAR6, src=OWN6)
    assert (selected.table, selected.oif, selected.gateway, selected.dst, selected.prefix) == (
        1000,
        20,
        OWN6 + 1,
        FAR6,
        128,
    )


def test_lookup_without_source_tells_which_one_the_kernel_takes(sock: Socket) -> None:
    selected = get_route(sock, AF_INET, OWN + 1)
    assert (selected.oif, selected.prefsrc, selected.table) == (20, OWN, RT_TABLE_MAIN)


def test_lookup_may_be_bound_to_a_link(sock: Socket) -> None:
    sock.send([build_add_route(replace(CONNECTED, table=RT_TABLE_MAIN, oif=21, metric=5))])
    assert [get_route(sock, AF_INET, OWN + 1, oif=oif).oif for oif in (0, 20, 21)] == [20, 20, 21]


@pytest.mark.parametrize(
    ("kind", "number"),
    [(RTN_UNREACHABLE, errno.EHOSTUNREACH), (RTN_BLACKHOLE, errno.EINVAL), (RTN_PROHIBIT, errno.EACCES)],
)
def test_lookup_of_a_refusing_route_is_refused_with_its_errno(sock: Socket, kind: int, number: int) -> None:
    sock.send([build_add_route(Route(AF_INET, RT_TABLE_MAIN, FAR, 32, type=kind))])
    with pytest.raises(RequestError) as caught:
        get_route(sock, AF_INET, FAR)
    assert caught.value.errno == number


@pytest.mark.parametrize(("family", "to"), [(AF_INET, FAR), (AF_INET6, FAR6)])
def test_lookup_without_any_route_is_refused(sock: Socket, family: int, to: int) -> None:
    with pytest.raises(RequestError) as caught:
        get_route(sock, family, to)
    assert caught.value.errno == errno.ENETUNREACH


def test_route_with_several_next_hops_is_told_by_its_first_and_marked(sock: Socket) -> None:
    sock.send(
        [
            build_add_address(Address(21, AF_INET, number("172.16.8.0"), 31)),
            _multipath(((20, OWN + 1), (21, 0xAC100801))),
        ]
    )
    assert list_routes(sock, AF_INET, 1000) == (replace(DEFAULT, hops=(20, 21)),)
    sock.send([build_delete_route(list_routes(sock, AF_INET, 1000)[0])])
    assert list_routes(sock, AF_INET, 1000) == ()


def _multipath(hops: Iterable[tuple[int, int]]) -> Message:
    empty = replace(DEFAULT, oif=0, gateway=0)
    inner = [
        struct.pack("=HBBi", 16, 0, 0, index) + codec.pack_attribute(5, pack_address(AF_INET, gateway))
        for index, gateway in hops
    ]
    return build_add_route(empty)._replace(
        body=build_add_route(empty).body + codec.pack_attribute(RTA_MULTIPATH, b"".join(inner))
    )


@pytest.mark.parametrize("hops", [b"", b"\x08\0\0", struct.pack("=HBBi", 12, 0, 0, 3) + b"\x08\0\5\0"])
def test_cut_next_hops_are_malformed(hops: bytes) -> None:
    body = bytes(12) + codec.pack_attribute(RTA_MULTIPATH, hops)
    with pytest.raises(MalformedError):
        _parse_route(memoryview(body))


def test_route_message_is_of_the_right_type() -> None:
    assert build_add_route(DEFAULT).type == RTM_NEWROUTE
