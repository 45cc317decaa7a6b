"""Which RDMA device a rail of a pod has, and how it gets there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.node.rails.node import planned
from tests.node.rails.sysfs import Sysfs
from trackbed.node.rails import rdma
from trackbed.node.rails.attachment import Rdma

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


def test_a_machine_without_rdma_has_none(tmp_path: Path) -> None:
    common = NODE.common._replace(rdma_mode="shared")
    assert rdma.find_port_device(PORT, common, tmp_path) is None
    assert rdma.find_moved_port_device(PORT, common, tmp_path) is None
    assert rdma.find_vf_device(PORT, 0, common, tmp_path) is None
