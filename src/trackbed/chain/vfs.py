"""Step vfs: every port has as many virtual functions as the plan gives to pods.

Written down in Documentation/PCI/pci-iov-howto.rst. The count comes before everything that configures a port, because
making VFs resets some ports; the next boot makes them in Trackbed's boot unit (`chain.boot`) before kubelet asks for
devices. Without it pods wait for devices that no node offers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.chain.setting import Setting, VfCount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.plan.plan import NodePlan

STEP = "vfs"


def settings(node: NodePlan) -> Iterator[Setting]:
    """One count for each port; nothing where the plan has no VFs: then they are another's affair."""
    count = node.common.vfs
    for port in node.ports if count else ():
        yield Setting(STEP, VfCount(port.netdev, port.pci, count), port.rail, f"pods take VFs of rail {port.rail}")
