"""The models of igb, ionic and efa by themselves: messages that upstream accepts, and messages that it refuses."""

from __future__ import annotations

import errno

import pytest

from tests.drivers.conftest import Rig
from tests.drivers.igb import Igb
from tests.drivers.others import Efa, Ionic
from tests.drivers.requests import MAC, create_vfs, read_vf_mac, set_vf, to_bytes
from trackbed.kernel.netlink import dcb, rdma
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, BatchError, RequestError, Socket


def test_igb_has_vfs_and_no_dcb(rig: Rig) -> None:
    place, hardware = rig(Igb)
    assert [create_vfs(place, count) for count in (8, 7)] == [errno.ERANGE, 0]
    assert [set_vf(place, **change) for change in ({"mac": MAC}, {"spoof_check": False}, {"trust": True})] == [0] * 3
    assert [set_vf(place, mac="01:00:5e:00:00:01"), set_vf(place, link_state="enable")] == [
        errno.EINVAL,
        errno.EOPNOTSUPP,
    ]
    assert set_vf(place, 1, mac=MAC) == 0
    assert not hardware.ports[0].passes(1, to_bytes(read_vf_mac(place, 1)))
    with place.machine.open_socket() as sock, pytest.raises(RequestError, match="not supported"):
        dcb.get_dcb(sock, "eth0")


def test_ionic_has_vfs_and_no_dcb(rig: Rig) -> None:
    place, _ = rig(Ionic)
    create_vfs(place, 1)
    assert [set_vf(place, **change) for change in ({"mac": MAC}, {"spoof_check": True}, {"trust": True})] == [0] * 3
    assert set_vf(place, mac="01:00:5e:00:00:01") == errno.EINVAL
    with place.machine.open_socket() as sock, pytest.raises(RequestError, match="not supported"):
        dcb.get_dcb(sock, "eth0")


@pytest.mark.support(
    "NIC driver", "efa", "modelled", "no VFs, no DCB, its RDMA device cannot leave its namespace; rules cited: 3"
)
def test_efa_has_an_rdma_device_that_stays_where_it_is(rig: Rig) -> None:
    place, hardware = rig(Efa)
    assert create_vfs(place, 1) == errno.ERANGE
    with Socket(NETLINK_RDMA, hardware.namespace) as sock:
        assert [device.name for device in rdma.list_devices(sock)] == ["efa_0", "efa_1"]
        with pytest.raises(BatchError, match="not supported"):
            sock.send([rdma.build_move_device(0, hardware.far)])
