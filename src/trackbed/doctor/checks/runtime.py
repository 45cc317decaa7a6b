"""Step runtime: containers get their network, devices and locked memory from containerd.

The checks read /etc/containerd/config.toml and the files that it imports from conf.d. A host without a running
containerd is skipped.
"""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

import yaml

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.kubelet_config import READS as KUBELET
from trackbed.doctor.checks.kubelet_config import read_kubelet
from trackbed.doctor.checks.limits_processes import READS as PROCESSES
from trackbed.doctor.checks.limits_processes import UNLIMITED, find_processes
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_CONFIG, _DROP_INS = "/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml"
_CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
"""The CRI plugin of containerd 2, and of 1.7."""
_NRI = "io.containerd.nri.v1.nri"
_NETWORKS = ("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d")
_NETWORK_FILES = (".conf", ".conflist", ".json")
_SPECS = ("/etc/cdi", "/var/run/cdi")
_SOCKETS, _PLUGINS, _TOOLKIT = "/var/run/nri", "/var/lib/kubelet/plugins", "/run/nvidia/validations"
_DRIVER_FROM_CRI = (1, 34)
"""The first version of kubelet that gets the cgroup driver from the runtime."""

READS = (
    Wanted(
        files=(_CONFIG, _DROP_INS, *(f"{folder}/*" for folder in _SPECS)),
        folders=(*_NETWORKS, *_SPECS, _SOCKETS, _PLUGINS, _TOOLKIT),
    )
    | PROCESSES
    | KUBELET
)


def check(view: NodeView) -> Iterator[Finding]:
    """Check the running containerd."""
    host = view.host
    processes = find_processes(host, "containerd") if host is not None else []
    if host is None or not processes:
        return
    limits = [limit for process in processes if (limit := process.limits.get("Max locked memory")) is not None]
    if limits:
        low = [limit for limit in limits if limit != UNLIMITED]
        evidence = f"containerd may lock {low[0]} bytes" if low else ""
        yield judge("runtime-memlock-low", view.node, None, ok=not low, evidence=evidence)
    config = _read_config(host)
    yield from check_network(view, host, config)
    yield from check_cdi(view, host, config)
    yield from check_handlers(view, host, config)


def _read_config(host: Snapshot) -> dict[str, Any]:
    """Return the CRI plugin's section, with that of NRI as `nri`; both empty by default."""
    config: dict[str, Any] = {}
    for path in (_CONFIG, *host.glob(_DROP_INS)):
        try:
            plugins = tomllib.loads(host.read_text(path) or "").get("plugins", {})
        except tomllib.TOMLDecodeError:
            continue
        for name in _CRI:
            config = _merge(config, plugins.get(name, {}))
        config = _merge(config, {"nri": plugins.get(_NRI, {})})
    return config


def _merge(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    merged = {
        key: _merge(base[key], override[key])
        for key in base
        if isinstance(base[key], dict) and isinstance(override.get(key), dict)
    }
    return {**base, **override, **merged}


def check_network(view: NodeView, host: Snapshot, config: dict[str, Any]) -> Iterator[Finding]:
    """Check that containerd has a CNI configuration, and NRI where a network driver (DRA) needs it."""
    folder = config.get("cni", {}).get("conf_dir", _NETWORKS[0])
    if folder in _NETWORKS:
        names = host.folders.get(folder, ())
        ok = any(name.endswith(_NETWORK_FILES) for name in names)
        evidence = f"{folder} has {', '.join(names[:5]) or 'no files'}"
        yield judge("runtime-cni-not-initialized", view.node, None, ok=ok, evidence=evidence)
    if "dra.net" in host.folders.get(_PLUGINS, ()):
        is_off = bool(config["nri"].get("disable"))
        ok = not is_off and "nri.sock" in host.folders.get(_SOCKETS, ())
        evidence = "NRI is disabled in containerd's configuration" if is_off else f"nri.sock in {_SOCKETS}: {ok}"
        yield judge("runtime-nri-disabled", view.node, None, ok=ok, evidence=evidence)


def check_cdi(view: NodeView, host: Snapshot, config: dict[str, Any]) -> Iterator[Finding]:
    """Check that containerd reads the host's CDI specifications; a host without any needs no CDI."""
    specs = [path for folder in _SPECS for path in host.glob(f"{folder}/*") if path.endswith((".json", ".yaml"))]
    if not specs:
        return
    folders = _normalize_folders(config.get("cdi_spec_dirs", list(_SPECS)))
    unread = [path for path in specs if path.rpartition("/")[0].replace("/var/run", "/run") not in folders]
    is_off = config.get("enable_cdi") is False
    evidence = "enable_cdi is false" if is_off else f"not read: {', '.join(unread)}" if unread else ""
    yield judge("runtime-cdi-disabled", view.node, None, ok=not evidence, evidence=evidence)
    problems = list(_iter_spec_problems(host, specs))
    yield judge("runtime-cdi-spec-missing", view.node, None, ok=not problems, evidence="; ".join(problems[:3]))


def _normalize_folders(folders: list[str]) -> set[str]:
    return {folder.rstrip("/").replace("/var/run", "/run") for folder in folders}


def _iter_spec_problems(host: Snapshot, specs: list[str]) -> Iterator[str]:
    """Yield the specifications without devices, and the device names that two files of one folder define."""
    owners: dict[tuple[str, str], str] = {}
    for path in specs:
        names = _parse_device_names(path, host.read_text(path) or "")
        if not names:
            yield f"{path} names no device"
        for name in names:
            owner = owners.setdefault((path.rpartition("/")[0], name), path)
            if owner != path:
                yield f"{name} is in {owner} and in {path}"


def _parse_device_names(path: str, text: str) -> list[str]:
    """Return the devices of a CDI specification as KIND=NAME; empty where it is malformed."""
    try:
        spec = json.loads(text) if path.endswith(".json") else yaml.safe_load(text)
    except (ValueError, yaml.YAMLError):
        return []
    devices = spec.get("devices") if isinstance(spec, dict) else None
    if not isinstance(devices, list) or "kind" not in spec:
        return []
    names = [device.get("name") for device in devices if isinstance(device, dict)]
    return [f"{spec['kind']}={name}" for name in names if name]


def check_handlers(view: NodeView, host: Snapshot, config: dict[str, Any]) -> Iterator[Finding]:
    """Check for the NVIDIA runtime handler, and that containerd and kubelet use the same cgroup driver."""
    runtimes = config.get("containerd", {}).get("runtimes", {})
    if "toolkit-ready" in host.folders.get(_TOOLKIT, ()):
        uses_cdi = bool(config.get("enable_cdi")) and any(host.glob(f"{folder}/nvidia*") for folder in _SPECS)
        ok = "nvidia" in runtimes or uses_cdi
        evidence = f"handlers: {', '.join(sorted(runtimes)) or 'none'}"
        yield judge("runtime-nvidia-handler-missing", view.node, None, ok=ok, evidence=evidence)
    kubelet = read_kubelet(host)
    kubelet_driver = kubelet.config.get("cgroupDriver") if kubelet and kubelet.version < _DRIVER_FROM_CRI else None
    options = runtimes.get("runc", {}).get("options", {})
    if kubelet_driver and "SystemdCgroup" in options:
        driver = "systemd" if options["SystemdCgroup"] else "cgroupfs"
        evidence = f"containerd: {driver}, kubelet: {kubelet_driver}"
        ok = driver == kubelet_driver
        yield judge("runtime-cgroup-driver-mismatch", view.node, None, ok=ok, evidence=evidence)
