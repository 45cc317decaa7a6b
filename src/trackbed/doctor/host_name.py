"""Whether a machine is the node as which it is to be judged, by its host name and its MAC addresses.

The files of another node would be compared with the wrong plan, and each difference would look like a fault.
"""

import os
from pathlib import Path
from typing import Final

from trackbed.fabric.plan.plan import NodePlan, Plan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.recorded import is_captured, is_identified
from trackbed.host.snapshot.snapshot import Wanted
from trackbed.host.snapshot.take import read_snapshot

_CONFIGURED: Final = "/etc/hostname"
_RUNNING: Final = "/proc/sys/kernel/hostname"
"""The name of the reading process's host, except in an archive."""
_MACS: Final = Wanted(files=("/sys/class/net/*/address",))


def read_host_name(machine: Machine) -> str:
    """Return the host name of a machine without its domain.

    It is empty if the machine has none of its own: in a network namespace of this host, or in an archive in which a
    pseudonym replaced it. Raises ValueError if the record of an archive cannot be read.
    """
    if machine.root == Path("/"):
        return os.uname().nodename.partition(".")[0] if machine.netns is None else ""
    if is_captured(machine.root) and not is_identified(machine.root):
        return ""
    text = machine.read(_RUNNING if is_captured(machine.root) else _CONFIGURED)
    return text.partition(".")[0] if isinstance(text, str) else ""


def find_other_node(plan: Plan, node: NodePlan, machine: Machine, host_name: str) -> str:
    """Return the name of the planned node that the host name shows instead of `node`; empty if it shows no other.

    A machine with a MAC address that is planned for `node` is that node, whatever its host name is.
    """
    names = {_shorten(other.name): other.name for other in plan.nodes}
    other = names.get(_shorten(host_name), node.name)
    return "" if other == node.name or _has_planned_mac(machine, node) else other


def _shorten(name: str) -> str:
    return name.partition(".")[0].lower()


def _has_planned_mac(machine: Machine, node: NodePlan) -> bool:
    planned = {port.mac.lower() for port in node.ports if port.mac}
    files = read_snapshot(machine, _MACS).files.values() if planned else ()
    return any(content.decode(errors="replace").strip().lower() in planned for content in files)
