"""Ports for servers of a lab."""

import socket
from pathlib import Path

import pytest
from trackbed_lab.ports import hold_ports


def test_ports_differ_and_are_none_that_callers_get() -> None:
    with hold_ports(20) as ports:
        assert len(set(ports)) == 20
        assert max(ports) < int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def test_a_server_can_listen_on_a_held_port_and_nobody_else_gets_it() -> None:
    with hold_ports(1) as (port,):
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        server = socket.create_server(("127.0.0.1", port))
    with server, socket.create_connection(("127.0.0.1", port), timeout=5):
        server.settimeout(5)
        server.accept()[0].close()


def test_two_labs_at_once_hold_different_ports() -> None:
    with hold_ports(500) as first, hold_ports(500) as other:
        assert not set(first) & set(other)


def test_too_few_ports_are_told() -> None:
    with pytest.raises(OSError, match=r"no 5000 free ports on 127\.0\.0\.1"), hold_ports(5000):
        pass
