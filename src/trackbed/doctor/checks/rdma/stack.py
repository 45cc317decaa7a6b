"""The kernel's RDMA stack is loaded, with its device nodes, in the planned namespace mode now and after a reboot."""

import re
from collections.abc import Iterator

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.checks.vfs.functions import get_device_folder
from trackbed.doctor.evidence import summarize_items
from trackbed.doctor.finding import Finding
from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Snapshot, Wanted

CLASSES, LOADED, NODES = "/sys/class", "/sys/module", "/dev/infiniband"
MODE = f"{LOADED}/ib_core/parameters/netns_mode"
RDMA_DRIVERS = {
    "mlx5_core": "mlx5_ib",
    "mlx4_core": "mlx4_ib",
    "bnxt_en": "bnxt_re",
    "ice": "irdma",
    "ionic": "ionic_rdma",
}
"""Driver of an interface -> module that adds its RDMA device (drivers/infiniband/hw)."""
_MODES = {"Y": "shared", "N": "exclusive"}
_OPTIONS = ("/etc/modprobe.d/*.conf", "/run/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf", "/lib/modprobe.d/*.conf")
_CMDLINE = "/proc/cmdline"
_OPTION = re.compile(r"^[ \t]*options[ \t]+ib_core[ \t](?:.*[ \t])?netns_mode=(\S+)", re.MULTILINE)
_ARGUMENT = re.compile(r"(?:^|\s)ib_core\.netns_mode=(\S+)")
_YES = frozenset({"1", "y", "Y", "on"})
_NAMESPACES = ("/run/netns", "/run/docker/netns")
"""Folders where ip(8), container runtimes and Docker keep network namespaces."""

READS = Wanted(
    files=(MODE, *_OPTIONS, _CMDLINE),
    links=("/sys/class/net/{netdev}/device/driver",),
    folders=(CLASSES, LOADED, NODES, *_NAMESPACES),
)


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the host's RDMA stack; skipped if /sys/class could not be listed."""
    if CLASSES not in host.folders:
        return
    missing = list(_iter_missing_modules(view, host))
    evidence = f"missing: {summarize_items(missing)}" if missing else "ib_core and the ports' RDMA drivers are loaded"
    yield build_finding("rdma-stack-not-loaded", view.node, None, ok=not missing, evidence=evidence)
    if "infiniband" in host.folders[CLASSES]:
        yield check_rdma_cm(view, host)
        yield from check_netns_mode(view, host)


def _iter_missing_modules(view: NodeView, host: Snapshot) -> Iterator[str]:
    """Yield the modules that are needed but not loaded.

    A built-in module may be missing from /sys/module, so ports that have their RDMA device are skipped.
    """
    if "infiniband" not in host.folders[CLASSES]:
        yield "/sys/class/infiniband (ib_core)"
    ports = [port for port in view.iter_ports() if not list_rdma_devices(host, port.netdev)]
    drivers = {host.get_target(f"{get_device_folder(port.netdev)}/driver") or "" for port in ports}
    modules = {RDMA_DRIVERS[driver] for driver in drivers if driver in RDMA_DRIVERS}
    yield from sorted(modules - set(host.folders.get(LOADED, modules)))


def check_rdma_cm(view: NodeView, host: Snapshot) -> Finding:
    """Check for the device node of rdma_cm."""
    ok = "rdma_cm" in host.folders.get(NODES, ())
    evidence = f"{NODES}/rdma_cm {'exists' if ok else 'does not exist'}"
    return build_finding("rdma-ucm-node-missing", view.node, None, ok=ok, evidence=evidence)


def check_netns_mode(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the namespace mode of RDMA devices, now and at the next boot."""
    planned, mode = view.node.common.rdma_mode, _MODES.get(host.read_text(MODE) or "")
    if mode is not None:
        ok = mode == planned
        yield build_finding(
            "rdma-netns-mode-wrong", view.node, None, ok=ok, evidence=f"{MODE}: {mode}, planned {planned}"
        )
        namespaces = [
            f"{folder}/{name}" for folder in _NAMESPACES for name in host.folders.get(folder, ()) if name != "default"
        ]
        evidence = f"{mode}, planned {planned}; other namespaces: {summarize_items(namespaces) or 'none'}"
        yield build_finding("rdma-netns-mode-change-busy", view.node, None, ok=ok or not namespaces, evidence=evidence)
    boot_mode, source = _read_boot_mode(host)
    evidence = f"at boot {boot_mode} by {source}, planned {planned}"
    yield build_finding("rdma-netns-mode-not-persistent", view.node, None, ok=boot_mode == planned, evidence=evidence)


def _read_boot_mode(host: Snapshot) -> tuple[str, str]:
    """Return the namespace mode in which the next boot loads ib_core, and the file that sets it.

    The last setting wins; modprobe appends its options to those of the kernel command line.
    """
    settings = [("the kernel's default", "1")]
    settings += [(_CMDLINE, value) for value in _ARGUMENT.findall(host.read_text(_CMDLINE) or "")]
    paths = {path.rpartition("/")[2]: path for path in host.glob(*reversed(_OPTIONS))}
    for _, path in sorted(paths.items()):
        settings += [(path, value) for value in _OPTION.findall(host.read_text(path) or "")]
    source, value = settings[-1]
    return "shared" if value in _YES else "exclusive", source
