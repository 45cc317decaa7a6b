"""All kinds of setting. Undo restores them in this order: names come before what is set below a name."""

from __future__ import annotations

from typing import Any

from trackbed.host.kinds import (
    address,
    attribute,
    cpu_state,
    dcb,
    file,
    firmware,
    huge_pages,
    kernel_arguments,
    kubelet_reads,
    memlock,
    module,
    mtu,
    name,
    rdma_name,
    rdma_namespaces,
    rdma_tos,
    route,
    rule,
    sysctl,
    up,
    vf_count,
    vf_guard,
    vf_mtu,
    vf_probe,
)
from trackbed.host.kinds.kind import Kind

KINDS: tuple[Kind[Any], ...] = (
    name.KIND,
    mtu.KIND,
    up.KIND,
    sysctl.KIND,
    rdma_namespaces.KIND,
    rdma_name.KIND,
    vf_probe.KIND,
    vf_count.KIND,
    attribute.KIND,
    vf_guard.KIND,
    vf_mtu.KIND,
    dcb.KIND,
    rdma_tos.KIND,
    address.KIND,
    route.KIND,
    rule.KIND,
    kernel_arguments.KIND,
    huge_pages.KIND,
    file.KIND,
    memlock.KIND,
    cpu_state.KIND,
    kubelet_reads.KIND,
    module.KIND,
    firmware.KIND,
)

_BY_WANT = {want: kind for kind in KINDS for want in kind.wants}


def find_kind(want: object) -> Kind[Any]:
    """Return the kind of a want."""
    return _BY_WANT[type(want)]
