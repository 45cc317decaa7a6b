"""Fabrics that each stack can carry, in the shapes that matter: small for goldens, 4 and 64 nodes, unlike, dual."""

from __future__ import annotations

from typing import Any

from trackbed.cluster.stacks import MODULES
from trackbed.fabric.model.fabric import Fabric
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import Plan

HEAD = {"apiVersion": "trackbed.dev/v1alpha1", "kind": "Fabric", "metadata": {"name": "train"}}
SHARED = {"scheme": "shared-subnet", "ipv4": "10.0.0.0/12", "gateway": "last"}
NODE_SUBNET = {"scheme": "node-subnet", "ipv4": "10.0.0.0/12"}
POINT_TO_POINT = {"scheme": "point-to-point", "layout": "spectrum-x-2tier"}
NONE = {"scheme": "none"}
VFS = {"vfs": {"count": 8}}
INFINIBAND = {"linkType": "infiniband"}
CX7 = "15b3:1021"

_SPECIAL: dict[str, dict[str, Any]] = {
    "network-operator-sriov": {"addressing": SHARED, **VFS},
    "network-operator-hostdevice": {"addressing": POINT_TO_POINT},
    "network-operator-ipoib": {"addressing": SHARED | {"gateway": "none"}, **INFINIBAND},
    "network-operator-ib-sriov": {"addressing": NONE, **VFS, **INFINIBAND, "kubernetes": {"pkey": "0x8001"}},
    "spectrum-x": {"addressing": POINT_TO_POINT, "vfs": {"count": 1}},
    "nic-configuration": {"addressing": SHARED, **VFS},
    "spiderpool": {"addressing": NODE_SUBNET, **VFS},
    "sriov-operator": {"addressing": NODE_SUBNET, **VFS},
    "openshift": {"addressing": SHARED, **VFS},
    "dranet": {"addressing": POINT_TO_POINT},
    "dra-sriov": {"addressing": SHARED, **VFS, "rdma": {"namespaceMode": "shared"}},
    "bare-metal": {"addressing": POINT_TO_POINT},
    "kvm": {"addressing": SHARED, **VFS},
    "aws-efa": {"addressing": NONE},
    "azure": {"addressing": NONE, **INFINIBAND},
    "gke": {"addressing": NONE},
    "oci": {"addressing": NONE},
}

SITES: dict[str, dict[str, Any]] = {name: _SPECIAL.get(name, {"addressing": SHARED}) for name in MODULES}
"""Stack -> what its Fabric says besides nodes and rails; shared-subnet addressing unless the stack needs another."""

NO_DUAL = frozenset(name for name, site in SITES.items() if site["addressing"] == NONE)
"""Stacks without addresses of their own, so without two IP versions."""


def planned(stack: str, nodes: list[dict[str, Any]], rails: int, *, dual: bool = False) -> Plan:
    """The plan of a Fabric that `stack` can carry."""
    site = SITES[stack]
    addressing = site["addressing"] | ({"ipv6": "fd00:10::/32"} if dual else {})
    spec = {"nodes": nodes, "rails": rails, **site, "addressing": addressing, "otherRanges": {"docker": []}}
    return compute_plan(Fabric.model_validate(HEAD | {"spec": spec}), {})


def ports(rails: int, first_bus: int = 0x18) -> list[str]:
    """PCI addresses of so many ports."""
    return [f"0000:{first_bus + 8 * rail:02x}:00.0" for rail in range(rails)]


def alike(count: int, rails: int) -> list[dict[str, Any]]:
    """One group of equal nodes."""
    return [{"hosts": f"gpu-[0-{count - 1}]", "ports": ports(rails), "nic": CX7}]


def unlike() -> list[dict[str, Any]]:
    """Two groups: the second has its ports elsewhere, two of them at addresses that are other rails' in the first."""
    return [
        {"hosts": "gpu-[0-1]", "ports": ports(8), "nic": CX7},
        {"hosts": "big-[0-1]", "ports": ports(8, 0x20), "nic": "15b3:a2dc"},
    ]


SHAPES = {
    "4 nodes": (alike(4, 8), 8, False),
    "64 nodes": (alike(64, 8), 8, False),
    "unlike": (unlike(), 8, False),
    "dual": (alike(4, 8), 8, True),
}
"""Shape -> nodes, rails, whether both IP versions are planned."""
