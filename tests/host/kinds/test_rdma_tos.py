import errno
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.host.kernel import RdmaCore, speak_to
from tests.host.places import Host
from tests.host.steps.fabrics import P2P, node_plan
from tests.host.trees import nic
from trackbed.host.change import Skipped
from trackbed.host.kinds import rdma_name, rdma_tos
from trackbed.host.setting import Setting
from trackbed.host.steps import iter_settings
from trackbed.host.transaction.apply import apply, undo
from trackbed.host.transaction.compare import compare

FILE = "ports/1/default_roce_tos"


def wanted(*, renamed: bool = False) -> tuple[Setting, ...]:
    node = node_plan(P2P, '[{pci: "0000:18:00.0", netdev: eth0}, {netdev: eth1}]', spec="  names: {netdev: keep}\n")
    kinds = rdma_tos.Want | rdma_name.Want if renamed else rdma_tos.Want
    return tuple(setting for setting in iter_settings(node, {"rdma", "qos"}) if isinstance(setting.want, kinds))


@dataclass
class ConfigFs:
    """rdma_cm's part of configfs: a folder shows a device that is there, and what it hides stays with the device."""

    base: Path
    kept: dict[str, str] = field(default_factory=dict)


def mounted(files: ConfigFs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let folders below the base come and go as in configfs."""
    mkdir, rmdir = Path.mkdir, Path.rmdir

    def made(place: Path, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        new = place.parent == files.base and not place.is_dir()
        if new and not (files.base.parents[2] / "class/infiniband" / place.name).exists():
            raise OSError(errno.ENODEV, "No such device")
        mkdir(place, mode, parents, exist_ok)
        if new:
            mkdir(place / "ports/1", parents=True)
            (place / FILE).write_text(files.kept.get(place.name, "0") + "\n")

    def gone(place: Path) -> None:
        if place.parent != files.base:
            rmdir(place)
            return
        files.kept[place.name] = (place / FILE).read_text().strip()
        for folder in (place / FILE).parents:
            (place / FILE).unlink(missing_ok=True)
            rmdir(folder)
            if folder == place:
                break

    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(Path, "rmdir", gone)


@pytest.fixture
def host(place: Host, monkeypatch: pytest.MonkeyPatch) -> tuple[Host, ConfigFs]:
    """Port eth0 has an RDMA device, eth1 has none; nobody has made a folder yet."""
    nic(place.machine.root, "eth0", "0000:18:00.0", rdma="mlx5_0")
    base = place.machine.locate(rdma_tos.BASE)
    base.mkdir(parents=True)
    speak_to(RdmaCore(place.machine.root), monkeypatch)
    files = ConfigFs(base)
    mounted(files, monkeypatch)
    return place, files


def test_the_traffic_class_is_set_once_and_undone(host: tuple[Host, ConfigFs]) -> None:
    place, files = host
    (change,) = compare(place.machine, wanted()).changes
    assert (change.subject, change.have, change.want) == ("rdma_cm's traffic class of eth0", "-", "106")
    assert not list(files.base.glob("*"))
    apply(place.machine, wanted(), place.records)
    assert (files.base / "mlx5_0" / FILE).read_text() == "106"
    assert compare(place.machine, wanted()).changes == ()
    assert undo(place.machine, place.records) == ()
    assert not list(files.base.glob("*"))
    assert files.kept == {"mlx5_0": "0"}


def test_a_folder_that_was_there_stays_with_its_value(host: tuple[Host, ConfigFs]) -> None:
    place, files = host
    (files.base / "mlx5_0").mkdir()
    (files.base / "mlx5_0" / FILE).write_text("32\n")
    apply(place.machine, wanted(), place.records)
    assert undo(place.machine, place.records) == ()
    assert (files.base / "mlx5_0" / FILE).read_text() == "32"


def test_it_is_set_under_the_devices_new_name_and_undone_under_the_old(host: tuple[Host, ConfigFs]) -> None:
    place, files = host
    files.kept["mlx5_0"] = "8"
    apply(place.machine, wanted(renamed=True), place.records)
    assert [path.name for path in files.base.glob("*")] == ["rail0"]
    assert (files.base / "rail0" / FILE).read_text() == "106"
    assert undo(place.machine, place.records) == ()
    assert not list(files.base.glob("*"))
    assert files.kept["mlx5_0"] == "8"


@pytest.mark.parametrize(
    ("gone", "reason"),
    [
        pytest.param("sys/kernel/config", "rdma_cm is not in configfs", id="no rdma_cm"),
        pytest.param("sys/class/net/eth0/device/infiniband", "this port has no RDMA device", id="no RDMA"),
    ],
)
def test_what_is_not_there_is_skipped(host: tuple[Host, ConfigFs], gone: str, reason: str) -> None:
    place, _ = host
    shutil.rmtree(place.machine.root / gone)
    comparison = compare(place.machine, wanted())
    assert comparison.changes == ()
    first = comparison.skipped[0]
    assert isinstance(first, Skipped)
    assert reason in first.reason


def test_undo_tells_of_a_device_that_is_gone(host: tuple[Host, ConfigFs]) -> None:
    place, files = host
    apply(place.machine, wanted(), place.records)
    shutil.rmtree(files.base / "mlx5_0")
    shutil.rmtree(place.machine.root / "sys/class/infiniband/mlx5_0")
    assert undo(place.machine, place.records) == ("rdma_cm's traffic class of mlx5_0: No such device",)
