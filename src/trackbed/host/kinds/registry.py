"""All kinds of setting. Undo restores them in this order: names come before what is set below a name."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trackbed.host.kinds.kind import Kind

NAMES = (
    "name",
    "mtu",
    "up",
    "sysctl",
    "rdma_namespaces",
    "rdma_name",
    "vf_probe",
    "vf_count",
    "attribute",
    "vf_guard",
    "vf_mtu",
    "dcb",
    "rdma_tos",
    "address",
    "route",
    "rule",
    "kernel_arguments",
    "huge_pages",
    "file",
    "memlock",
    "cpu_state",
    "kubelet_reads",
    "module",
    "firmware",
)
"""Modules beside this one."""

KINDS: tuple[Kind[Any], ...] = tuple(import_module(f"trackbed.host.kinds.{name}").KIND for name in NAMES)

_BY_WANT = {want: kind for kind in KINDS for want in kind.wants}


def find_kind(want: object) -> Kind[Any]:
    """Return the kind of a want."""
    return _BY_WANT[type(want)]
