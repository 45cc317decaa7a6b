"""Modules: bound to the port, there for the running kernel, of one tree, let in by Secure Boot, of one version."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from trackbed.doctor.catalogue import judge
from trackbed.doctor.hardware import (
    DEVICES,
    describe_log_error,
    describe_log_reach,
    find_driver,
    find_log_line,
    iter_functions,
    read_attribute,
    read_kernel_log,
)
from trackbed.host.runner import Ran
from trackbed.host.setting import Module
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.steps import drivers as planned

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView
    from trackbed.host.snapshot.snapshot import Snapshot

_STACK = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
_ASKED = (*_STACK, "bnxt_en", "bnxt_re", "ice", "irdma")
MODINFO = ("modinfo", "-n", *_ASKED)
LOADED = "/sys/module"
VERSION = "/sys/module/mlx5_core/version"
"""Only a driver of DOCA-OFED says a version; the kernel's own has none."""
DRIVER_CONTAINER = "/run/mellanox/drivers"
"""Where NVIDIA's network operator mounts the root of its containerised DOCA-OFED."""
READS = Wanted(
    files=(f"{DEVICES}/{{pci}}/driver_override", VERSION, "/proc/sys/kernel/osrelease"),
    folders=(LOADED, DRIVER_CONTAINER),
    commands=(MODINFO,),
)

_FOR_VENDOR = {"0x15b3": "mlx5_core", "0x14e4": "bnxt_en"}
"""PCI vendor -> driver of every NIC of it that carries rails; Intel has several."""
_PLACEHOLDERS = {"vfio-pci", "pci-stub", "uio_pci_generic", "igb_uio"}
"""Drivers that hold a function for somebody else: there is no interface then."""
_MISSING = re.compile(r"Module (\S+) not found")
_REJECTED = r"(?:Loading of .* is rejected|Lockdown: \S+: unsigned module loading is restricted)"
"""kernel/module/signing.c, security/lockdown."""
_UNKNOWN = r"(?:mlx5_ib|mlx5_core|ib_\w+|rdma_\w+): (?:Unknown symbol (?:ib_|mlx5_)|disagrees about version of symbol)"


