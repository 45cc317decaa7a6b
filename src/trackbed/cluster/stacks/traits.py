"""Traits: the facts about a stack by which a person chooses one. Each stack's module states its own.

Figures that depend on a Fabric are functions of its plan. Whether a number of API writes was measured or read in source
code stands beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from trackbed.fabric.plan.plan import Plan


class Share(StrEnum):
    """What a pod gets of a rail, and so how far it is isolated from other pods."""

    VF = "own VF"
    PORT = "own port"
    SHARED = "shared port"
    HOST = "the host's"
    NOTHING = "nothing"

    @property
    def isolation(self) -> str:
        """One line: what other pods of the node share with the pod."""
        return _ISOLATION[self]


_ISOLATION = {
    Share.VF: "each pod has its own interface and RDMA device in hardware; the port's bandwidth is shared",
    Share.PORT: "each pod has the whole port, with its bandwidth and its RDMA device",
    Share.SHARED: "each pod has its own interface and address; RDMA device, counters and bandwidth are the port's",
    Share.HOST: "none: jobs use the host's ports and see each other",
    Share.NOTHING: "attaches nothing",
}


@dataclass(frozen=True, slots=True)
class Writes:
    """Writes to the API server while a pod with all rails starts, besides those of a pod without rails."""

    count: int | None
    """None if unknown."""
    source: str
    """How the number is known: measured, read in source code, or why it is unknown."""
    is_minimum: bool = False
    """Whether there are further writes that were not counted."""


NO_PODS = Writes(None, "it has no pods")
UNKNOWN_WRITES = Writes(None, "neither measured nor read in source code")

Maturity = Literal["released", "preview", "new"]


@dataclass(frozen=True, slots=True)
class Traits:
    """Facts about a stack."""

    share: Callable[[Plan], Share]
    maturity: Maturity
    """released: its authors call it ready. preview: they do not. new: ready by its authors, and nobody relies on it."""
    maturity_reason: str
    """Who says so, or whose product it is."""
    writes: Callable[[Plan], Writes] = lambda _: UNKNOWN_WRITES
    pods: Callable[[Plan], int | None] | None = None
    """Pods with all rails that fit on a node. Default: by the share, the VFs and the addresses of a node."""
    kubernetes: str | None = None
    """Oldest version of Kubernetes. Default: that of the charts' releases."""
    operators: tuple[str, ...] = ()
    """Operators and plugins that the cluster must have besides the stack's charts."""
    feature_gates: tuple[str, ...] = ()
    """Feature gates that must be set, with the versions of Kubernetes in which they must."""
    ran: str = ""
    """When and where pods of this stack ran, by which programs, and what it showed; empty if none ran."""
    ran_share: Share | None = None
    """What those pods got of a rail, where the stack can give more than one share; None if all of them ran."""
    only_for: str = ""
    """The sites that this stack is for, as `OpenShift`; empty if it is for any cluster."""


def share_always(share: Share) -> Callable[[Plan], Share]:
    """Return a function for stacks whose share does not depend on the plan."""
    return lambda _: share


def count_node_addresses(plan: Plan) -> int | None:
    """Return the pods of a node for which the plan has addresses on every rail; None without addresses."""
    counts = (block.pods_count for node in plan.nodes for port in node.ports for block in port.addresses)
    return min(counts, default=None)


def count_pods(plan: Plan, share: Share, *, max_shared: int | None = None) -> int | None:
    """Return the pods with all rails that fit on a node, None if nothing limits them.

    Whereabouts knows no nodes: with it VFs are the limit. `max_shared` is the largest number of pods on a shared port.
    """
    addresses = count_node_addresses(plan) if plan.kubernetes.ipam == "nv-ipam" else None
    limits: dict[Share, tuple[int | None, ...]] = {
        Share.VF: (plan.common.vfs, addresses),
        Share.PORT: (1,),
        Share.SHARED: (count_node_addresses(plan), max_shared),
    }
    return min((limit for limit in limits.get(share, ()) if limit is not None), default=None)


def count_multus_writes(plan: Plan, writes_per_rail: int = 0, source: str = "", *, is_minimum: bool = False) -> Writes:
    """Return the writes of Multus and an IPAM: an event for each rail, the pod's status and eth0's event.

    `writes_per_rail` and `source` are those of the IPAM.
    """
    rails = len(plan.common.rails)
    if plan.kubernetes.ipam == "whereabouts" and not source and plan.common.has_addresses:
        writes_per_rail, source = 5, "; Whereabouts, measured: 5 a rail for its lease, pool and reservation"
    events = f"measured with Multus 4.3: the pod's status and {rails + 1} events"
    return Writes(2 + rails * (1 + writes_per_rail), events + source, is_minimum)


def count_claim_writes(plan: Plan) -> Writes:
    """Return the writes for one claim of all rails."""
    source = (
        "read in Kubernetes 1.36: the claim is created, its finalizer and its allocation are written, and the pod's "
        "status; the driver's writes were not counted"
    )
    return Writes(4 if plan.common.rails else 0, source, is_minimum=True)
