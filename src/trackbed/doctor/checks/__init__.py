"""Checks, in causal order of their steps. They are pure: a NodeView holds everything that they need.

A module has `check(view)`, or `check_host(view, host)` for checks of the host's snapshot, or both. `READS` lists what
the module needs in that snapshot. The faults that a check may find are in `faults/`.
"""

import logging
from collections.abc import Container, Iterator
from functools import partial, reduce
from importlib import import_module
from types import ModuleType

from trackbed.doctor import hardware, rdma_devices
from trackbed.doctor.across import excerpt
from trackbed.doctor.finding import Finding
from trackbed.doctor.unjudged import FAILED_CHECK
from trackbed.doctor.unread import judge_unread
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Wanted

_log = logging.getLogger(__name__)

MODULES = (
    "bios.presence",
    "bios.pcie",
    "bios.placement",
    "bios.power",
    "cmdline",
    "firmware.settings",
    "firmware.registers",
    "firmware.health",
    "drivers.modules",
    "drivers.gpu",
    "drivers.faults",
    "rdma.stack",
    "rdma.devices",
    "rdma.ports",
    "vfs.functions",
    "vfs.count",
    "vfs.binding",
    "vfs.owners",
    "vfs.identity",
    "vfs.limits",
    "names.ports",
    "names.sources",
    "names.rdma",
    "names.managers",
    "addresses",
    "addresses_host",
    "neighbours",
    "tables",
    "routing",
    "routing_host",
    "qos",
    "processes",
    "limits",
    "kubelet_config",
    "kubelet",
    "runtime",
    "cni",
    "pod",
    "fabric",
)
"""Modules of this package in the order in which they run. A module may have `READS` only, for the others.

`run_checks` compares the part of a name before the first dot with the wanted steps. In most names that part is a step;
in addresses_host, neighbours, tables, routing_host, processes and kubelet_config it is not.
"""

_LOADED = {name: import_module(f"{__name__}.{name}") for name in MODULES}

READS: Wanted = reduce(
    Wanted.__or__,
    (getattr(module, "READS", Wanted()) for module in _LOADED.values()),
    hardware.READS | rdma_devices.READS | excerpt.READS,
)
"""Everything that the checks read of a host."""


FILE_STEPS = ("bios", "cmdline", "firmware", "kubelet", "runtime")
"""Steps whose checks read nothing but `view.host`; all others need the network."""

_MAX_EVIDENCE_CHARACTERS = 200


def run_checks(view: NodeView, steps: Container[str] | None = None) -> Iterator[Finding]:
    """Run the checks of these steps (None: of all) and yield their findings.

    Checks of the host's snapshot are skipped if the view has no snapshot.
    """
    for name, module in _LOADED.items():
        if steps is not None and name.partition(".")[0] not in steps:
            continue
        yield from _run_module(name, module, view)


def _run_module(name: str, module: ModuleType, view: NodeView) -> Iterator[Finding]:
    """Yield the findings of one module; an unknown finding if it cannot understand what the host shows."""
    step = name.partition(".")[0].partition("_")[0]
    try:
        yield from judge_unread(partial(_run_checks_of, module), view, step)
    except Exception as error:  # noqa: BLE001 - what a host shows may be anything, and must not end the other checks
        _log.exception("check %s of %s", name, view.node.name)
        yield Finding(
            FAILED_CHECK.id,
            step,
            "unknown",
            f"what the host shows is understood by check {name}",
            f"{type(error).__name__}: {str(error)[:_MAX_EVIDENCE_CHARACTERS]!a}",
            fix=FAILED_CHECK.fix,
            node=view.node.name,
        )


def _run_checks_of(module: ModuleType, view: NodeView) -> Iterator[Finding]:
    """Yield the findings of one module; the host's only if the view has its snapshot."""
    if hasattr(module, "check"):
        yield from module.check(view)
    if hasattr(module, "check_host") and view.host is not None:
        yield from module.check_host(view, view.host)
