"""Doctor's diagnosis of the host of this container.

Files and programs are read by the host's own Python in the host's namespaces, so that links and paths resolve as on the
host. The network is probed by this process, in the host's network namespace.
"""

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
"""The host, as seen from a container with hostPID."""
_NO_KUBERNETES = KubernetesPlan("", "", "", None, None, ())
"""A RailNode has no cluster data. Checks of one node need none."""


async def examine(machine: Machine, host: NodeHost, socket: Path, node: NodePlan) -> Diagnosis:
    """Return doctor's diagnosis of one node. Raises OSError, NetlinkError; DocumentError for a malformed answer."""
    outcome = await host.capture(node.name, await asyncio.to_thread(collect_reads, machine, node))
    if "snapshot" not in outcome.answer:
        raise OSError(outcome.told)
    snapshot = read_snapshot(outcome.answer["snapshot"])
    return await asyncio.to_thread(_diagnose, machine, node, socket, snapshot)


def _diagnose(machine: Machine, node: NodePlan, socket: Path, snapshot: Snapshot) -> Diagnosis:
    """Inspect and diagnose the node. Unpersisted files are left out: the preparer's comparison reports them."""
    plan = Plan(node.common, (node,), _NO_KUBERNETES)
    inspection = inspect_node(Subject(machine, node, partial(read_status, socket), host=snapshot), plan, Timeouts())
    return diagnose([replace(inspection, unpersisted_files=None)])
