"""Step vfs: each port has its planned virtual functions, and pods can use them.

    count       their number, and what creates them after a reboot
    binding     their drivers, and the port that they belong to
    owners      the pods that have them, and VFs that no pod has any more
    identity    MAC addresses and GUIDs
    limits      MTU, VLAN, trust and rates that the port sets for its VFs

Sources: sysfs (Documentation/PCI/pci-iov-howto.rst, Documentation/ABI/testing/sysfs-bus-pci) and netlink
(IFLA_VFINFO_LIST). A port whose function offers no VFs is a fault of step firmware and is skipped here.
"""

from collections.abc import Iterator

from trackbed.doctor.checks.vfs import binding, count, functions, identity, limits, owners
from trackbed.doctor.finding import Finding
from trackbed.doctor.view import NodeView

READS = functions.READS | count.READS | binding.READS | owners.READS | identity.READS
"""What these checks read of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Check every port's VFs; MAC addresses are checked even without the host's files."""
    yield from identity.check_macs(view)
    if view.host is None:
        return
    for module in (count, binding, owners, identity, limits):
        yield from module.check(view)
