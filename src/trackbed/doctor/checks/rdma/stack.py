"""The RDMA stack of the kernel: loaded, with its device nodes, in the planned namespace mode now and after a reboot."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from trackbed.doctor.catalogue import judge
from trackbed.doctor.checks.vfs.functions import get_device_folder, summarize
from trackbed.doctor.rdma_devices import list_rdma_devices
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

CLASSES, MODULES, NODES = "/sys/class", "/sys/module", "/dev/infiniband"
MODE = f"{MODULES}/ib_core/parameters/netns_mode"
RDMA_OF = {"mlx5_core": "mlx5_ib", "mlx4_core": "mlx4_ib", "bnxt_en": "bnxt_re", "ice": "irdma", "ionic": "ionic_rdma"}
"""Driver of an interface -> module that adds its RDMA device (drivers/infiniband/hw)."""
_MODES = {"Y": "shared", "N": "exclusive"}
_OPTIONS = ("/etc/modprobe.d/*.conf", "/run/modprobe.d/*.conf", "/usr/lib/modprobe.d/*.conf", "/lib/modprobe.d/*.conf")
_CMDLINE = "/proc/cmdline"
_OPTION = re.compile(r"^\s*options\s+ib_core\s(?:.*\s)?netns_mode=(\S+)", re.MULTILINE)
_ARGUMENT = re.compile(r"(?:^|\s)ib_core\.netns_mode=(\S+)")
_YES = frozenset({"1", "y", "Y", "on"})
_NAMESPACES = ("/run/netns", "/run/docker/netns")
"""Where ip(8), container runtimes and Docker keep network namespaces."""

READS = Wanted(
    files=(MODE, *_OPTIONS, _CMDLINE),
    links=("/sys/class/net/{netdev}/device/driver",),
    folders=(CLASSES, MODULES, NODES, *_NAMESPACES),
)


def check(view: NodeView) -> Iterator[Finding]:
    """Judge the stack as a whole; a host of which nobody listed /sys/class leaves nothing to say."""
    host = view.host
    if host is None or CLASSES not in host.folders:
        return
    lacks = list(_lacks(view, host))
    evidence = f"not there: {summarize(lacks)}" if lacks else "ib_core and the ports' RDMA drivers are loaded"
    yield judge("rdma-stack-not-loaded", view.node, None, ok=not lacks, evidence=evidence)
    if "infiniband" in host.folders[CLASSES]:
        yield from _manager(view, host)
        yield from _mode(view, host)


def _lacks(view: NodeView, host: Snapshot) -> Iterator[str]:
    """A module that is built in shows in what it does only, so a port that has its device lacks nothing."""
    if "infiniband" not in host.folders[CLASSES]:
        yield "/sys/class/infiniband (ib_core)"
    bare = [port for port in view.iter_ports() if not list_rdma_devices(host, port.netdev)]
    drivers = {host.target(f"{get_device_folder(port.netdev)}/driver") or "" for port in bare}
    modules = {RDMA_OF[driver] for driver in drivers if driver in RDMA_OF}
    yield from sorted(modules - set(host.folders.get(MODULES, modules)))


def _manager(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    there = "rdma_cm" in host.folders.get(NODES, ())
    evidence = f"{NODES}/rdma_cm is {'there' if there else 'not there'}"
    yield judge("rdma-ucm-node-missing", view.node, None, ok=there, evidence=evidence)


def _mode(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    planned, now = view.node.common.rdma_mode, _MODES.get(host.text(MODE) or "")
    if now is not None:
        evidence = f"{MODE}: {now}, planned {planned}"
        yield judge("rdma-netns-mode-wrong", view.node, None, ok=now == planned, evidence=evidence)
        others = [
            f"{folder}/{name}" for folder in _NAMESPACES for name in host.folders.get(folder, ()) if name != "default"
        ]
        evidence = f"{now}, planned {planned}; other namespaces: {summarize(others) or 'none'}"
        yield judge("rdma-netns-mode-change-busy", view.node, None, ok=now == planned or not others, evidence=evidence)
    later, source = _next_boot(host)
    evidence = f"at boot {later} by {source}, planned {planned}"
    yield judge("rdma-netns-mode-not-persistent", view.node, None, ok=later == planned, evidence=evidence)


def _next_boot(host: Snapshot) -> tuple[str, str]:
    """The mode that ib_core is loaded with, and who says so: modprobe puts its options behind the kernel's own."""
    found = [("the kernel's default", "1")]
    found += [(_CMDLINE, value) for value in _ARGUMENT.findall(host.text(_CMDLINE) or "")]
    paths = {path.rpartition("/")[2]: path for pattern in reversed(_OPTIONS) for path in host.glob(pattern)}
    for _, path in sorted(paths.items()):
        found += [(path, value) for value in _OPTION.findall(host.text(path) or "")]
    source, value = found[-1]
    return "shared" if value in _YES else "exclusive", source
