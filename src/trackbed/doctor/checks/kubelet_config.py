"""Kubelet's configuration, from its files and arguments."""

import re
from typing import Any, NamedTuple

from trackbed.doctor.host_yaml import parse_host_yaml
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps.kubelet import CONFIG, FOLDER

PS_COMMAND = ("ps", "-C", "kubelet", "-o", "args=")
VERSION_COMMAND = ("kubelet", "--version")
_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
_FLAG = re.compile(r"(?<![a-z0-9-])--([a-z0-9][a-z0-9-]*)[= ]([^\s\"']+)")

READS = Wanted(files=(CONFIG, f"{FOLDER}/*.conf", _FLAGS), commands=(PS_COMMAND, VERSION_COMMAND))


class KubeletInfo(NamedTuple):
    """Kubelet's configuration, with its drop-ins merged, and its flags; `version` is (0, 0) if unknown."""

    config: dict[str, Any]
    flags: dict[str, str]
    is_running: bool
    version: tuple[int, int]


def read_kubelet_info(host: Snapshot) -> KubeletInfo | None:
    """Return kubelet's configuration; None if it is absent or cannot be read."""
    config = _parse_mapping(host.read_text(CONFIG))
    if config is None:
        return None
    processes = host.get_outcome(*PS_COMMAND)  # its status is 1 if no process is called kubelet (ps(1))
    arguments = processes.output if isinstance(processes, ProgramResult) and processes.status == 0 else ""
    flags = dict(_FLAG.findall(f"{host.read_text(_FLAGS) or ''} {arguments}"))
    if not arguments or "config-dir" in flags:
        for path in host.glob(f"{FOLDER}/*.conf"):
            config |= _parse_mapping(host.read_text(path)) or {}
    version = re.search(r"v(\d{1,9})\.(\d{1,9})", host.get_output(*VERSION_COMMAND) or "")
    return KubeletInfo(config, flags, bool(arguments), (int(version[1]), int(version[2])) if version else (0, 0))


def _parse_mapping(text: str | None) -> dict[str, Any] | None:
    """Parse a YAML mapping; None if the text is absent or malformed."""
    document = parse_host_yaml(text)
    return document if isinstance(document, dict) else None
