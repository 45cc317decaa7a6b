"""The configuration of kubelet, as its files and arguments describe it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.steps.kubelet import CONFIG, FOLDER

if TYPE_CHECKING:
    from trackbed.host.snapshot.snapshot import Snapshot

PS = ("ps", "-C", "kubelet", "-o", "args=")
VERSION = ("kubelet", "--version")
_FLAGS = "/var/lib/kubelet/kubeadm-flags.env"
_FLAG = re.compile(r"--([a-z0-9-]+)[= ]([^\s\"']+)")

READS = Wanted(files=(CONFIG, f"{FOLDER}/*.conf", _FLAGS), commands=(PS, VERSION))


class KubeletInfo(NamedTuple):
    """Its configuration as it is put together, its flags, whether it runs, and its version (0, 0 where not known)."""

    config: dict[str, Any]
    flags: dict[str, str]
    is_running: bool
    version: tuple[int, int]


def read_kubelet(host: Snapshot) -> KubeletInfo | None:
    """None where the host has no configuration of kubelet, or nobody can read it."""
    base = _document(host.text(CONFIG))
    if base is None:
        return None
    ran = host.said(*PS) or ""
    flags = dict(_FLAG.findall(f"{host.text(_FLAGS) or ''} {ran}"))
    if not ran or "config-dir" in flags:
        for path in host.glob(f"{FOLDER}/*.conf"):
            base |= _document(host.text(path)) or {}
    found = re.search(r"v(\d+)\.(\d+)", host.said(*VERSION) or "")
    return KubeletInfo(base, flags, bool(ran), (int(found[1]), int(found[2])) if found else (0, 0))


def _document(text: str | None) -> dict[str, Any] | None:
    try:
        found = yaml.safe_load(text) if text else None
    except yaml.YAMLError:
        return None
    return found if isinstance(found, dict) else None
