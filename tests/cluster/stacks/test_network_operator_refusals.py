"""Which plans the stacks on NVIDIA's Network Operator refuse, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.stacks.fabric_of import DIRECT, FLAT, NONE, ROUTED, SHARED, fabric, named, problems
from trackbed.cluster.stacks.network_operator.ib_sriov import STACK as IB_SRIOV
from trackbed.cluster.stacks.network_operator.ipoib import STACK as IPOIB
from trackbed.cluster.stacks.network_operator.macvlan import STACK as MACVLAN
from trackbed.cluster.stacks.network_operator.sriov import STACK as SRIOV
from trackbed.cluster.stacks.stack import Stack

VFS: dict[str, Any] = {"vfs": {"count": 8}}
IB: dict[str, Any] = {"linkType": "infiniband"}
EXCLUSIVE: dict[str, Any] = {"pods": {"mode": "move"}}
WHEREABOUTS: dict[str, Any] = {"kubernetes": {"ipam": "whereabouts"}}
PKEY: dict[str, Any] = {"kubernetes": {"pkey": "0x8001"}}

POINT_TO_POINT = (
    "error: a /31 has no address besides the port's and its leaf's, so none is left for a VF: write scheme node-subnet "
    "or shared-subnet, or take network-operator-hostdevice, which moves the port itself [stack-scheme]"
)
NO_VFS = (
    "error: pods get virtual functions on this stack, and vfs.count is 0: write how many a port shall have, for "
    "example 8 [stack-needs-vfs]"
)
REFUSED: dict[str, tuple[Stack, dict[str, Any], str]] = {
    "sriov without VFs": (SRIOV, {"addressing": SHARED}, NO_VFS),
    "sriov on /31": (SRIOV, {"addressing": DIRECT, **VFS}, POINT_TO_POINT),
    "sriov on InfiniBand": (
        SRIOV,
        {"addressing": FLAT, **IB, **VFS},
        (
            "error: this stack is for Ethernet, and linkType is infiniband: take network-operator-ib-sriov "
            "[stack-link-type]"
        ),
    ),
    "sriov without addresses": (
        SRIOV,
        {"addressing": NONE, **VFS},
        (
            "error: RoCE needs IP addresses and scheme none plans none: write scheme shared-subnet or node-subnet "
            "[stack-scheme]"
        ),
    ),
    "sriov with too many VFs": (
        SRIOV,
        {"addressing": SHARED, "vfs": {"count": 129}},
        "error: 129 VFs a port; the operator and the NICs take 128 on ethernet: write 128 or less [stack-too-many-vfs]",
    ),
    "sriov without pod addresses": (
        SRIOV,
        {"addressing": ROUTED | {"podAddresses": 0}, **VFS, **EXCLUSIVE},
        (
            "error: no address is left for pods; write addressing.podAddresses, how many pods a node may have on a "
            "rail [stack-no-pod-addresses]"
        ),
    ),
    "whereabouts with a subnet a node": (
        SRIOV,
        {"addressing": ROUTED, **VFS, **WHEREABOUTS},
        (
            "error: whereabouts knows no nodes, and scheme node-subnet gives each node a subnet of its own: write ipam "
            "nv-ipam, or scheme shared-subnet [whereabouts-scheme]"
        ),
    ),
    "whereabouts with many nodes": (
        SRIOV,
        {"nodes": 61, "addressing": SHARED, **VFS, **WHEREABOUTS},
        (
            "error: whereabouts deals out addresses one at a time for the whole cluster, which is advised up to 60 "
            "nodes, and here are 61: write ipam nv-ipam [whereabouts-nodes]"
        ),
    ),
    "macvlan on InfiniBand": (
        MACVLAN,
        {"addressing": FLAT, **IB},
        "error: InfiniBand has no macvlan, and linkType is infiniband: take network-operator-ipoib [stack-link-type]",
    ),
    "macvlan in exclusive mode": (
        MACVLAN,
        {"addressing": SHARED, **EXCLUSIVE},
        (
            "error: pods share the port's RDMA device, and the RDMA namespace mode exclusive hides it from them: write "
            "rdma.namespaceMode shared [stack-rdma-mode]"
        ),
    ),
    "macvlan without addresses": (
        MACVLAN,
        {"addressing": NONE},
        (
            "error: scheme none leaves no address for an interface beside the port's: write scheme shared-subnet or "
            "node-subnet [stack-scheme]"
        ),
    ),
    "macvlan with unlike names": (
        MACVLAN,
        {"nodes": [named("ens", "a-[0-1]"), named("eth", "b-[0-1]")], "addressing": SHARED},
        (
            "error: a MacvlanNetwork names a rail's port, and rail 0 is called ens0 here and eth0 there: write PCI or "
            "MAC addresses instead of names in ports, so that names.netdev holds on all nodes [stack-port-names]"
        ),
    ),
    "ipoib on Ethernet": (
        IPOIB,
        {"addressing": SHARED},
        "error: IPoIB is for InfiniBand, and linkType is ethernet: take network-operator-macvlan [stack-link-type]",
    ),
    "ipoib with a subnet a node": (
        IPOIB,
        {"addressing": ROUTED, **IB},
        (
            "error: an InfiniBand rail is one IP subnet, and scheme is node-subnet: write scheme shared-subnet, or "
            "take network-operator-ib-sriov where pods need no IP addresses [stack-scheme]"
        ),
    ),
    "ipoib in a partition": (
        IPOIB,
        {"addressing": FLAT, **IB, **PKEY},
        (
            "error: an IPoIBNetwork has its parent interface's partition and names no PKey: leave out kubernetes.pkey, "
            "or take network-operator-ib-sriov [stack-pkey]"
        ),
    ),
    "InfiniBand VFs on Ethernet": (
        IB_SRIOV,
        {"addressing": SHARED, **VFS},
        "error: this stack is for InfiniBand, and linkType is ethernet: take network-operator-sriov [stack-link-type]",
    ),
    "too many InfiniBand VFs": (
        IB_SRIOV,
        {"addressing": NONE, **IB, "vfs": {"count": 17}},
        "error: 17 VFs a port; the operator and the NICs take 16 on infiniband: write 16 or less [stack-too-many-vfs]",
    ),
    "InfiniBand VFs with a subnet a node": (
        IB_SRIOV,
        {"addressing": ROUTED, **IB, **VFS},
        (
            "error: scheme node-subnet needs leaves that route IP, InfiniBand switches do not: write scheme "
            "shared-subnet, or none where pods need no IP addresses [stack-scheme]"
        ),
    ),
    "a partition and routes": (
        IB_SRIOV,
        {"addressing": SHARED, **IB, **VFS, **PKEY},
        (
            "error: a network with a PKey has no source routing in the pod, so rails cannot be routed to each other: "
            "write routing.crossRail isolated, or leave out kubernetes.pkey [stack-pkey]"
        ),
    ),
}


@pytest.mark.parametrize(("stack", "spec", "message"), REFUSED.values(), ids=REFUSED)
def test_a_plan_that_cannot_work_is_refused_with_what_to_write_instead(
    stack: Stack, spec: dict[str, Any], message: str
) -> None:
    assert problems(stack, fabric(**spec)) == [message]


CARRIED: dict[str, tuple[Stack, dict[str, Any]]] = {
    "sriov, shared": (SRIOV, {"addressing": SHARED, **VFS}),
    "sriov, routed": (SRIOV, {"addressing": ROUTED, **VFS}),
    "sriov, 60 nodes on whereabouts": (SRIOV, {"nodes": 60, "addressing": SHARED, **VFS, **WHEREABOUTS}),
    "macvlan, routed": (MACVLAN, {"addressing": ROUTED}),
    "ipoib": (IPOIB, {"addressing": FLAT, **IB}),
    "InfiniBand VFs, 16 of them": (IB_SRIOV, {"addressing": NONE, **IB, "vfs": {"count": 16}}),
    "InfiniBand VFs with addresses": (IB_SRIOV, {"addressing": FLAT, **IB, **VFS, **PKEY}),
}


@pytest.mark.parametrize(("stack", "spec"), CARRIED.values(), ids=CARRIED)
def test_a_plan_that_works_is_not_refused(stack: Stack, spec: dict[str, Any]) -> None:
    assert problems(stack, fabric(**spec)) == []
