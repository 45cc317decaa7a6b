"""Doctor's examination of the host of this container: its diagnosis, and its excerpt for checks between nodes.

Files and programs are read by this container's Python in the host's namespaces, so that links and paths resolve as on
the host. The network is probed by this process, in the host's network namespace.
"""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from trackbed.doctor.across.excerpt import NodeExcerpt, excerpt_node
from trackbed.doctor.diagnosis import Diagnosis, diagnose_nodes
from trackbed.doctor.host_reads import build_wanted
from trackbed.doctor.inspection import InspectionTarget, inspect_node
from trackbed.doctor.probes import ProbeTimeouts
from trackbed.fabric.plan.plan import KubernetesPlan, NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.snapshot import Snapshot
from trackbed.host.snapshot.wire import parse_snapshot
from trackbed.node.rails.client import read_status
from trackbed.node.sync.host import NodeHost

HOST_MACHINE = Machine(Path("/proc/1/root"), Path("/proc/1/ns/net"))
"""The host, as seen from a container with hostPID."""


class Examination(NamedTuple):
    """Doctor's diagnosis of a host, and the excerpt that checks between nodes need of it."""

    diagnosis: Diagnosis
    excerpt: NodeExcerpt


async def examine_host(machine: Machine, host: NodeHost, agent_socket: Path, node: NodePlan) -> Examination:
    """Examine the host of one node.

    Raises:
        OSError, NetlinkError: the host cannot be read.
        DocumentError: the snapshot of the host is malformed.
    """
    outcome = await host.capture_snapshot(node.name, await asyncio.to_thread(build_wanted, machine, node))
    if "snapshot" not in outcome.answer:
        raise OSError(outcome.message)
    snapshot = parse_snapshot(outcome.answer["snapshot"])
    return await asyncio.to_thread(_examine_snapshot, machine, node, agent_socket, snapshot)


def _examine_snapshot(machine: Machine, node: NodePlan, agent_socket: Path, snapshot: Snapshot) -> Examination:
    """Inspect and diagnose the node. Unpersisted files are ignored, because the preparer reports them."""
    no_cluster = KubernetesPlan("", "", "", None, None, ())  # a RailNode has no cluster data
    plan = Plan(node.common, (node,), no_cluster)
    target = InspectionTarget(machine, node, partial(read_status, agent_socket), host=snapshot)
    view = replace(inspect_node(target, plan, ProbeTimeouts()), unpersisted_files=None)
    return Examination(diagnose_nodes([view]), excerpt_node(view))
