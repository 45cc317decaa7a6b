"""Step runtime: containers get their network, devices and locked memory from containerd or CRI-O.

containerd's configuration is what `containerd config dump` prints. Where that program is not found, it is read from the
file of containerd, RKE2 or k3s and the files of conf.d: before version 2.0 the last file replaces a plugin's whole
section, since then sections are merged (mergeConfig, v1.7.34 and v2.0.0), and CDI is off unless `enable_cdi` is true
(DefaultConfig, v1.7.34). A host without a running containerd or CRI-O is skipped.
"""

import json
import tomllib
from collections.abc import Iterator
from typing import Any

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.kubelet_config import read_kubelet_info
from trackbed.doctor.checks.processes import UNLIMITED, find_processes
from trackbed.doctor.finding import Finding
from trackbed.doctor.host_yaml import parse_host_yaml
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

_DUMP = ("containerd", "config", "dump")
_CONFIG, _DROP_INS = "/etc/containerd/config.toml", "/etc/containerd/conf.d/*.toml"
_RANCHER = tuple(f"/var/lib/rancher/{name}/agent/etc/containerd/config.toml" for name in ("rke2", "k3s"))
_CRIO = ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d/*")
_MERGED_VERSION = 3
"""The first version of the file's format that only containerd 2 reads."""
_CRI = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri")
"""Names of the CRI plugin in containerd 2 and in 1.7."""
_NRI = "io.containerd.nri.v1.nri"
_NETWORKS = ("/etc/cni/net.d", "/var/lib/rancher/k3s/agent/etc/cni/net.d")
_NETWORK_FILES = (".conf", ".conflist", ".json")
_SPECS = ("/etc/cdi", "/var/run/cdi")
_AGENT = "/run/trackbed"
_SOCKETS, _PLUGINS, _TOOLKIT = "/var/run/nri", "/var/lib/kubelet/plugins", "/run/nvidia/validations"
_DRIVER_FROM_CRI = (1, 34)
"""The first version of kubelet that gets its cgroup driver from the runtime."""

READS = Wanted(
    files=(_CONFIG, _DROP_INS, *_RANCHER, *_CRIO, *(f"{folder}/*" for folder in _SPECS)),
    folders=(*_NETWORKS, *_SPECS, _SOCKETS, _PLUGINS, _TOOLKIT, _AGENT),
    commands=(_DUMP,),
)


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check containerd or CRI-O, if it is running."""
    limits = _read_memlock_limits(host)
    if limits:
        low = next((limit for limit in limits if limit != UNLIMITED), "")
        evidence = f"{limits[low]} may lock {low} bytes" if low else ""
        yield build_finding("runtime-memlock-low", view.node, None, ok=not low, evidence=evidence)
    if not find_processes(host, "containerd"):
        return
    yield from check_network(view, host)
    yield from check_cdi(view, host)
    yield from check_handlers(view, host)


def _read_memlock_limits(host: Snapshot) -> dict[str, str]:
    """Return the limits of locked memory of containers, each with what sets it; empty if no runtime runs."""
    crio_limits = dict.fromkeys(_iter_crio_limits(host), "a container of CRI-O (default_ulimits)")
    names = ("containerd",) if crio_limits else ("containerd", "crio")
    processes = find_processes(host, *names)
    limits = {limit: process.name for process in processes if (limit := process.limits.get("Max locked memory"))}
    return limits | (crio_limits if find_processes(host, "crio") else {})


def _iter_crio_limits(host: Snapshot) -> Iterator[str]:
    """Yield the limits of locked memory that CRI-O sets instead of its own (crio.conf(5), default_ulimits)."""
    for path in host.glob(*_CRIO):
        for entry in _parse_toml(host.read_text(path)).get("crio", {}).get("runtime", {}).get("default_ulimits", ()):
            name, _, limits = str(entry).partition("=")
            if name == "memlock":
                soft = limits.partition(":")[0]
                yield UNLIMITED if soft in {"-1", UNLIMITED} else soft


def read_containerd_config(host: Snapshot) -> dict[str, Any]:
    """Return the settings of the CRI plugin, with those of the NRI plugin below the key `nri`."""
    dump = host.get_output(*_DUMP)
    paths = next(((path,) for path in _RANCHER if path in host.files), (_CONFIG, *host.glob(_DROP_INS)))
    documents = [_parse_toml(dump)] if dump else [_parse_toml(host.read_text(path)) for path in paths]
    is_merged = documents[0].get("version", 1) >= _MERGED_VERSION
    config: dict[str, Any] = {"nri": {}, "enable_cdi": is_merged}
    for document in documents:
        plugins = document.get("plugins", {})
        for name in _CRI:
            base = config if is_merged or name not in plugins else {"nri": config["nri"], "enable_cdi": False}
            config = _merge_tables(base, plugins.get(name, {}))
        config = _merge_tables(config, {"nri": plugins.get(_NRI, {})})
    return config


def _parse_toml(text: str | None) -> dict[str, Any]:
    """Parse a TOML document; empty if it is absent or malformed."""
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


def _merge_tables(base: dict[str, Any], override: dict[str, Any]) -> dict[str, Any]:
    """Merge two TOML tables recursively; values of `override` win."""
    merged = {
        key: _merge_tables(base[key], override[key])
        for key in base
        if isinstance(base[key], dict) and isinstance(override.get(key), dict)
    }
    return {**base, **override, **merged}


def check_network(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that containerd has a CNI configuration, and NRI if DRANET is installed."""
    config = read_containerd_config(host)
    folder = config.get("cni", {}).get("conf_dir", _NETWORKS[0])
    if folder in _NETWORKS:
        names = host.folders.get(folder, ())
        ok = any(name.endswith(_NETWORK_FILES) for name in names)
        evidence = f"{folder} has {', '.join(names[:5]) or 'no files'}"
        yield build_finding("runtime-cni-not-initialized", view.node, None, ok=ok, evidence=evidence)
    if "dra.net" in host.folders.get(_PLUGINS, ()):
        is_off = bool(config["nri"].get("disable"))
        ok = not is_off and "nri.sock" in host.folders.get(_SOCKETS, ())
        evidence = (
            "NRI is disabled in containerd's configuration"
            if is_off
            else f"{_SOCKETS} has {'' if ok else 'no '}nri.sock"
        )
        yield build_finding("runtime-nri-disabled", view.node, None, ok=ok, evidence=evidence)


def check_cdi(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that containerd reads the host's CDI specifications; skipped without any and without Trackbed's agent."""
    config = read_containerd_config(host)
    specs = [path for path in host.glob(*(f"{folder}/*" for folder in _SPECS)) if path.endswith((".json", ".yaml"))]
    if not specs and "agent.sock" not in host.folders.get(_AGENT, ()):
        return
    folders = {_normalize_folder(folder) for folder in config.get("cdi_spec_dirs", _SPECS)}
    unread = [path for path in specs if _normalize_folder(path.rpartition("/")[0]) not in folders]
    is_off = not config["enable_cdi"]
    evidence = "enable_cdi is not true" if is_off else f"not read: {', '.join(unread)}" if unread else ""
    yield build_finding("runtime-cdi-disabled", view.node, None, ok=not evidence, evidence=evidence)
    problems = list(_iter_spec_problems(host, specs))
    yield build_finding("runtime-cdi-spec-missing", view.node, None, ok=not problems, evidence="; ".join(problems[:3]))


def _normalize_folder(folder: str) -> str:
    """Return the folder without a trailing slash, with /run in place of its alias /var/run."""
    return folder.rstrip("/").replace("/var/run", "/run")


def _iter_spec_problems(host: Snapshot, spec_paths: list[str]) -> Iterator[str]:
    """Describe the specifications without devices, and the devices that two files in one folder define."""
    owners: dict[tuple[str, str], str] = {}
    for path in spec_paths:
        names = _parse_device_names(path, host.read_text(path) or "")
        if not names:
            yield f"{path} names no device"
        for name in names:
            owner = owners.setdefault((path.rpartition("/")[0], name), path)
            if owner != path:
                yield f"{name} is in {owner} and in {path}"


def _parse_device_names(path: str, text: str) -> list[str]:
    """Return the devices of a CDI specification as KIND=NAME; empty if it is malformed."""
    try:
        spec: Any = json.loads(text) if path.endswith(".json") else parse_host_yaml(text)
    except (ValueError, RecursionError):
        return []
    devices = spec.get("devices") if isinstance(spec, dict) else None
    if not isinstance(devices, list) or "kind" not in spec:
        return []
    names = [device.get("name") for device in devices if isinstance(device, dict)]
    return [f"{spec['kind']}={name}" for name in names if name]


def check_handlers(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check for the NVIDIA runtime handler, and that containerd and kubelet use the same cgroup driver."""
    config = read_containerd_config(host)
    runtimes = config.get("containerd", {}).get("runtimes", {})
    if "toolkit-ready" in host.folders.get(_TOOLKIT, ()):
        uses_cdi = bool(config.get("enable_cdi") and host.glob(*(f"{folder}/nvidia*" for folder in _SPECS)))
        ok = "nvidia" in runtimes or uses_cdi
        evidence = f"handlers: {', '.join(sorted(runtimes)) or 'none'}"
        yield build_finding("runtime-nvidia-handler-missing", view.node, None, ok=ok, evidence=evidence)
    kubelet = read_kubelet_info(host)
    kubelet_driver = kubelet.config.get("cgroupDriver") if kubelet and kubelet.version < _DRIVER_FROM_CRI else None
    options = runtimes.get("runc", {}).get("options", {})
    if kubelet_driver and "SystemdCgroup" in options:
        driver = "systemd" if options["SystemdCgroup"] else "cgroupfs"
        evidence = f"containerd: {driver}, kubelet: {kubelet_driver}"
        ok = driver == kubelet_driver
        yield build_finding("runtime-cgroup-driver-mismatch", view.node, None, ok=ok, evidence=evidence)
