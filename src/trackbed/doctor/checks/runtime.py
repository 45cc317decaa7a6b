"""Step runtime: containers get their network, devices and locked memory from containerd.

Its configuration is read as its files have it (/etc/containerd/config.toml and what it imports from conf.d); a host on
which no containerd runs is not judged.
"""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import yaml

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.kubelet_config import READS as KUBELET
from trackbed.doctor.checks.kubelet_config import read_kubelet
from trackbed.doctor.checks.limits_processes import READS as PROCESSES
from trackbed.doctor.checks.limits_processes import UNLIMITED, find_processes
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_CONFIG, _MORE = "/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml"
_CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
"""The plugin that kubelet talks to: of containerd 2, of 1.7."""
_NRI = "io.containerd.nri.v1.nri"
_NETWORKS = ("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d")
_NETWORK_FILES = (".conf", ".conflist", ".json")
_SPECS = ("/etc/cdi", "/var/run/cdi")
_SOCKETS, _PLUGINS, _TOOLKIT = "/var/run/nri", "/var/lib/kubelet/plugins", "/run/nvidia/validations"
_DRIVER_FROM_CRI = (1, 34)
"""From this version on kubelet asks the runtime for the cgroup driver."""

READS = (
    Wanted(
        files=(_CONFIG, _MORE, *(f"{folder}/*" for folder in _SPECS)),
        folders=(*_NETWORKS, *_SPECS, _SOCKETS, _PLUGINS, _TOOLKIT),
    )
    | PROCESSES
    | KUBELET
)


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the containerd that runs here."""
    host = view.host
    found = find_processes(host, "containerd") if host is not None else []
    if host is None or not found:
        return
    limits = [limit for one in found if (limit := one.limits.get("Max locked memory")) is not None]
    if limits:
        less = [limit for limit in limits if limit != UNLIMITED]
        evidence = f"containerd may lock {less[0]} bytes" if less else ""
        yield judge("runtime-memlock-low", view.node, None, ok=not less, evidence=evidence)
    config = _config(host)
    yield from _network(view, host, config)
    yield from _devices(view, host, config)
    yield from _handlers(view, host, config)


def _config(host: Snapshot) -> dict[str, Any]:
    """The CRI plugin's part, and under `nri` that of NRI; empty where nothing is configured."""
    cri: dict[str, Any] = {}
    for path in (_CONFIG, *host.glob(_MORE)):
        try:
            plugins = tomllib.loads(host.text(path) or "").get("plugins", {})
        except tomllib.TOMLDecodeError:
            continue
        for name in _CRI:
            cri = _merged(cri, plugins.get(name, {}))
        cri = _merged(cri, {"nri": plugins.get(_NRI, {})})
    return cri


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(old[key], new[key]) for key in old if isinstance(old[key], dict) and isinstance(new.get(key), dict)
    }
    return {**old, **new, **both}


def _network(view: NodeView, host: Snapshot, config: dict[str, Any]) -> Iterator[Finding]:
    folder = config.get("cni", {}).get("conf_dir", _NETWORKS[0])
    if folder in _NETWORKS:
        names = host.folders.get(folder, ())
        ok = any(name.endswith(_NETWORK_FILES) for name in names)
        evidence = f"{folder} has {', '.join(names[:5]) or 'no files'}"
        yield judge("runtime-cni-not-initialized", view.node, None, ok=ok, evidence=evidence)
    if "dra.net" in host.folders.get(_PLUGINS, ()):
        off = bool(config["nri"].get("disable"))
        ok = not off and "nri.sock" in host.folders.get(_SOCKETS, ())
        evidence = "NRI is disabled in containerd's configuration" if off else f"nri.sock in {_SOCKETS}: {ok}"
        yield judge("runtime-nri-disabled", view.node, None, ok=ok, evidence=evidence)


def _devices(view: NodeView, host: Snapshot, config: dict[str, Any]) -> Iterator[Finding]:
    """Where nobody has written a CDI specification, nobody needs CDI."""
    specs = [path for folder in _SPECS for path in host.glob(f"{folder}/*") if path.endswith((".json", ".yaml"))]
    if not specs:
        return
    folders = config.get("cdi_spec_dirs", list(_SPECS))
    unread = [path for path in specs if path.rpartition("/")[0].replace("/var/run", "/run") not in _plain(folders)]
    off = config.get("enable_cdi") is False
    evidence = "enable_cdi is false" if off else f"not read: {', '.join(unread)}" if unread else ""
    yield judge("runtime-cdi-disabled", view.node, None, ok=not evidence, evidence=evidence)
    wrong = list(_unresolved(host, specs))
    yield judge("runtime-cdi-spec-missing", view.node, None, ok=not wrong, evidence="; ".join(wrong[:3]))


def _plain(folders: list[str]) -> set[str]:
    return {folder.rstrip("/").replace("/var/run", "/run") for folder in folders}


def _unresolved(host: Snapshot, specs: list[str]) -> Iterator[str]:
    """Devices that no name leads to: their file says none, or another file of the same folder has the name too."""
    seen: dict[tuple[str, str], str] = {}
    for path in specs:
        names = _names(path, host.text(path) or "")
        if not names:
            yield f"{path} names no device"
        for name in names:
            other = seen.setdefault((path.rpartition("/")[0], name), path)
            if other != path:
                yield f"{name} is in {other} and in {path}"


def _names(path: str, text: str) -> list[str]:
    """The devices of a specification, as KIND=NAME (Container Device Interface)."""
    try:
        spec = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return []
    devices = spec.get("devices") if isinstance(spec, dict) else None
    found = [one.get("name") for one in devices if isinstance(one, dict)] if isinstance(devices, list) else []
    return [f"{spec['kind']}={name}" for name in found if name] if isinstance(spec, dict) and "kind" in spec else []


def _handlers(view: NodeView, host: Snapshot, config: dict[str, Any]) -> Iterator[Finding]:
    runtimes = config.get("containerd", {}).get("runtimes", {})
    if "toolkit-ready" in host.folders.get(_TOOLKIT, ()):
        injected = bool(config.get("enable_cdi")) and any(host.glob(f"{folder}/nvidia*") for folder in _SPECS)
        ok = "nvidia" in runtimes or injected
        evidence = f"handlers: {', '.join(sorted(runtimes)) or 'none'}"
        yield judge("runtime-nvidia-handler-missing", view.node, None, ok=ok, evidence=evidence)
    told = read_kubelet(host)
    wanted = told.config.get("cgroupDriver") if told and told.version < _DRIVER_FROM_CRI else None
    options = runtimes.get("runc", {}).get("options", {})
    if wanted and "SystemdCgroup" in options:
        have = "systemd" if options["SystemdCgroup"] else "cgroupfs"
        evidence = f"containerd: {have}, kubelet: {wanted}"
        yield judge("runtime-cgroup-driver-mismatch", view.node, None, ok=have == wanted, evidence=evidence)
