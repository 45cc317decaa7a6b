"""All kinds of setting in the order in which undo restores them: names precede settings whose path contains a name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trackbed.host.kinds.kind import Kind

NAMES = (
    "name",
    "mtu",
    "vf_probe",
    "vf_count",
    "up",
    "sysctl",
    "rdma_namespaces",
    "rdma_name",
    "attribute",
    "vf_address",
    "vf_guard",
    "vf_mtu",
    "dcb",
    "rdma_tos",
    "address",
    "route",
    "rule",
    "kernel_arguments",
    "acs",
    "packages",
    "huge_pages",
    "file",
    "memlock",
    "cpu_state",
    "kubelet_reads",
    "module",
    "firmware",
)
"""Modules of this package, in the order in which an undo restores their kinds.

A VF count precedes the state of its port, because bnxt_en ignores a count while its port is down
(`bnxt_sriov_configure`). RDMA names follow the VF count: the RDMA device of a new VF takes the number of a device that
was renamed (`alloc_name`, drivers/infiniband/core/device.c), so the old name is free only after the VF is gone.
"""

KINDS: tuple[Kind[Any], ...] = tuple(import_module(f"trackbed.host.kinds.{name}").KIND for name in NAMES)

_BY_WANT = {want: kind for kind in KINDS for want in kind.wants}


def find_kind(want: object) -> Kind[Any]:
    """Return the kind that a wanted value belongs to."""
    return _BY_WANT[type(want)]
