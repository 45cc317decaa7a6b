"""Checks, one module for each step, in the order of the chain. Each module has a pure `check(view)`.

`READS` of a module lists what its checks read of the host besides its network state; it must be in `view.host`.
"""

from collections.abc import Callable, Iterator
from functools import reduce
from importlib import import_module

from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView
from trackbed.host.snapshot.snapshot import Wanted

_NAMES = (
    "bios",
    "cmdline",
    "firmware",
    "drivers",
    "rdma",
    "vfs",
    "names",
    "addresses",
    "neighbours",
    "tables",
    "routing",
    "qos",
    "limits",
    "kubelet",
    "runtime",
    "cni",
    "pod",
    "fabric",
)
"""Modules beside this one, in the order of the chain."""

_MODULES = tuple(import_module(f"{__name__}.{name}") for name in _NAMES)

CHECKS: tuple[Callable[[NodeView], Iterator[Finding]], ...] = tuple(module.check for module in _MODULES)

READS: Wanted = reduce(Wanted.__or__, (getattr(module, "READS", Wanted()) for module in _MODULES), Wanted())
"""What all checks together read of a host."""
