"""CDI specifications: the device files and environment variables of a pod's containers.

The Container Device Interface (CNCF, cdi/SPEC.md 0.6.0) is read when a container is created, after its pod's network.
Allocate can therefore name devices whose files are not known yet; the specification is written once they are known.

    trackbed.dev/rail=rail3-2     the kubelet's device rail3-2: /dev/infiniband/uverbsN and its rail's variables
    in every device's edits       /dev/infiniband/rdma_cm, and the lists over all rails that NCCL and UCX read

There is one file for each attachment, for as long as the attachment exists. Two files with the same device would make
the device unusable, hence the agent removes stale files when it starts.
"""

import hashlib
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from trackbed.cluster.stacks.access import Hca
from trackbed.cluster.stacks.nccl import build_hca_variables
from trackbed.host.atomic import replace
from trackbed.kernel.netlink.rdma import VerbsDevice
from trackbed.node.rails.attachment import Attachment, Key, PodPort

_log = logging.getLogger(__name__)

KIND = "trackbed.dev/rail"
_VERSION = "0.6.0"
_PREFIX = "trackbed.dev-rail-"
_DEVICES = "/dev/infiniband"
_READ_WRITE = 0o666
"""File mode of the device files. The kernel and the container's device list control access, not the mode."""


def qualify_name(device: str) -> str:
    """Return the fully qualified CDI name of a kubelet device, for the Allocate response."""
    return f"{KIND}={device}"


def write_specification(
    cdi_folder: Path, attachment: Attachment, verbs_devices: Mapping[str, VerbsDevice], rdma_cm: Path
) -> None:
    """Write or replace the CDI specification of an attachment. Raises OSError.

    `verbs_devices` are those of the pod by RDMA device name; `rdma_cm` is the path of the RDMA CM's device file.
    """
    cdi_folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.encode(build_specification(attachment, verbs_devices, with_rdma_cm=rdma_cm.exists()))
    replace(_build_specification_path(cdi_folder, attachment.key), content, 0o644)


def remove_specification(cdi_folder: Path, key: Key) -> None:
    """Remove the CDI specification of an attachment if it exists. Raises OSError."""
    _build_specification_path(cdi_folder, key).unlink(missing_ok=True)


def remove_stale_specifications(cdi_folder: Path, keys: Collection[Key]) -> None:
    """Remove all CDI specifications except those of the attachments with these keys."""
    current = {_build_specification_path(cdi_folder, key) for key in keys}
    with suppress(FileNotFoundError):
        for path in cdi_folder.iterdir():
            if path.name.startswith(_PREFIX) and path not in current:
                path.unlink(missing_ok=True)
                _log.warning("removed %s, which belongs to no recorded pod", path)


def build_specification(
    attachment: Attachment, verbs_devices: Mapping[str, VerbsDevice], *, with_rdma_cm: bool
) -> dict[str, Any]:
    """Return the CDI specification of an attachment; `with_rdma_cm` adds the device file of the RDMA CM."""
    common = {
        "env": [f"{key}={value}" for key, value in _build_hca_lists(attachment, verbs_devices).items()],
        "deviceNodes": [{"path": f"{_DEVICES}/rdma_cm", "fileMode": _READ_WRITE}]
        if with_rdma_cm and verbs_devices
        else [],
    }
    return {
        "cdiVersion": _VERSION,
        "kind": KIND,
        "containerEdits": {field: value for field, value in common.items() if value},
        "devices": [_build_device(port, verbs_devices) for port in attachment.ports if port.device],
    }


def _build_device(port: PodPort, verbs_devices: Mapping[str, VerbsDevice]) -> dict[str, Any]:
    device = port.rdma.name if port.rdma and port.rdma.name in verbs_devices else ""
    env = [f"TRACKBED_RAIL{port.rail}_NETDEV={port.name}", f"TRACKBED_RAIL{port.rail}_RDMA={device}"]
    nodes = {"deviceNodes": [_build_device_node(verbs_devices[device])]} if device else {}
    return {"name": port.device, "containerEdits": {"env": env, **nodes}}


def _build_device_node(verbs_device: VerbsDevice) -> dict[str, Any]:
    number = {"type": "c", "major": verbs_device.major, "minor": verbs_device.minor}
    return {"path": f"{_DEVICES}/{verbs_device.name}", **number, "fileMode": _READ_WRITE, "permissions": "rw"}


def _build_hca_lists(attachment: Attachment, verbs_devices: Mapping[str, VerbsDevice]) -> dict[str, str]:
    """Return the environment variables that list the HCAs of all rails.

    Empty if a rail lacks its HCA, because an incomplete list would hide a fault.
    """
    hcas = [
        Hca(port.rdma.name, 1, port.rail) for port in attachment.ports if port.rdma and port.rdma.name in verbs_devices
    ]
    return build_hca_variables(hcas) if len(hcas) == len(attachment.ports) else {}


def _build_specification_path(cdi_folder: Path, key: Key) -> Path:
    """Return the path of an attachment's specification; the hash makes it unique and valid for any container id."""
    return cdi_folder / f"{_PREFIX}{hashlib.sha256('/'.join(key).encode()).hexdigest()[:32]}.json"
