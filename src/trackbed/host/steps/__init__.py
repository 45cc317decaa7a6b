"""The steps of the host chain: each turns a NodePlan into wanted settings.

    cmdline     kernel arguments: IOMMU, huge pages, CPUs
    firmware    the NIC's own configuration (NVIDIA's)
    drivers     modules of the NIC
    rdma        namespace mode, RDMA device names
    vfs         virtual functions of each port
    names       the port of each rail is called railN
    addresses   MTU, up, one address for each IP version
    routing     a table, a rule and routes for each rail, the fence, the per-interface switches
    qos         traffic class, ECN, congestion notices; what is set again at each boot
    limits      neighbour tables large enough, locked memory
    kubelet     placement of pods by NUMA node
    runtime     locked memory of containers

A step is a module with `STEP`, its name, and `settings(node)`, a pure function. A new step is one module and one line
in `STEPS`, in the order of `setting.STEPS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.setting import Setting
from trackbed.host.steps import (
    addresses,
    cmdline,
    drivers,
    firmware,
    kubelet,
    limits,
    names,
    qos,
    rdma,
    routing,
    runtime,
    vfs,
)


class Step(Protocol):
    """What a module of this package offers."""

    STEP: str

    def settings(self, node: NodePlan) -> Iterator[Setting]:
        """What the step wants on `node`, in the order in which it must be set."""


STEPS: tuple[Step, ...] = (
    cmdline,
    firmware,
    drivers,
    rdma,
    vfs,
    names,
    addresses,
    routing,
    qos,
    limits,
    kubelet,
    runtime,
)
"""The steps there are, cause before effect."""


def settings(node: NodePlan, steps: Collection[str] | None = None) -> tuple[Setting, ...]:
    """All wanted settings of a node in the order in which they must be set; of some steps only, if named."""
    chosen = [step for step in STEPS if steps is None or step.STEP in steps]
    return tuple(setting for step in chosen for setting in step.settings(node))
