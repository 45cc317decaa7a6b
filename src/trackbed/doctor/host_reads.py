"""Reading of a host for its checks: files, links and output of programs."""

from trackbed.doctor.checks import READS
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.snapshot import Snapshot, Wanted
from trackbed.host.snapshot.take import expand_ports, find_pci, read_snapshot


def take_snapshot(machine: Machine, node: NodePlan) -> Snapshot | None:
    """Return a snapshot of everything that host checks need; None if the machine shares its host (a container)."""
    if machine.shared_reason or not machine.locate("/proc/cmdline").exists():
        return None
    return read_snapshot(machine, build_wanted(machine, node))


def build_wanted(machine: Machine, node: NodePlan) -> Wanted:
    """Return what host checks need to read, with the names and PCI addresses of the node's ports filled in."""
    return expand_ports(READS, {port.netdev: port.pci or find_pci(machine, port.netdev) for port in node.ports})
