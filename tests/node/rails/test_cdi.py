"""What containers are given by CDI."""

from __future__ import annotations

import json
from pathlib import Path

from msgspec.structs import replace

from trackbed.kernel.netlink.rdma import VerbsDevice
from trackbed.node.rails import cdi
from trackbed.node.rails.attachment import Attachment, PodPort, Rdma

FILES = {"rail0v3": VerbsDevice("uverbs12", 231, 204), "rail1v0": VerbsDevice("uverbs9", 231, 201)}
PORTS = (
    PodPort(0, "rail0", "02:00:00:00:00:01", 9000, rdma=Rdma("rail0v3", "made"), device="rail0-3"),
    PodPort(1, "rail1", "02:00:00:00:00:02", 9000, rdma=Rdma("rail1v0", "made"), device="rail1-0"),
)
POD = Attachment("c0", "eth0", "rails", "sriov", "/netns/c0", 1, "boot", PORTS)


def test_a_pod_is_given_its_files_and_the_names_of_its_devices_with_their_rails() -> None:
    assert cdi.build_specification(POD, FILES, with_rdma_cm=True) == {
        "cdiVersion": "0.6.0",
        "kind": "trackbed.dev/rail",
        "containerEdits": {
            "env": ["NCCL_IB_HCA==rail0v3:1:0,rail1v0:1:1", "UCX_NET_DEVICES=rail0v3:1,rail1v0:1"],
            "deviceNodes": [{"path": "/dev/infiniband/rdma_cm", "fileMode": 0o666}],
        },
        "devices": [
            {"name": "rail0-3", "containerEdits": _edits(0, "rail0v3", "uverbs12", 204)},
            {"name": "rail1-0", "containerEdits": _edits(1, "rail1v0", "uverbs9", 201)},
        ],
    }


def _edits(rail: int, device: str, file: str, minor: int) -> dict[str, object]:
    number = {"type": "c", "major": 231, "minor": minor}
    return {
        "env": [f"TRACKBED_RAIL{rail}_NETDEV=rail{rail}", f"TRACKBED_RAIL{rail}_RDMA={device}"],
        "deviceNodes": [{"path": f"/dev/infiniband/{file}", **number, "fileMode": 0o666, "permissions": "rw"}],
    }


def test_where_a_rail_has_no_rdma_there_is_no_list_that_would_hide_it() -> None:
    document = cdi.build_specification(
        replace(POD, ports=(PORTS[0], replace(PORTS[1], rdma=None))), FILES, with_rdma_cm=True
    )
    assert "env" not in document["containerEdits"]
    assert document["devices"][1]["containerEdits"] == {"env": ["TRACKBED_RAIL1_NETDEV=rail1", "TRACKBED_RAIL1_RDMA="]}


def test_every_device_has_edits_even_where_nothing_has_rdma() -> None:
    document = cdi.build_specification(
        replace(POD, ports=tuple(replace(port, rdma=None) for port in PORTS)), {}, with_rdma_cm=True
    )
    assert document["containerEdits"] == {}
    assert all(device["containerEdits"] for device in document["devices"])


def test_a_specification_is_there_as_long_as_its_attachment(tmp_path: Path) -> None:
    folder = tmp_path / "run/cdi"
    cdi.write_specification(folder, POD, FILES, tmp_path / "no-rdma-cm")
    [path] = folder.iterdir()
    assert json.loads(path.read_bytes())["devices"][0]["name"] == "rail0-3"
    cdi.write_specification(folder, POD, FILES, tmp_path / "no-rdma-cm")
    assert list(folder.iterdir()) == [path]
    cdi.remove_specification(folder, POD.key)
    cdi.remove_specification(folder, POD.key)
    assert list(folder.iterdir()) == []


def test_what_pods_left_behind_is_removed_and_nothing_of_others(tmp_path: Path) -> None:
    other = tmp_path / "nvidia.yaml"
    other.touch()
    cdi.write_specification(tmp_path, POD, FILES, tmp_path)
    cdi.write_specification(tmp_path, replace(POD, container="c1"), FILES, tmp_path)
    cdi.remove_stale_specifications(tmp_path, {POD.key})
    assert len(list(tmp_path.iterdir())) == 2
    assert other.exists()
    cdi.remove_stale_specifications(tmp_path / "nowhere", ())
