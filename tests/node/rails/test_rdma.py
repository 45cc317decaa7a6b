"""Which RDMA device a rail of a pod has, and how it gets there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.rails.kernel_rdma import Device, RdmaKernel, RdmaSocket
from tests.node.rails.node import Node, netns_fd, planned
from tests.node.rails.sysfs import Sysfs
from trackbed.kernel.netlink import rdma as netlink_rdma
from trackbed.kernel.netlink.netns import read_inode
from trackbed.kernel.netlink.rdma import RdmaDevice
from trackbed.node.rails import rdma
from trackbed.node.rails.attachment import HostPort, PodPort, Rdma
from trackbed.node.rails.sandbox import OWN_NETNS

NODE = planned()
PORT = NODE.ports[2]


@pytest.mark.parametrize(
    ("mode", "hardware", "expected"),
    [
        ("shared", "mlx5_2", (Rdma("mlx5_2", "stays"), Rdma("mlx5_2", "stays"), Rdma("mlx5_9", "stays"))),
        ("exclusive", "mlx5_2", (None, Rdma("mlx5_2", "moves"), Rdma("mlx5_9", "moves"))),
        ("shared", None, (Rdma("rxe2", "stays"), Rdma("rxe2", "remade"), Rdma("rail2v1", "made"))),
        ("exclusive", None, (None, None, None)),
    ],
)
def test_a_device_of_hardware_follows_its_interface_and_a_soft_one_is_made(
    tmp_path: Path, mode: str, hardware: str | None, expected: tuple[Rdma | None, ...]
) -> None:
    sysfs = Sysfs(tmp_path)
    sysfs.port("rail2", rdma=hardware, soft=None if hardware else "rxe2")
    sysfs.vf("rail2", 1, interface="rail2v1", rdma="mlx5_9" if hardware else None)
    common = NODE.common._replace(rdma_mode=mode)
    ways = rdma.find_port_device(PORT, common, tmp_path), rdma.find_moved_port_device(PORT, common, tmp_path)
    assert (*ways, rdma.find_vf_device(PORT, 1, common, tmp_path)) == expected


def test_a_device_of_hardware_is_known_in_a_pod_by_its_guid_whatever_its_name_there(tmp_path: Path) -> None:
    sysfs = Sysfs(tmp_path)
    device = sysfs.vf("rail2", 1, interface="rail2v1", rdma="mlx5_9") / "infiniband/mlx5_9"
    (device / "node_guid").write_text("0e7d:00ff:fe00:4001\n")
    wanted = rdma.find_vf_device(PORT, 1, NODE.common._replace(rdma_mode="exclusive"), tmp_path)
    assert wanted == Rdma("mlx5_9", "moves", "0e7d:00ff:fe00:4001")
    there = [build_device(4, "mlx5_9", "0e7d:00ff:fe00:4002"), build_device(7, "mlx5_0", "0e7d:00ff:fe00:4001")]
    assert rdma.find_device(there, wanted) == there[1]
    assert rdma.find_device(there[:1], wanted) is None
    (device / "node_guid").write_text("0000:0000:0000:0000\n")
    nameless = rdma.find_vf_device(PORT, 1, NODE.common._replace(rdma_mode="exclusive"), tmp_path)
    assert nameless == Rdma("mlx5_9", "moves")
    assert rdma.find_device(there, nameless) == there[0]


def build_device(index: int, name: str, guid: str) -> RdmaDevice:
    return RdmaDevice(index, name, 1, guid, "", "", "")


def test_a_machine_without_rdma_has_none(tmp_path: Path) -> None:
    common = NODE.common._replace(rdma_mode="shared")
    assert rdma.find_port_device(PORT, common, tmp_path) is None
    assert rdma.find_moved_port_device(PORT, common, tmp_path) is None
    assert rdma.find_vf_device(PORT, 0, common, tmp_path) is None


@pytest.mark.parametrize(
    ("pod_mode", "rdma_mode", "expected"),
    [
        ("macvlan", "shared", ("/dev/infiniband/uverbs7",)),
        ("macvlan", "exclusive", ()),
        ("sriov", "shared", ()),
        ("move", "exclusive", ()),
    ],
)
def test_only_device_files_that_pods_share_are_known_before_their_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pod_mode: str, rdma_mode: str, expected: tuple[str, ...]
) -> None:
    monkeypatch.setattr(rdma, "RDMA_CM", tmp_path / "rdma_cm")
    Sysfs(tmp_path).port("rail2", rdma="mlx5_2")
    for name, device in (("uverbs0", "mlx5_0"), ("uverbs7", "mlx5_2")):
        folder = tmp_path / "class/infiniband_verbs" / name
        folder.mkdir(parents=True)
        (folder / "ibdev").write_text(f"{device}\n")
    common = NODE.common._replace(rdma_mode=rdma_mode, pod_mode=pod_mode)
    assert rdma.list_shared_device_files(PORT, common, tmp_path) == expected
    if expected:
        rdma.RDMA_CM.touch()
        assert rdma.list_shared_device_files(PORT, common, tmp_path) == (*expected, str(rdma.RDMA_CM))


def test_a_port_without_a_device_file_has_none_to_share(tmp_path: Path) -> None:
    common = NODE.common._replace(rdma_mode="shared", pod_mode="macvlan")
    assert rdma.list_shared_device_files(PORT, common, tmp_path) == ()
    Sysfs(tmp_path).port("rail2", rdma="mlx5_2")
    assert rdma.list_shared_device_files(PORT, common, tmp_path) == ()


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> RdmaKernel:
    kernel = RdmaKernel()
    monkeypatch.setattr(rdma, "Socket", kernel.open_socket)
    monkeypatch.setattr(netlink_rdma, "list_devices", RdmaSocket.list_devices)
    return kernel


@pytest.mark.needs("root")
def test_a_device_comes_home_with_its_name_although_the_pod_renamed_and_imitated_it(
    node: Node, kernel: RdmaKernel
) -> None:
    guid, pod = "b8ce:f6ff:fe00:0001", node.pod()
    with netns_fd(Path(OWN_NETNS)) as host, netns_fd(pod.path) as there:
        kernel.create("bnxt_re2", guid, read_inode(host), "rail2")
        port = PodPort(
            2,
            "rail2",
            "",
            9000,
            rdma=Rdma("bnxt_re2", "moves", guid),
            host=HostPort("rail2", 7, 9000, up=True, conf={}),
        )
        ports = rdma.note_indexes((port,))
        rdma.move_devices_into_pod(ports, there)
        real = kernel.devices[0]
        assert real.netns == read_inode(there)
        kernel.rename(real, "gone")
        kernel.devices[-1] = Device(-1, "bnxt_re2", guid, read_inode(there))  # rxe on a veth with the port's MAC
        kernel.devices = dict(sorted(kernel.devices.items()))
        rdma.move_devices_to_host(ports, there, host)
        del kernel.devices[-1]
        rdma.restore_names(ports)
        assert (real.name, real.netns) == ("bnxt_re2", read_inode(host))
