from __future__ import annotations

import errno
from ipaddress import ip_address
from socket import AF_INET, AF_INET6

import pytest

from tests.kernel.senders import set_neighbour
from trackbed.kernel.netlink.codec import MalformedError
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link
from trackbed.kernel.netlink.neighbours import (
    NUD_PERMANENT,
    Neighbour,
    _parse_neighbour,
    build_delete_neighbour,
    flush_neighbours,
    list_neighbours,
)
from trackbed.kernel.netlink.sockets import BatchError, Socket

V4 = Neighbour(20, AF_INET, int(ip_address("172.16.0.1")), "02:00:00:00:00:09", NUD_PERMANENT)
V6 = Neighbour(20, AF_INET6, int(ip_address("fd00::1")), "02:00:00:00:00:09", NUD_PERMANENT)


@pytest.fixture(autouse=True)
def port(sock: Socket) -> None:
    """Links of index 20 and 21, up."""
    sock.send(
        [
            build_create_veth(VethEnd("a", index=20), VethEnd("b", index=21)),
            build_set_link(20, up=True),
            build_set_link(21, up=True),
        ]
    )


def known(sock: Socket, family: int = 0) -> set[Neighbour]:
    """Without the multicast groups that the kernel enters on its own."""
    return {n for n in list_neighbours(sock, family) if not n.state & 0x40}


@pytest.mark.parametrize("entry", [V4, V6], ids=["IPv4", "IPv6"])
def test_entry_is_listed_as_it_was_set_and_goes_when_deleted(sock: Socket, entry: Neighbour) -> None:
    sock.send([set_neighbour(entry)])
    assert known(sock) == {entry}
    sock.send([build_delete_neighbour(entry)])
    assert entry not in known(sock)


def test_family_narrows_the_list(sock: Socket) -> None:
    sock.send([set_neighbour(V4), set_neighbour(V6)])
    assert (known(sock, AF_INET), known(sock, AF_INET6)) == ({V4}, {V6})


def test_setting_again_changes_the_mac(sock: Socket) -> None:
    changed = V4._replace(mac="02:00:00:00:00:0a")
    sock.send([set_neighbour(V4), set_neighbour(changed)])
    assert known(sock) == {changed}


def test_absent_entry_is_not_deleted(sock: Socket) -> None:
    with pytest.raises(BatchError) as caught:
        sock.send([build_delete_neighbour(V4)])
    assert caught.value.failures[0].errno == errno.ENOENT


def test_flush_forgets_what_one_link_has_learnt_and_keeps_what_was_put_there(sock: Socket) -> None:
    learnt = [
        V4._replace(address=V4.address + 1, state=0x04),
        V6._replace(address=V6.address + 1, state=0x04),
    ]
    elsewhere = learnt[0]._replace(index=21)
    sock.send([set_neighbour(entry) for entry in (V4, V6, *learnt, elsewhere)])
    flush_neighbours(sock, 20)
    assert known(sock) & {V4, V6, *learnt, elsewhere} == {V4, V6, elsewhere}
    flush_neighbours(sock, 20)


def test_short_entry_is_malformed() -> None:
    with pytest.raises(MalformedError):
        _parse_neighbour(memoryview(bytes(11)))
