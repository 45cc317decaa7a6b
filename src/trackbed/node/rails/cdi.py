"""CDI specifications: the device files and environment variables of a pod's containers.

The Container Device Interface (CNCF, cdi/SPEC.md 0.6.0) is read when a container is created, after its pod's network.
So Allocate can name devices whose files are not known yet; the specification is written once they are known.

    trackbed.dev/rail=rail3-2     the kubelet's device rail3-2: /dev/infiniband/uverbsN, its rail's variables
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
from trackbed.cluster.stacks.nccl import hca_variables
from trackbed.host.atomic import replace
from trackbed.kernel.netlink.rdma import VerbsDevice
from trackbed.node.rails.attachment import Attachment, Key, PodPort

_log = logging.getLogger(__name__)

KIND = "trackbed.dev/rail"
_VERSION = "0.6.0"
_PREFIX = "trackbed.dev-rail-"
_DEVICES = "/dev/infiniband"
_READ_WRITE = 0o666
"""Programs of every user open these files; the kernel and the container's device list control access."""


def qualify_name(device: str) -> str:
    """Return the fully qualified CDI name of a kubelet device, for the Allocate response."""
    return f"{KIND}={device}"


def write_specification(folder: Path, attachment: Attachment, verbs: Mapping[str, VerbsDevice], manager: Path) -> None:
    """Write or replace the specification of an attachment. Raises OSError.

    `verbs` are the verbs devices by RDMA device name; `manager` is the path of the RDMA CM's device file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.encode(build_specification(attachment, verbs, cm=manager.exists()))
    replace(_build_path(folder, attachment.key), content, 0o644)


def remove_specification(folder: Path, key: Key) -> None:
    """Remove the specification of an attachment if it exists. Raises OSError."""
    _build_path(folder, key).unlink(missing_ok=True)


def remove_stale(folder: Path, keys: Collection[Key]) -> None:
    """Remove all specifications except those of the attachments with these keys."""
    current = {_build_path(folder, key) for key in keys}
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name.startswith(_PREFIX) and path not in current:
                path.unlink(missing_ok=True)
                _log.warning("removed %s, which belongs to no recorded pod", path)


def build_specification(attachment: Attachment, verbs: Mapping[str, VerbsDevice], *, cm: bool) -> dict[str, Any]:
    """Return the specification as a JSON document; `cm` adds the device file of the RDMA CM."""
    nodes = [{"path": f"{_DEVICES}/rdma_cm", "fileMode": _READ_WRITE}] if cm and verbs else []
    common = {
        "env": [f"{key}={value}" for key, value in _list_variables(attachment, verbs).items()],
        "deviceNodes": nodes,
    }
    return {
        "cdiVersion": _VERSION,
        "kind": KIND,
        "containerEdits": {field: value for field, value in common.items() if value},
        "devices": [_build_device(port, verbs) for port in attachment.ports if port.device],
    }


def _build_device(port: PodPort, verbs: Mapping[str, VerbsDevice]) -> dict[str, Any]:
    device = port.rdma.name if port.rdma and port.rdma.name in verbs else ""
    env = [f"TRACKBED_RAIL{port.rail}_NETDEV={port.name}", f"TRACKBED_RAIL{port.rail}_RDMA={device}"]
    nodes = {"deviceNodes": [_build_node(verbs[device])]} if device else {}
    return {"name": port.device, "containerEdits": {"env": env, **nodes}}


def _build_node(verbs: VerbsDevice) -> dict[str, Any]:
    number = {"type": "c", "major": verbs.major, "minor": verbs.minor}
    return {"path": f"{_DEVICES}/{verbs.name}", **number, "fileMode": _READ_WRITE, "permissions": "rw"}


def _list_variables(attachment: Attachment, verbs: Mapping[str, VerbsDevice]) -> dict[str, str]:
    """Return the lists over all rails. A list without one of the rails would hide a fault, so it is left out."""
    hcas = [Hca(port.rdma.name, 1, port.rail) for port in attachment.ports if port.rdma and port.rdma.name in verbs]
    return hca_variables(hcas) if len(hcas) == len(attachment.ports) else {}


def _build_path(folder: Path, key: Key) -> Path:
    """Return the path of an attachment's file; hashing makes it unique and valid for any container id."""
    return folder / f"{_PREFIX}{hashlib.sha256('/'.join(key).encode()).hexdigest()[:32]}.json"
