from __future__ import annotations

import errno
from dataclasses import replace
from ipaddress import ip_address
from socket import AF_INET, AF_INET6

import pytest

from trackbed.kernel.netlink.addresses import (
    IFA_F_NODAD,
    IFA_F_NOPREFIXROUTE,
    IFA_F_PERMANENT,
    IFA_F_TENTATIVE,
    Address,
    _parse_address,
    build_add_address,
    build_delete_address,
    build_replace_address,
    list_addresses,
)
from trackbed.kernel.netlink.codec import MalformedError
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link
from trackbed.kernel.netlink.routes import list_routes
from trackbed.kernel.netlink.sockets import BatchError, Socket

V4 = Address(20, AF_INET, int(ip_address("172.16.0.2")), 31)
V6 = Address(20, AF_INET6, int(ip_address("fd00::2")), 127, flags=IFA_F_NODAD)


@pytest.fixture(autouse=True)
def port(sock: Socket) -> None:
    """A link of index 20, up and with a carrier."""
    sock.send(
        [
            build_create_veth(VethEnd("a", index=20), VethEnd("b", index=21)),
            build_set_link(20, up=True),
            build_set_link(21, up=True),
        ]
    )


def own(sock: Socket, family: int = 0) -> list[Address]:
    return [a for a in list_addresses(sock, family) if a.index == 20 and a.scope == 0]


@pytest.mark.parametrize("address", [V4, V6], ids=["IPv4", "IPv6"])
def test_address_is_listed_as_it_was_added_and_goes_when_deleted(sock: Socket, address: Address) -> None:
    sock.send([build_add_address(address)])
    (listed,) = own(sock)
    assert listed == replace(address, flags=address.flags | IFA_F_PERMANENT, label=listed.label)
    sock.send([build_delete_address(listed)])
    assert own(sock) == []


def test_family_narrows_the_list(sock: Socket) -> None:
    sock.send([build_add_address(V4), build_add_address(V6)])
    assert [a.address for a in own(sock, AF_INET)] == [V4.address]
    assert [a.address for a in own(sock, AF_INET6)] == [V6.address]
    assert len(own(sock)) == 2


@pytest.mark.parametrize("address", [V4, V6], ids=["IPv4", "IPv6"])
def test_adding_twice_is_refused_and_replacing_is_not(sock: Socket, address: Address) -> None:
    sock.send([build_add_address(address), build_replace_address(address)])
    with pytest.raises(BatchError) as caught:
        sock.send([build_add_address(address)])
    assert caught.value.failures[0].errno == errno.EEXIST
    assert len(own(sock)) == 1


def test_no_route_to_the_subnet_is_made_where_none_is_wanted(sock: Socket) -> None:
    sock.send([build_add_address(replace(V4, flags=IFA_F_NOPREFIXROUTE))])
    assert list_routes(sock, AF_INET) == ()
    assert own(sock)[0].flags & IFA_F_NOPREFIXROUTE


def test_route_to_the_subnet_is_the_default(sock: Socket) -> None:
    sock.send([build_add_address(V4)])
    assert [(r.dst, r.prefix, r.oif) for r in list_routes(sock, AF_INET)] == [(V4.address, 31, 20)]


def test_ipv6_address_without_duplicate_detection_is_usable_at_once(sock: Socket) -> None:
    sock.send([build_add_address(V6), build_add_address(replace(V6, address=V6.address + 2, flags=0))])
    tentative = {a.address: bool(a.flags & IFA_F_TENTATIVE) for a in own(sock)}
    assert tentative == {V6.address: False, V6.address + 2: True}


def test_label_is_the_links_name_or_the_one_given(sock: Socket) -> None:
    sock.send([build_add_address(V4), build_add_address(replace(V4, address=V4.address + 2, label="a:second"))])
    assert [a.label for a in own(sock)] == ["a", "a:second"]


@pytest.mark.parametrize(
    "other",
    [replace(V4, prefix=24), replace(V4, address=V4.address + 1), replace(V4, index=21), replace(V4, label="b")],
    ids=["prefix", "address", "link", "label"],
)
def test_address_that_differs_is_not_deleted(sock: Socket, other: Address) -> None:
    sock.send([build_add_address(V4)])
    with pytest.raises(BatchError) as caught:
        sock.send([build_delete_address(other)])
    assert caught.value.failures[0].errno == errno.EADDRNOTAVAIL
    assert len(own(sock)) == 1


def test_short_address_is_malformed() -> None:
    with pytest.raises(MalformedError):
        _parse_address(memoryview(bytes(7)))
