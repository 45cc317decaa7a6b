"""A port that returns from a pod: what the kernel and rdma_cm forget comes back, as its driver takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drivers.conftest import Rig
from tests.drivers.hardware import Hardware
from tests.drivers.mlx5 import Mlx5
from tests.drivers.requests import attempt, read_dcb
from tests.host.places import Host
from trackbed.kernel.netlink import dcb, links
from trackbed.kernel.netlink.dcb import build_dscp_app
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.netns_ids import assign_netns_id
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import hostport
from trackbed.node.rails.attachment import HostPort, PodPort
from trackbed.node.rails.identity import identify
from trackbed.node.rails.recovery import Recovery
from trackbed.node.rails.sandbox import OWN_NETNS

ENTRIES = (build_dscp_app(26, 3), build_dscp_app(48, 6))


def read_state(place: Host) -> HostPort:
    assert place.machine.netns is not None
    with enter_netns(place.machine.netns), Socket() as host, Path(OWN_NETNS).open() as netns:
        link = links.get_link(host, "eth0")
        return hostport.read_host_port(host, link, identify(link, assign_netns_id(host, netns.fileno())))


def visit_pod(place: Host, hardware: Hardware) -> None:
    """Move the port into another namespace and back."""
    place.send(links.build_set_link(place.index("eth0"), netns_fd=hardware.far))
    with Socket(netns=hardware.far) as sock:
        sock.send([links.build_set_link(links.get_link(sock, "eth0").index, netns_fd=hardware.namespace)])


def restore(place: Host, state: HostPort) -> list[PodPort]:
    assert place.machine.netns is not None
    port = PodPort(0, "rail0", "", state.mtu_bytes, host=state)
    with enter_netns(place.machine.netns), Path(OWN_NETNS).open() as netns:
        return Recovery(netns.fileno(), tuple).restore_ports([port], 2.0)


def test_the_entries_of_the_app_table_come_back_from_a_pod(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    attempt(place, dcb.build_add_apps("eth0", ENTRIES))
    state = read_state(place)
    visit_pod(place, hardware)
    assert read_dcb(place).apps == ()
    assert restore(place, state) == []
    assert sorted(read_dcb(place).apps) == sorted(ENTRIES)


def test_entries_that_came_back_by_themselves_are_no_failure(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    place, hardware = rig(Mlx5)
    attempt(place, dcb.build_add_apps("eth0", ENTRIES))
    state = read_state(place)
    visit_pod(place, hardware)
    attempt(place, dcb.build_add_apps("eth0", ENTRIES[:1]))
    assert restore(place, state) == []
    assert sorted(read_dcb(place).apps) == sorted(ENTRIES)
    assert caplog.text == ""
