"""Ports for servers of a lab."""

import socket
from pathlib import Path

from trackbed.lab.ports import free_ports


def test_ports_are_free_differ_and_are_none_that_callers_get() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    assert max(found) < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in found:
        socket.create_server(("127.0.0.1", port)).close()
