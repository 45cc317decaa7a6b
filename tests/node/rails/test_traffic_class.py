"""RDMA's traffic class of what goes into a pod: before the move in sysfs, after it in rdma_cm's part of configfs."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.node.rails.sysfs import Sysfs
from trackbed.node.rails import hardware, traffic_class
from trackbed.node.rails.attachment import PORT_ITSELF, HostPort, PodPort, Rdma

TOS = "ports/1/default_roce_tos"


def build_port(vf: int, name: str = "mlx5_9") -> PodPort:
    host = HostPort("rail2" if vf == PORT_ITSELF else "ens3v1", 7, 9000, True, {}, vf=vf, pf="rail2")  # noqa: FBT003 - a field
    return PodPort(2, "rail2", "02:00:00:00:00:01", 9000, host=host, rdma=Rdma(name, "moves"))


@pytest.mark.parametrize("vf", [PORT_ITSELF, 1], ids=["port", "VF"])
def test_ofeds_driver_gets_the_class_by_the_functions_place_whatever_the_devices_name(tmp_path: Path, vf: int) -> None:
    sysfs = Sysfs(tmp_path)
    device = sysfs.port("rail2", rdma="any") if vf == PORT_ITSELF else sysfs.vf("rail2", vf, rdma="any")
    file = device / "infiniband/any/tc/1/traffic_class"
    file.parent.mkdir(parents=True)
    file.write_text("Global tclass=0\n")
    traffic_class.set_device_class([build_port(vf)], 106, tmp_path)
    assert file.read_text() == "106\n"


def test_a_driver_without_the_file_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Sysfs(tmp_path).vf("rail2", 1, rdma="any")
    traffic_class.set_device_class([build_port(1)], 106, tmp_path)
    assert caplog.text == ""


@pytest.mark.parametrize("was_there", [False, True], ids=["new folder", "folder of the host's"])
def test_connections_get_the_class_and_no_new_folder_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, was_there: bool
) -> None:
    base, kept = tmp_path / "kernel/config/rdma_cm", {}
    base.mkdir(parents=True)
    mkdir, rmdir = Path.mkdir, Path.rmdir

    def show(place: Path, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
        mkdir(place, mode, parents, exist_ok)
        if place.parent == base and not (place / "ports").exists():
            mkdir(place / "ports/1", parents=True)
            (place / TOS).write_text("0\n")

    def hide(place: Path) -> None:
        kept[place.name] = (place / TOS).read_text()
        (place / TOS).unlink()
        for folder in (place / "ports/1", place / "ports", place):
            rmdir(folder)

    monkeypatch.setattr(Path, "mkdir", show)
    monkeypatch.setattr(Path, "rmdir", hide)
    if was_there:
        (base / "mlx5_9").mkdir()
    traffic_class.set_connection_class([build_port(1)], 106, tmp_path)
    now = (base / "mlx5_9" / TOS).read_text() if was_there else kept["mlx5_9"]
    assert (now, (base / "mlx5_9").is_dir()) == ("106\n", was_there)


def test_a_device_that_rdma_cm_does_not_know_is_logged_and_the_pod_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kernel/config/rdma_cm").mkdir(parents=True)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENODEV, "No such device")

    monkeypatch.setattr(Path, "mkdir", refuse)
    traffic_class.set_connection_class([build_port(1)], 106, tmp_path)
    assert "rdma_cm's connections over mlx5_9 is not set" in caplog.text


def test_without_rdma_cm_in_configfs_nothing_is_done(tmp_path: Path) -> None:
    traffic_class.set_connection_class([build_port(1)], 106, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_in_a_container_the_hosts_sysfs_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert traffic_class.find_writable_sysfs() == hardware.SYSFS
    monkeypatch.setattr(traffic_class, "_HOST_SYSFS", tmp_path)
    assert traffic_class.find_writable_sysfs() == tmp_path


def test_the_class_of_a_port_comes_back_with_it(tmp_path: Path) -> None:
    file = tmp_path / "kernel/config/rdma_cm/mlx5_9" / TOS
    file.parent.mkdir(parents=True)
    file.write_text("106\n")
    tos = traffic_class.read_connection_class("mlx5_9", tmp_path)
    state = HostPort("rail2", 7, 9000, up=True, conf={}, connection_class=tos)
    file.write_text("0\n")  # cma_add_one
    port = PodPort(2, "rail2", "02:00:00:00:00:01", 9000, host=state, rdma=Rdma("mlx5_9", "moves"))
    traffic_class.restore_connection_classes([port], tmp_path)
    assert file.read_text() == "106\n"


@pytest.mark.parametrize("content", [None, "unknown"])
def test_a_class_that_nobody_knows_is_not_restored(tmp_path: Path, content: str | None) -> None:
    assert traffic_class.read_connection_class("mlx5_9", tmp_path) is None
    file = tmp_path / "kernel/config/rdma_cm/mlx5_9" / TOS
    file.parent.mkdir(parents=True)
    if content is not None:
        file.write_text(content)
    assert traffic_class.read_connection_class("mlx5_9", tmp_path) is None
    traffic_class.restore_connection_classes([build_port(PORT_ITSELF)], tmp_path)
    assert not file.exists() or file.read_text() == content
