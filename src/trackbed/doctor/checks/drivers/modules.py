"""Kernel modules of the ports: built for the running kernel, from one driver tree, accepted by Secure Boot, bound."""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from trackbed.doctor.catalogue import build_finding
from trackbed.doctor.finding import Finding
from trackbed.doctor.hardware import (
    DEVICES,
    describe_log_coverage,
    describe_log_error,
    find_driver,
    find_log_line,
    iter_pci_functions,
    read_kernel_log,
    read_pci_attribute,
)
from trackbed.doctor.view import NodeView
from trackbed.host.kinds import module
from trackbed.host.runner import ProgramResult
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.steps import drivers as planned

_STACK = ("ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
_QUERIED = (*_STACK, "bnxt_en", "bnxt_re", "ice", "irdma", "ionic", "ionic_rdma", "efa", "rdma_ucm")
MODINFO = ("modinfo", "-n", *_QUERIED)
LOADED = "/sys/module"
DRIVER_VERSION = "/sys/module/mlx5_core/version"
"""File with the version of DOCA-OFED's mlx5_core; the kernel's own mlx5_core does not have it."""
DRIVER_CONTAINER = "/run/mellanox/drivers"
"""Mount point of the containerised DOCA-OFED of NVIDIA's network operator."""
READS = Wanted(
    files=(f"{DEVICES}/{{pci}}/driver_override", DRIVER_VERSION, "/proc/sys/kernel/osrelease"),
    folders=(LOADED, DRIVER_CONTAINER),
    commands=(MODINFO,),
)

_VENDOR_DRIVERS = {"0x15b3": "mlx5_core", "0x14e4": "bnxt_en"}
"""PCI vendor id -> driver of its NICs; vendors with several drivers, such as Intel, are left out."""
_RESERVING_DRIVERS = {"vfio-pci", "pci-stub", "uio_pci_generic", "igb_uio"}
"""Drivers that reserve a function for a virtual machine or a user-space program, so that it has no interface."""
_MISSING = re.compile(r"Module (\S+) not found")
_REJECTED = r"(?:Loading of .* is rejected|Lockdown: \S+: unsigned module loading is restricted)"
"""Messages of kernel/module/signing.c and security/lockdown."""
_UNKNOWN = r"(?:mlx5_ib|mlx5_core|ib_\w+|rdma_\w+): (?:Unknown symbol (?:ib_|mlx5_)|disagrees about version of symbol)"


def check_host(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check the modules of the planned NICs."""
    yield from check_rejections(view, host)
    yield from check_presence(view, host)
    yield from check_trees(view, host)
    yield from check_bindings(view, host)
    yield from check_irdma(view, host)


def _list_planned_modules(view: NodeView, host: Snapshot) -> list[str]:
    """Return the modules that the planned NICs need; if the plan has no NIC vendor, the host's NICs decide."""
    vendors = {
        (read_pci_attribute(host, pci, "vendor") or "").removeprefix("0x") for _, pci in iter_pci_functions(view, host)
    }
    nic = view.node.nic or (f"{vendors.pop()}:" if len(vendors) == 1 else None)
    if nic is not None and nic.startswith("8086") and view.node.nic is None:
        return []  # Intel's older NICs need neither ice nor irdma
    wants = [setting.want for setting in planned.iter_settings(view.node._replace(nic=nic))]
    return [want.name for want in wants if isinstance(want, module.Want)]


def _list_loaded_modules(host: Snapshot) -> frozenset[str] | None:
    """Return the names of the loaded modules; None if they could not be listed."""
    return frozenset(host.folders[LOADED]) if LOADED in host.folders else None


def check_rejections(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that Secure Boot rejected no module; rejections are ignored if all planned modules are loaded."""
    modules, loaded, log = _list_planned_modules(view, host), _list_loaded_modules(host), read_kernel_log(host)
    if not modules or loaded is None:
        return
    missing = [name for name in modules if name not in loaded]
    line = find_log_line(log or "", _REJECTED) if missing else ""
    if log is None and missing:
        evidence = f"{', '.join(missing)} not loaded; {describe_log_error(host)}"
        yield build_finding("driver-secure-boot-rejects-module", view.node, None, ok=None, evidence=evidence)
        return
    evidence = f"{', '.join(missing)} not loaded; {line}" if line else describe_log_coverage(log or "")
    yield build_finding("driver-secure-boot-rejects-module", view.node, None, ok=not line, evidence=evidence)


def check_presence(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that all planned modules are loaded, or that modinfo finds them for the running kernel."""
    modules, loaded = _list_planned_modules(view, host), _list_loaded_modules(host) or frozenset()
    outcome = host.get_outcome(*MODINFO)
    unloaded = [name for name in modules if name not in loaded]
    if not modules:
        return
    if unloaded and not isinstance(outcome, ProgramResult):
        evidence = f"{', '.join(unloaded)} not loaded, and modinfo is not installed"
        yield build_finding("driver-module-missing-for-kernel", view.node, None, ok=None, evidence=evidence)
        return
    missing = (
        sorted(set(_MISSING.findall(outcome.output)) & set(unloaded)) if isinstance(outcome, ProgramResult) else []
    )
    kernel = host.read_text("/proc/sys/kernel/osrelease") or "the running kernel"
    evidence = f"no {', '.join(missing)} for {kernel}" if missing else f"{', '.join(modules)} for {kernel}"
    yield build_finding("driver-module-missing-for-kernel", view.node, None, ok=not missing, evidence=evidence)


def check_trees(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that all modules of the RDMA stack come from one tree.

    The kernel's own tree is `/lib/modules/KERNEL/kernel`; other drivers are in updates, extra or weak-updates.
    """
    if "mlx5_core" not in _list_planned_modules(view, host):
        return
    outcome, log = host.get_outcome(*MODINFO), read_kernel_log(host) or ""
    trees = _group_modules_by_tree(outcome.output) if isinstance(outcome, ProgramResult) else {}
    line = find_log_line(log, _UNKNOWN)
    if not trees and not line:
        return
    listing = "; ".join(f"{tree}: {', '.join(names)}" for tree, names in sorted(trees.items()))
    evidence = "; ".join(filter(None, (listing, line)))
    yield build_finding("driver-mixed-trees", view.node, None, ok=len(trees) <= 1 and not line, evidence=evidence)


def _group_modules_by_tree(output: str) -> dict[str, list[str]]:
    """Return the RDMA stack's modules by driver tree, from the paths that modinfo printed."""
    trees: dict[str, list[str]] = {}
    for line in output.splitlines():
        path = PurePosixPath(line.strip())
        name = path.name.partition(".ko")[0].replace("-", "_")
        if name in _STACK and "modules" in path.parts:
            tree = path.parts[path.parts.index("modules") + 2]
            trees.setdefault(tree, []).append(name)
    return trees


def check_bindings(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that each port's function is bound to its vendor's driver."""
    for port, pci in iter_pci_functions(view, host):
        driver, expected = find_driver(host, pci), _VENDOR_DRIVERS.get(read_pci_attribute(host, pci, "vendor") or "")
        override = read_pci_attribute(host, pci, "driver_override")
        evidence = f"{pci} has {f'driver {driver}' if driver else 'no driver'}"
        evidence += f", driver_override {override}" if override not in {None, "", "(null)"} else ""
        ok = driver is not None and driver not in _RESERVING_DRIVERS and expected in {None, driver}
        yield build_finding("driver-not-bound", view.node, port, ok=ok, evidence=evidence)


def check_irdma(view: NodeView, host: Snapshot) -> Iterator[Finding]:
    """Check that Intel's irdma does not hold ib_core, which would prevent the DOCA-OFED container from replacing it."""
    loaded = _list_loaded_modules(host)
    if DRIVER_CONTAINER not in host.folders or loaded is None or "mlx5_core" not in _list_planned_modules(view, host):
        return
    evidence = "irdma is loaded and holds ib_core" if "irdma" in loaded else "irdma is not loaded"
    yield build_finding("driver-irdma-blocks-ofed", view.node, None, ok="irdma" not in loaded, evidence=evidence)
