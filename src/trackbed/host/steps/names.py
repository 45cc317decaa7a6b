"""Step names: every port carries its rail's name.

Wanted: the PF that the Fabric names by PCI address, MAC or kernel name is called as planned (`rail0`), so that every
later setting, every pod and every NCCL variable can speak of it. Written down in systemd.link(5).
Without it names follow the order in which drivers probe: after a card is swapped, rail 3 is configured as rail 4.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import name
from trackbed.host.setting import Setting

STEP = "names"
IS_RENDERED = True
HAS_FILES = False


def list_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield one name for each port."""
    for port in node.ports:
        want = name.Want(port.netdev, port.pci, port.mac, port.kernel_name)
        yield Setting(STEP, want, port.rail, f"rail {port.rail} is the port {_identify(port)}")


def _identify(port: PortPlan) -> str:
    return port.pci or port.mac or port.kernel_name or port.netdev
