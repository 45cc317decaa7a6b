"""The steps of the host chain: each turns a NodePlan into wanted settings.

    cmdline     kernel arguments: IOMMU, huge pages, CPUs
    packages    packages of repositories, such as DOCA-OFED
    acs         PCIe bridges between NIC and GPU
    firmware    the NIC's own configuration (NVIDIA's)
    drivers     modules of the NIC, loaded now and at each boot
    rdma        namespace mode, RDMA device names
    vfs         virtual functions of each port
    names       the port of each rail is called railN
    addresses   MTU, up, one address for each IP version
    routing     a table, a rule and routes for each rail, the fence, the per-interface switches
    qos         traffic class, ECN, congestion notices; the unit that repeats them at each boot
    limits      sizes of the neighbour tables, locked memory
    kubelet     placement of pods by NUMA node
    runtime     locked memory of containers

A step is a module with `STEP`, its name, and `iter_settings(node)`, a pure function. It declares `IS_RENDERED` if its
settings are written to the files of the network and of kernel parameters (`host.render`), and `HAS_FILES` if it wants
files of Trackbed (kind file). To add a step, write its module and its line in `NAMES`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Protocol, cast

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.setting import Setting

NAMES = (
    "cmdline",
    "packages",
    "acs",
    "firmware",
    "drivers",
    "rdma",
    "vfs",
    "names",
    "addresses",
    "routing",
    "qos",
    "limits",
    "kubelet",
    "runtime",
)
"""The host chain, cause before effect: the first faulty step has the cause of later faults."""


class Step(Protocol):
    """The interface of a step's module."""

    STEP: str

    def iter_settings(self, node: NodePlan) -> Iterator[Setting]:
        """Yield the settings of the step for a node, in the order in which they must be made."""


STEPS = tuple(cast("Step", import_module(f"{__name__}.{name}")) for name in NAMES)
"""The modules in the order of the chain."""

RENDERED = frozenset(step.STEP for step in STEPS if hasattr(step, "IS_RENDERED"))
WITH_FILES = frozenset(step.STEP for step in STEPS if hasattr(step, "HAS_FILES"))


def iter_settings(node: NodePlan, steps: Collection[str] | None = None) -> tuple[Setting, ...]:
    """Return the settings of a node, of all steps or of those named, in the order in which they must be made."""
    chosen = [step for step in STEPS if steps is None or step.STEP in steps]
    return tuple(setting for step in chosen for setting in step.iter_settings(node))
