"""InfiniBand partitions on the SR-IOV operator alone: there are none."""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.model.problems import Problem
from trackbed.fabric.plan.plan import Plan


def refused_pkey(plan: Plan) -> Iterator[Problem]:
    """A problem where the Fabric wants a PKey, which a SriovIBNetwork cannot name."""
    if plan.kubernetes.pkey is not None:
        message = (
            "a SriovIBNetwork names no PKey, and this stack has no ib-kubernetes to set one: leave out "
            "kubernetes.pkey, or take network-operator-ib-sriov"
        )
        yield Problem("stack-pkey", message, ("spec", "kubernetes", "pkey"))
