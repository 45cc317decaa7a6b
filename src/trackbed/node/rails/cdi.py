"""What a pod's containers are given besides the network: device files and variables, as a CDI specification.

The Container Device Interface (CNCF, cdi/SPEC.md 0.6.0) is read when a container is made, after its pod's network: so
Allocate can name devices whose files nobody knows yet, and the specification is written once they are known.

    trackbed.dev/rail=rail3-2     what the kubelet's device rail3-2 brings: /dev/infiniband/uverbsN, its rail's names
    in all of a pod's             /dev/infiniband/rdma_cm, and the lists over all rails that NCCL and UCX read

One file for each attachment, there as long as the attachment is. Two files that tell of one device would make
it unusable, hence what is left over from pods that ended unseen is removed at start.
"""

from __future__ import annotations

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
from trackbed.node.rails.attachment import Attachment, Key, Port

_log = logging.getLogger(__name__)

KIND = "trackbed.dev/rail"
_VERSION = "0.6.0"
_PREFIX = "trackbed.dev-rail-"
_DEVICES = "/dev/infiniband"
_READ_WRITE = 0o666
"""Programs of every user open these files; the kernel and the container's device list say who may."""


def name(device: str) -> str:
    """What Allocate answers for a device of the kubelet."""
    return f"{KIND}={device}"


def write(folder: Path, attachment: Attachment, files: Mapping[str, VerbsDevice], manager: Path) -> None:
    """Write an attachment's specification, in place of any before. Raises OSError.

    `files` are the RDMA devices' own; `manager` is the RDMA CM's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    content = msgspec.json.encode(specification(attachment, files, cm=manager.exists()))
    replace(_path(folder, attachment.key), content, 0o644)


def remove(folder: Path, key: Key) -> None:
    """Remove an attachment's specification; fine if there is none. Raises OSError."""
    _path(folder, key).unlink(missing_ok=True)


def keep(folder: Path, keys: Collection[Key]) -> None:
    """Remove all specifications but those of these attachments."""
    kept = {_path(folder, key) for key in keys}
    with suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name.startswith(_PREFIX) and path not in kept:
                path.unlink(missing_ok=True)
                _log.warning("removed %s, which no pod is on record for", path)


def specification(attachment: Attachment, files: Mapping[str, VerbsDevice], *, cm: bool) -> dict[str, Any]:
    """The document."""
    nodes = [{"path": f"{_DEVICES}/rdma_cm", "fileMode": _READ_WRITE}] if cm and files else []
    common = {"env": [f"{key}={value}" for key, value in _variables(attachment, files).items()], "deviceNodes": nodes}
    return {
        "cdiVersion": _VERSION,
        "kind": KIND,
        "containerEdits": {field: value for field, value in common.items() if value},
        "devices": [_device(port, files) for port in attachment.ports if port.device],
    }


def _device(port: Port, files: Mapping[str, VerbsDevice]) -> dict[str, Any]:
    device = port.rdma.name if port.rdma and port.rdma.name in files else ""
    env = [f"TRACKBED_RAIL{port.rail}_NETDEV={port.name}", f"TRACKBED_RAIL{port.rail}_RDMA={device}"]
    nodes = [_node(files[device])] if device else []
    return {"name": port.device, "containerEdits": {"env": env, **({"deviceNodes": nodes} if nodes else {})}}


def _node(verbs: VerbsDevice) -> dict[str, Any]:
    number = {"type": "c", "major": verbs.major, "minor": verbs.minor}
    return {"path": f"{_DEVICES}/{verbs.name}", **number, "fileMode": _READ_WRITE, "permissions": "rw"}


def _variables(attachment: Attachment, files: Mapping[str, VerbsDevice]) -> dict[str, str]:
    """Lists over all rails; a list with a rail missing would hide that rail's trouble, so then there is none."""
    hcas = [Hca(port.rdma.name, 1, port.rail) for port in attachment.ports if port.rdma and port.rdma.name in files]
    return hca_variables(hcas) if len(hcas) == len(attachment.ports) else {}


def _path(folder: Path, key: Key) -> Path:
    """A name of its own for every attachment, whatever a runtime calls it."""
    return folder / f"{_PREFIX}{hashlib.sha256('/'.join(key).encode()).hexdigest()[:32]}.json"
