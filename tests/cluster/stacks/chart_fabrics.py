"""Fabrics that use each feature by which the values of charts differ, and the releases of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.cluster.stacks.carried import carried
from tests.cluster.stacks.sites import INFINIBAND, NODE_SUBNET, NONE, POINT_TO_POINT, SHARED, VFS
from trackbed.cluster.stacks import load_stack
from trackbed.cluster.stacks.install.steps import InstallChart, build_steps
from trackbed.cluster.stacks.refusals import find_refusals
from trackbed.fabric.plan.plan import Plan

EXCLUSIVE, SHARED_RDMA = ({"rdma": {"namespaceMode": mode}} for mode in ("exclusive", "shared"))
WHEREABOUTS: dict[str, Any] = {"kubernetes": {"ipam": "whereabouts"}}
CONTAINER: dict[str, Any] = {"kubernetes": {"driver": "container"}}
OLD_DRIVER = {"kubernetes": {"versions": {"dra-driver-sriov": "network-operator-v26.4.0"}}}
OWN_NAMES = {"names": {"resource": "example.com/rail{rail}"}}
VF_FABRIC = {"addressing": SHARED, **VFS}
DUAL = {"addressing": SHARED | {"ipv6": "fd00:10::/32"}}
IPV6 = {"addressing": {"scheme": "shared-subnet", "ipv6": "fd00:10::/32", "gateway": "last"}}
NO_ADDRESSES = {"addressing": NONE, **VFS, **INFINIBAND}
PARTITION = {**NO_ADDRESSES, "kubernetes": {"pkey": "0x8001"}}

FABRICS: dict[str, dict[str, dict[str, Any]]] = {
    "network-operator-sriov": {
        "shared RDMA": VF_FABRIC | SHARED_RDMA,
        "exclusive RDMA": VF_FABRIC | EXCLUSIVE,
        "own resource prefix": VF_FABRIC | SHARED_RDMA | OWN_NAMES,
        "Whereabouts": VF_FABRIC | SHARED_RDMA | WHEREABOUTS,
        "driver container": VF_FABRIC | SHARED_RDMA | CONTAINER,
        "a subnet for each node": VF_FABRIC | SHARED_RDMA | {"addressing": NODE_SUBNET},
    },
    "network-operator-hostdevice": {
        "shared RDMA": {"addressing": POINT_TO_POINT, **SHARED_RDMA},
        "exclusive RDMA": {"addressing": POINT_TO_POINT, **EXCLUSIVE},
        "own resource prefix": {"addressing": POINT_TO_POINT, **SHARED_RDMA, **OWN_NAMES},
        "driver container": {"addressing": POINT_TO_POINT, **SHARED_RDMA, **CONTAINER},
    },
    "network-operator-macvlan": {
        "NV-IPAM": {"addressing": SHARED},
        "Whereabouts": {"addressing": SHARED, **WHEREABOUTS},
        "both IP versions": DUAL,
    },
    "network-operator-ipoib": {"NV-IPAM": {"addressing": SHARED | {"gateway": "none"}, **INFINIBAND}},
    "network-operator-ib-sriov": {
        "no addresses, a partition": PARTITION,
        "exclusive RDMA": NO_ADDRESSES | EXCLUSIVE,
        "NV-IPAM": {"addressing": SHARED, **VFS, **INFINIBAND},
        "Whereabouts": {"addressing": SHARED, **VFS, **INFINIBAND, **WHEREABOUTS},
    },
    "spectrum-x": {
        "exclusive RDMA": {"addressing": POINT_TO_POINT, "vfs": {"count": 1}},
        "own resource prefix": {"addressing": POINT_TO_POINT, "vfs": {"count": 1}, **OWN_NAMES},
    },
    "nic-configuration": {"Ethernet": VF_FABRIC, "InfiniBand": NO_ADDRESSES},
    "spiderpool": {
        "shared RDMA": VF_FABRIC | SHARED_RDMA,
        "exclusive RDMA": VF_FABRIC | EXCLUSIVE,
        "a subnet for each node": {"addressing": NODE_SUBNET, **VFS},
        "both IP versions": DUAL | VFS,
        "IPv6": IPV6 | VFS,
        "own resource prefix": VF_FABRIC | OWN_NAMES,
        "no VFs": {"addressing": SHARED},
        "no VFs, own resource prefix": {"addressing": SHARED, **OWN_NAMES},
        "InfiniBand": {"addressing": SHARED, **VFS, **INFINIBAND},
        "InfiniBand, no addresses, a partition": PARTITION,
    },
    "sriov-operator": {
        "NV-IPAM": VF_FABRIC,
        "a subnet for each node": {"addressing": NODE_SUBNET, **VFS},
        "Whereabouts": VF_FABRIC | WHEREABOUTS,
        "Whereabouts 0.9.2": VF_FABRIC | {"kubernetes": {"ipam": "whereabouts", "versions": {"whereabouts": "v0.9.2"}}},
        "own resource prefix": VF_FABRIC | OWN_NAMES,
        "InfiniBand": NO_ADDRESSES,
    },
    "dra-sriov": {
        "shared RDMA": VF_FABRIC | SHARED_RDMA,
        "Whereabouts": VF_FABRIC | SHARED_RDMA | WHEREABOUTS,
        "driver container": VF_FABRIC | SHARED_RDMA | CONTAINER,
        "DRA driver of 26.4.0": VF_FABRIC | SHARED_RDMA | OLD_DRIVER,
        "InfiniBand": NO_ADDRESSES,
    },
    "dranet": {"the ports themselves": {"addressing": POINT_TO_POINT}},
    "native": {"the agent": {"addressing": SHARED}},
}
"""Stack -> feature -> what the Fabric says; the first feature of a stack is what the others are compared with."""

CASES = [(stack, feature) for stack, features in FABRICS.items() for feature in features]


@cache
def compute_case(stack: str, feature: str) -> Plan:
    """Return the plan of a Fabric, which the stack must be able to carry."""
    plan = carried(**FABRICS[stack][feature])
    assert [str(problem) for problem in find_refusals(load_stack(stack), plan)] == []
    return plan


@cache
def list_charts(stack: str, feature: str) -> tuple[InstallChart, ...]:
    """Return the charts that the installation of a stack has, with their values."""
    steps = build_steps(load_stack(stack), compute_case(stack, feature))
    return tuple(step for step in steps if isinstance(step, InstallChart))


def iter_paths(values: Mapping[str, Any], ends: frozenset[str], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values and their paths, such as `ipam.enableIPv4`; the mappings in `ends` are values themselves."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping) and path not in ends:
            yield from iter_paths(value, ends, f"{path}.")
        else:
            yield path, value
