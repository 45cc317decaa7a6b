"""Checks, one module for each step, in the order of the chain. Each module has a pure `check(view)`.

`READS` of a module lists what its checks read of the host besides its network state; it must be in `view.host`.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from trackbed.doctor.checks import (
    addresses,
    bios,
    cmdline,
    cni,
    drivers,
    fabric,
    firmware,
    kubelet,
    limits,
    names,
    neighbours,
    pod,
    qos,
    rdma,
    routing,
    runtime,
    tables,
    vfs,
)
from trackbed.host.snapshot.snapshot import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

MODULES: tuple[ModuleType, ...] = (
    bios,
    cmdline,
    firmware,
    drivers,
    rdma,
    vfs,
    names,
    addresses,
    neighbours,
    tables,
    routing,
    qos,
    limits,
    kubelet,
    runtime,
    cni,
    pod,
    fabric,
)
"""The steps in the order of the chain."""

CHECKS: tuple[Callable[[NodeView], Iterator[Finding]], ...] = tuple(module.check for module in MODULES)

READS: Wanted = reduce(Wanted.__or__, (getattr(module, "READS", Wanted()) for module in MODULES), Wanted())
"""What all checks together read of a host."""
