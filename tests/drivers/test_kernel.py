"""What stands above all drivers, and the rows of each model."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.drivers import rules
from tests.drivers.bnxt import Bnxt
from tests.drivers.conftest import Rig
from tests.drivers.ice import Ice
from tests.drivers.igb import Igb
from tests.drivers.mlx5 import Mlx5, Mlx5InfiniBand
from tests.drivers.others import Efa, Ionic
from tests.drivers.port import Port
from tests.drivers.requests import LOSSLESS, MAC, attempt, create_vfs, list_vfs, read_dcb, set_vf, write
from trackbed.kernel.netlink import dcb, links, rdma
from trackbed.kernel.netlink.dcb import Pfc, build_dscp_app
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, BatchError, RequestError, Socket

MODELS: tuple[type[Port], ...] = (Mlx5, Mlx5InfiniBand, Bnxt, Ice, Igb, Ionic, Efa)


@pytest.mark.parametrize("model", MODELS)
def test_each_rule_names_file_function_and_version(model: type[Port]) -> None:
    for rule in (*rules.KERNEL, *model.rules):
        assert rule.file.endswith(".c")
        assert all((rule.text, rule.function, rule.commit))


def test_an_interface_without_the_drivers_dcb_has_none(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    with place.machine.open_socket() as sock:
        for name, code in (("mgmt0", errno.EOPNOTSUPP), ("nope", errno.ENODEV)):
            with pytest.raises(RequestError) as refusal:
                dcb.get_dcb(sock, name)
            assert refusal.value.errno == code


@pytest.mark.parametrize("model", [Mlx5, Bnxt, Ice])
def test_none_of_these_drivers_has_a_list_of_trusted_selectors(rig: Rig, model: type[Port]) -> None:
    place, _ = rig(model)
    assert read_dcb(place).trust is None
    assert attempt(place, dcb.build_set_trust("eth0", [5])) == errno.EOPNOTSUPP


def test_a_refused_setting_is_acknowledged_and_only_the_reply_tells(rig: Rig) -> None:
    place, _ = rig(Bnxt)
    with place.machine.open_socket() as sock:
        sock.send([dcb.build_set_pfc("eth0", LOSSLESS)])
    assert read_dcb(place).pfc == Pfc(2, frozenset())


def test_vfs_come_and_go_as_sriov_numvfs_says(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    assert [create_vfs(place, count) for count in (9, 4, 4, 2, 0, 2)] == [errno.ERANGE, 0, 0, errno.EBUSY, 0, 0]
    assert (place.machine.root / "sys/bus/pci/devices/0000:1a:00.2/physfn").resolve().name == "0000:1a:00.0"
    assert [device.name for device in hardware.rdma.devices] == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]


def test_a_node_guid_in_a_message_hides_the_port_guid_beside_it(rig: Rig) -> None:
    place, _ = rig(Mlx5InfiniBand)
    create_vfs(place, 1)
    assert set_vf(place, node_guid="0011:2233:4455:6677", port_guid="0011:2233:4455:6688") == 0
    assert (list_vfs(place)[0].node_guid, list_vfs(place)[0].port_guid) == (
        "0011:2233:4455:6677",
        "0000:0000:0000:0000",
    )


def test_settings_before_the_first_refused_one_stay(rig: Rig) -> None:
    place, _ = rig(Mlx5, dpu_mode=True)
    create_vfs(place, 1)
    assert set_vf(place, mac=MAC, trust=True) == errno.EPERM
    assert list_vfs(place)[0].mac == MAC


def test_tos_is_gone_when_a_device_appears_in_another_namespace(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    configfs = place.machine.root / "sys/kernel/config/rdma_cm"
    (configfs / "mlx5_0").mkdir()
    with pytest.raises(OSError, match="No such device"):
        (configfs / "mlx5_9").mkdir()
    tos = "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"
    assert [write(place, tos, text) for text in ("256", "105")] == [errno.ERANGE, 0]
    assert place.machine.read(tos) == "105"
    with Socket(NETLINK_RDMA, hardware.namespace) as sock:
        sock.send([rdma.build_move_device(0, hardware.far)])
        assert [device.name for device in rdma.list_devices(sock)] == ["mlx5_1"]
    assert place.machine.read(tos) == "0"
    assert write(place, tos, "105") == 0


def test_an_rdma_device_moves_only_in_exclusive_mode_and_if_its_driver_can_let_go(rig: Rig) -> None:
    _, hardware = rig(Bnxt, can_release_users=False)
    with Socket(NETLINK_RDMA, hardware.namespace) as sock:
        with pytest.raises(BatchError, match="Operation not supported"):
            sock.send([rdma.build_move_device(0, hardware.far)])
        hardware.ports[0].can_release_users = True  # type: ignore[attr-defined] # the model of bnxt has it
        sock.send([rdma.build_move_device(0, hardware.far)])
        hardware.rdma.exclusive = False
        with pytest.raises(BatchError, match="Operation not supported"):
            sock.send([rdma.build_move_device(1, hardware.far)])


def test_an_interface_that_leaves_its_namespace_loses_its_app_table(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    assert attempt(place, dcb.build_add_apps("eth0", [build_dscp_app(26, 3)])) == 0
    place.send(links.build_set_link(place.index("eth0"), netns_fd=hardware.far))
    assert hardware.ports[0].apps == []


def test_a_vf_is_taken_from_its_driver_once(rig: Rig) -> None:
    place, _ = rig(Mlx5)
    create_vfs(place, 1)
    unbind = "/sys/bus/pci/drivers/mlx5_core/unbind"
    assert [write(place, unbind, "0000:1a:00.1") for _ in range(2)] == [0, errno.ENODEV]
    assert not Path(place.machine.root / "sys/bus/pci/devices/0000:1a:00.1/net").exists()


def test_a_new_rdma_device_takes_the_number_of_one_that_was_renamed(rig: Rig) -> None:
    place, hardware = rig(Mlx5)
    with Socket(NETLINK_RDMA, hardware.namespace) as sock:
        sock.send([rdma.build_rename_device(0, "rail0")])
    create_vfs(place, 1)
    assert [device.name for device in hardware.rdma.devices] == ["rail0", "mlx5_1", "mlx5_0"]
