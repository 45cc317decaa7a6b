"""Doctor on the host below this container.

Files and programs are read by the host's own Python, in its namespaces, so that links and paths mean what they mean
there; the network is asked from here, in the host's network namespace.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from trackbed.doctor.diagnosis import Diagnosis, diagnose
from trackbed.doctor.host_reads import collect_reads
from trackbed.doctor.inspection import Subject, inspect_node
from trackbed.doctor.probes import Timeouts
from trackbed.fabric.plan.plan import KubernetesPlan, NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.snapshot.wire import read_snapshot
from trackbed.node.rails.client import read_status
from trackbed.node.sync.host import NodeHost

HOST_MACHINE = Machine(Path("/proc/1/root"), Path("/proc/1/ns/net"))
"""The host as a container with hostPID sees it."""
_UNTOLD = KubernetesPlan("", "", "", None, None, ())
"""A RailNode says nothing of the cluster, and no check of a node asks."""


async def examine(machine: Machine, host: NodeHost, socket: Path, node: NodePlan) -> Diagnosis:
    """All that doctor says of one node by itself. Raises OSError, NetlinkError; DocumentError for a garbled answer."""
    told = await host.capture(node.name, await asyncio.to_thread(collect_reads, machine, node))
    if "snapshot" not in told.answer:
        raise OSError(told.told)
    found = read_snapshot(told.answer["snapshot"])
    return await asyncio.to_thread(partial(_diagnosed, machine, node, socket, found))


def _diagnosed(machine: Machine, node: NodePlan, socket: Path, found: Snapshot) -> Diagnosis:
    """Look and judge; whether the files for the next boot are there is told by the agent's own comparison."""
    alone = Plan(node.common, (node,), _UNTOLD)
    view = inspect_node(Subject(machine, node, partial(read_status, socket), host=found), alone, Timeouts())
    return diagnose([replace(view, unpersisted_files=None)])
