"""The kernel's neighbour tables are read from any namespace: their size, and what they hold."""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path
from socket import AF_INET, AF_INET6

import pytest

from tests.kernel.senders import set_neighbour
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link
from trackbed.kernel.netlink.neighbour_tables import list_neighbour_tables
from trackbed.kernel.netlink.neighbours import NUD_PERMANENT, Neighbour
from trackbed.kernel.netlink.sockets import Socket

SIZE = Path("/proc/sys/net/ipv4/neigh/default/gc_thresh3")
"""It exists in the initial namespace only."""


def test_a_namespace_reads_the_tables_of_the_whole_kernel(sock: Socket) -> None:
    v4, v6 = list_neighbour_tables(sock)
    assert (v4.family, v6.family) == (AF_INET, AF_INET6)
    assert min(v4.size, v6.size, v4.overflows + 1, v6.overflows + 1) > 0
    if SIZE.exists():
        assert v4.size == int(SIZE.read_text())


def test_a_new_neighbour_of_a_namespace_counts(sock: Socket) -> None:
    ends = VethEnd("a", index=20), VethEnd("b", index=21)
    sock.send([build_create_veth(*ends), build_set_link(20, up=True), build_set_link(21, up=True)])
    first = int(ip_address("172.16.0.1"))
    before = list_neighbour_tables(sock)[0].entries
    sock.send(
        [
            set_neighbour(Neighbour(20, AF_INET, first + number, f"02:00:00:00:00:{number:02x}", NUD_PERMANENT))
            for number in range(200)
        ]
    )
    # Other tests on this machine add and remove neighbours too, fewer than these.
    assert list_neighbour_tables(sock)[0].entries - before == pytest.approx(200, abs=150)
