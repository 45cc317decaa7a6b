"""The traffic class of RDMA packets from pods: of OFED's driver, and of connections by rdma_cm.

    .../infiniband/DEVICE/tc/1/traffic_class             in sysfs (DOCA-OFED), for all queue pairs of a device
    rdma_cm/DEVICE/ports/PORT/default_roce_tos           in configfs, for connections by rdma_cm

A new VF has neither. The first stays with the device. The second is lost with each move to another namespace, because
rdma_cm then sees a new device (cma_add_one, drivers/infiniband/core/cma.c); it is set after the move. A folder of a
device in configfs shows its values and can be removed again, while the values stay (cma_configfs.c).

A failure is only logged: a pod with the wrong traffic class runs, and `trackbed doctor` reports it.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

from trackbed.node.rails import hardware
from trackbed.node.rails.attachment import PORT_ITSELF, PodPort

_log = logging.getLogger(__name__)

_HOST_SYSFS = Path("/host/sys")
"""The host's sysfs in a container, whose own one is read-only and has no configfs."""


def find_writable_sysfs() -> Path:
    """Return the sysfs of the host, with configfs below it."""
    return _HOST_SYSFS if _HOST_SYSFS.is_dir() else hardware.SYSFS


def set_device_class(ports: Iterable[PodPort], traffic_class: int, sysfs: Path) -> None:
    """Write the traffic class of the hardware devices of ports and VFs that are on the host, before they move."""
    for port in ports:
        if port.host is None:
            continue
        is_port = port.host.vf == PORT_ITSELF
        netdev = port.host.name if is_port else port.host.pf
        folder = hardware.locate_port(netdev, sysfs) if is_port else hardware.locate_vf(netdev, port.host.vf, sysfs)
        for file in folder.glob("infiniband/*/tc/1/traffic_class"):
            _write(file, traffic_class)


def set_connection_class(ports: Iterable[PodPort], traffic_class: int, sysfs: Path) -> None:
    """Write the traffic class of rdma_cm for the devices of ports, after they have moved."""
    base = sysfs / "kernel/config/rdma_cm"
    names = [port.rdma.name for port in ports if port.rdma] if base.is_dir() else []
    for folder in (base / name for name in names):
        is_new = not folder.is_dir()
        try:
            folder.mkdir(exist_ok=True)
            for file in folder.glob("ports/*/default_roce_tos"):
                _write(file, traffic_class)
            if is_new:
                folder.rmdir()
        except OSError as error:
            _log.warning("the traffic class of rdma_cm's connections over %s is not set: %s", folder.name, error)


def read_connection_class(name: str, sysfs: Path) -> int | None:
    """Return the traffic class of rdma_cm for an RDMA device on the host; None if rdma_cm does not know the device."""
    folder = sysfs / "kernel/config/rdma_cm" / name
    if not folder.parent.is_dir():
        return None
    is_new = not folder.is_dir()
    try:
        folder.mkdir(exist_ok=True)
        try:
            return int((folder / "ports/1/default_roce_tos").read_text(encoding="ascii"))
        finally:
            if is_new:
                folder.rmdir()
    except (OSError, ValueError):
        return None


def restore_connection_classes(ports: Iterable[PodPort], sysfs: Path) -> None:
    """Write the recorded traffic classes of rdma_cm for the devices of ports that have returned to the host."""
    for port in ports:
        if port.host and port.host.connection_class is not None:
            set_connection_class([port], port.host.connection_class, sysfs)


def _write(file: Path, traffic_class: int) -> None:
    try:
        file.write_text(f"{traffic_class}\n", encoding="ascii")
    except OSError as error:
        _log.warning("%s cannot be set to %d: %s", file, traffic_class, error)
