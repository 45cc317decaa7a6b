"""mlx5's model by itself: messages that upstream accepts, and messages that it refuses."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from tests.drivers.conftest import Rig
from tests.drivers.mlx5 import Mlx5, Mlx5InfiniBand
from tests.drivers.requests import (
    HALVES,
    MAC,
    STRICT,
    attempt,
    attempt_all,
    create_vfs,
    list_vfs,
    read_dcb,
    read_vf_mac,
    rebind,
    set_dcbx,
    set_vf,
    to_bytes,
)
from trackbed.kernel.netlink import dcb, vfs
from trackbed.kernel.netlink.dcb import App, build_dscp_app
from trackbed.kernel.netlink.sockets import RequestError


def test_mlx5_spoof_check_without_an_address_drops_all_that_a_vf_sends(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    create_vfs(place, 1)
    mac = read_vf_mac(place)
    port = hardware.ports[0]
    assert (list_vfs(place)[0].mac, list_vfs(place)[0].spoof_check) == ("00:00:00:00:00:00", False)
    assert port.passes(0, to_bytes(mac))
    assert set_vf(place, spoof_check=True) == 0
    assert not port.passes(0, to_bytes(mac))
    assert set_vf(place, mac=MAC) == 0
    assert not port.passes(0, to_bytes(mac))
    rebind(place, "mlx5_core")
    assert read_vf_mac(place) == MAC
    assert port.passes(0, to_bytes(MAC))


def test_mlx5_gives_a_node_guid_with_the_address_and_the_rdma_device_takes_it_when_bound(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    create_vfs(place, 1)
    assert hardware.rdma.devices[-1].node_guid == 0
    assert set_vf(place, mac="01:00:5e:00:00:01") == errno.EINVAL
    set_vf(place, mac=MAC)
    assert hardware.rdma.devices[-1].node_guid == 0
    rebind(place, "mlx5_core")
    assert hardware.rdma.devices[-1].node_guid == 0x021A00FFFE000001


def test_mlx5_forgets_the_address_with_the_vfs(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    create_vfs(place, 1)
    set_vf(place, mac=MAC, trust=True)
    create_vfs(place, 0)
    create_vfs(place, 1)
    assert (list_vfs(place)[0].mac, list_vfs(place)[0].trust) == ("00:00:00:00:00:00", False)


def test_mlx5_in_dpu_mode_takes_the_address_alone(rig: Rig) -> None:
    place, _ = rig(Mlx5, dpu_mode=True)
    create_vfs(place, 1)
    assert set_vf(place, mac=MAC) == 0
    changes: tuple[dict[str, Any], ...] = (
        {"spoof_check": True},
        {"trust": True},
        {"link_state": "enable"},
        {"vlan": vfs.VfVlan(5)},
    )
    assert [set_vf(place, **change) for change in changes] == [errno.EPERM] * 4


def test_mlx5_takes_ets_whose_shares_add_up(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    assert attempt(place, dcb.build_set_ets("eth0", HALVES)) == 0
    state = read_dcb(place).ets
    assert state is not None
    assert (state.tx_bandwidth[:2], state.rx_bandwidth, state.classes) == ((50, 50), STRICT, HALVES.classes)
    shaped = HALVES._replace(algorithms=(1, 2, *(0,) * 6))
    short = HALVES._replace(tx_bandwidth=(40, 50, *(0,) * 6))
    messages = [dcb.build_set_ets("eth0", ets) for ets in (shaped, short)]
    assert attempt_all(place, messages) == [errno.EOPNOTSUPP, errno.EINVAL]


def test_mlx5_trusts_dscp_as_long_as_a_codepoint_is_mapped(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    port = hardware.ports[0]
    assert isinstance(port, Mlx5)
    first, second = build_dscp_app(26, 3), build_dscp_app(26, 5)
    assert attempt(place, dcb.build_add_apps("eth0", [App(1, 0, 3)])) == errno.EINVAL
    assert attempt_all(place, [dcb.build_add_apps("eth0", [app]) for app in (first, first, second)]) == [0, 0, 0]
    assert (read_dcb(place).apps, port.trusts_dscp) == ((second,), True)
    deletions = [dcb.build_delete_apps("eth0", [app]) for app in (first, second)]
    assert (attempt_all(place, deletions), port.trusts_dscp) == ([errno.ENOENT, 0], False)


def test_mlx5_lists_all_codepoints_after_a_driver_reload_where_it_trusts_dscp(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    port = hardware.ports[0]
    assert isinstance(port, Mlx5)
    attempt_all(place, [dcb.build_add_apps("eth0", [build_dscp_app(26, 3)]), dcb.build_set_ets("eth0", HALVES)])
    port.start()
    state = read_dcb(place)
    assert len(state.apps) == 64
    assert build_dscp_app(26, 3) in state.apps
    assert state.ets is not None
    assert state.ets.algorithms == (255,) * 8


def test_mlx5_lets_the_host_have_dcbx(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    assert [set_dcbx(place, mode) for mode in (0x02, 0x08, 0x00)] == [1, 1, 0]
    assert read_dcb(place).dcbx == 0x0C
    assert (set_dcbx(place, 0x09), read_dcb(place).dcbx) == (0, 0x09)


def test_mlx5_infiniband_vfs_have_guids_and_a_link_state_and_nothing_else(rig: Rig) -> None:
    place, hardware = rig(Mlx5InfiniBand)
    create_vfs(place, 1)
    assert set_vf(place, mac=MAC) == errno.EOPNOTSUPP
    assert [set_vf(place, **{key: True}) for key in ("spoof_check", "trust")] == [errno.EOPNOTSUPP] * 2
    assert not hardware.ports[0].passes(0, b"")
    assert set_vf(place, node_guid="0011:2233:4455:6677") == 0
    assert set_vf(place, port_guid="0011:2233:4455:6688") == 0
    assert set_vf(place, link_state="auto") == 0
    rebind(place, "mlx5_core")
    assert (hardware.rdma.devices[-1].node_guid, hardware.ports[0].passes(0, b"")) == (0x0011223344556677, True)
    create_vfs(place, 0)
    create_vfs(place, 1)
    assert list_vfs(place)[0].port_guid == "0011:2233:4455:6688"
    with place.machine.open_socket() as sock, pytest.raises(RequestError):
        dcb.get_dcb(sock, "eth0")


def test_ethernet_vfs_have_no_guids(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    create_vfs(place, 1)
    assert set_vf(place, node_guid="0011:2233:4455:6677") == errno.EOPNOTSUPP