def check(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Judge the modules."""
    yield from _rejected(view, host)
    yield from _present(view, host)
    yield from _trees(view, host)
    yield from _bound(view, host)
    yield from _irdma(view, host)
    yield from _version(view, host)


def _wanted(view: NodeView, host: Snapshot) -> list[str]:
    """The modules that the planned NICs take, also where the Fabric does not say whose NICs they are."""
    vendors = {(read_attribute(host, pci, "vendor") or "").removeprefix("0x") for _, pci in iter_functions(view, host)}
    nic = view.node.nic or (f"{vendors.pop()}:" if len(vendors) == 1 else None)
    if nic is not None and nic.startswith("8086") and view.node.nic is None:
        return []  # Intel's older NICs need neither ice nor irdma
    wants = [setting.want for setting in planned.settings(msgspec.structs.replace(view.node, nic=nic))]
    return [want.name for want in wants if isinstance(want, Module)]


def _loaded(host: Snapshot) -> frozenset[str] | None:
    names = host.folders.get(LOADED)
    return frozenset(names) if names is not None else None


def _rejected(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """A refusal counts only while a planned module is not loaded."""
    wanted, loaded, log = _wanted(view, host), _loaded(host), read_kernel_log(host)
    if not wanted or loaded is None:
        return
    missing = [name for name in wanted if name not in loaded]
    said = find_log_line(log or "", _REJECTED) if missing else ""
    if log is None and missing:
        told = f"{', '.join(missing)} not loaded; {describe_log_error(host)}"
        yield judge("driver-secure-boot-rejects-module", view.node, None, ok=None, evidence=told)
        return
    evidence = f"{', '.join(missing)} not loaded; {said}" if said else describe_log_reach(log or "")
    yield judge("driver-secure-boot-rejects-module", view.node, None, ok=not said, evidence=evidence)


def _present(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Loaded ones are there; of the others modinfo knows."""
    wanted, loaded, ran = _wanted(view, host), _loaded(host) or frozenset(), host.ran(*MODINFO)
    open_ = [name for name in wanted if name not in loaded]
    if not wanted:
        return
    if open_ and not isinstance(ran, Ran):
        told = f"{', '.join(open_)} not loaded, and there is no modinfo to ask"
        yield judge("driver-module-missing-for-kernel", view.node, None, ok=None, evidence=told)
        return
    missing = sorted(set(_MISSING.findall(ran.output)) & set(open_)) if isinstance(ran, Ran) else []
    kernel = host.text("/proc/sys/kernel/osrelease") or "the running kernel"
    evidence = f"no {', '.join(missing)} for {kernel}" if missing else f"{', '.join(wanted)} for {kernel}"
    yield judge("driver-module-missing-for-kernel", view.node, None, ok=not missing, evidence=evidence)


def _trees(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """`/lib/modules/KERNEL/kernel/...` is the kernel's own tree; updates, extra and weak-updates are others'."""
    if "mlx5_core" not in _wanted(view, host):
        return
    ran, log = host.ran(*MODINFO), read_kernel_log(host) or ""
    trees = _by_tree(ran.output) if isinstance(ran, Ran) else {}
    said = find_log_line(log, _UNKNOWN)
    if not trees and not said:
        return
    evidence = "; ".join(f"{tree}: {', '.join(names)}" for tree, names in sorted(trees.items()))
    told = "; ".join(filter(None, (evidence, said)))
    yield judge("driver-mixed-trees", view.node, None, ok=len(trees) <= 1 and not said, evidence=told)


def _by_tree(said: str) -> dict[str, list[str]]:
    trees: dict[str, list[str]] = {}
    for line in said.splitlines():
        path = PurePosixPath(line.strip())
        name = path.name.partition(".ko")[0].replace("-", "_")
        if name in _STACK and "modules" in path.parts:
            after = path.parts[path.parts.index("modules") + 2]
            trees.setdefault(after, []).append(name)
    return trees


def _bound(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    for port, pci in iter_functions(view, host):
        have, want = find_driver(host, pci), _FOR_VENDOR.get(read_attribute(host, pci, "vendor") or "")
        override = read_attribute(host, pci, "driver_override")
        evidence = f"{pci} has {f'driver {have}' if have else 'no driver'}"
        evidence += f", driver_override {override}" if override not in {None, "", "(null)"} else ""
        ok = have is not None and have not in _PLACEHOLDERS and want in {None, have}
        yield judge("driver-not-bound", view.node, port, ok=ok, evidence=evidence)


def _irdma(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Only where the DOCA-OFED container runs on this host, for the ports of another vendor's driver."""
    loaded = _loaded(host)
    if DRIVER_CONTAINER not in host.folders or loaded is None or "mlx5_core" not in _wanted(view, host):
        return
    evidence = "irdma is loaded and holds ib_core" if "irdma" in loaded else "irdma is not loaded"
    yield judge("driver-irdma-blocks-ofed", view.node, None, ok="irdma" not in loaded, evidence=evidence)


def _version(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Compared with the other nodes that were looked at together with this one."""
    own = _mlx5(host)
    if own is None:
        return
    others = [version for peer in view.peers or () if peer.host is not None and (version := _mlx5(peer.host))]
    if not others:
        return
    seen = Counter([own, *others])
    common, count = max(seen.items(), key=lambda pair: (pair[1], pair[0]))
    evidence = f"mlx5_core {own}" if own == common else f"mlx5_core {own}, {count} of {seen.total()} nodes: {common}"
    yield judge("driver-version-unexpected", view.node, None, ok=own == common, evidence=evidence)


def _mlx5(host: Snapshot) -> str | None:
    """Version of the loaded mlx5_core; None where it is not loaded."""
    return (host.text(VERSION) or "of the kernel itself") if "mlx5_core" in (_loaded(host) or ()) else None
