"""The configuration of kubelet, from its files and arguments."""

import re
from typing import Any, NamedTuple

import yaml

from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps.kubelet import CONFIG, FOLDER

PS = ("ps", "-C", "kubelet", "-o", "args=")
VERSION = ("kubelet", "--version")
_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
_FLAG = re.compile(r"--([a-z0-9-]+)[= ]([^\s\"']+)")

READS = Wanted(files=(CONFIG, f"{FOLDER}/*.conf", _FLAGS), commands=(PS, VERSION))


class KubeletInfo(NamedTuple):
    """Kubelet's configuration with its drop-ins merged, its flags, and its version; (0, 0) where it is unknown."""

    config: dict[str, Any]
    flags: dict[str, str]
    is_running: bool
    version: tuple[int, int]


def read_kubelet(host: Snapshot) -> KubeletInfo | None:
    """Return kubelet's configuration; None where the host has none or it cannot be read."""
    config = _parse_mapping(host.read_text(CONFIG))
    if config is None:
        return None
    arguments = host.get_output(*PS) or ""
    flags = dict(_FLAG.findall(f"{host.read_text(_FLAGS) or ''} {arguments}"))
    if not arguments or "config-dir" in flags:
        for path in host.glob(f"{FOLDER}/*.conf"):
            config |= _parse_mapping(host.read_text(path)) or {}
    version = re.search(r"v(\d+)\.(\d+)", host.get_output(*VERSION) or "")
    return KubeletInfo(config, flags, bool(arguments), (int(version[1]), int(version[2])) if version else (0, 0))


def _parse_mapping(text: str | None) -> dict[str, Any] | None:
    try:
        document = yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return None
    return document if isinstance(document, dict) else None
