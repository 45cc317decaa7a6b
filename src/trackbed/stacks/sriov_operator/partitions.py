"""InfiniBand partitions on the SR-IOV operator alone: there are none."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.plan.plan import Plan
from trackbed.spec.problems import Problem


def refused_pkey(plan: Plan) -> Iterator[Problem]:
    """A problem where the Fabric wants a PKey, which a SriovIBNetwork cannot name."""
    if plan.kubernetes.pkey is not None:
        message = (
            "a SriovIBNetwork names no PKey, and this stack has no ib-kubernetes to set one: leave out "
            "kubernetes.pkey, or take network-operator-ib-sriov"
        )
        yield Problem("stack-pkey", message, ("spec", "kubernetes", "pkey"))
