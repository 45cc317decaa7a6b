"""Faults of a host, which are injected inside an emulated server; one module for each step."""

from importlib import import_module

from trackbed_lab.vm.faults.fault import VmFault

NAMES = (
    "bios",
    "cmdline",
    "firmware",
    "drivers",
    "rdma",
    "vfs",
    "names",
    "addresses",
    "routing",
    "qos",
    "limits",
    "kubelet",
    "runtime",
)
"""Modules of this package, in the order of the chain."""

FAULTS: tuple[VmFault, ...] = tuple(fault for name in NAMES for fault in import_module(f"{__name__}.{name}").FAULTS)
"""All faults, in the order of the chain."""
