"""Step vfs: each port has the virtual functions that are planned, each usable by a pod.

    count       how many there are, and who makes them again after a reboot
    binding     what drives them, and the port they hang on
    owners      which pods have them, and what nobody has any more
    identity    MAC addresses and GUIDs
    limits      MTU, VLAN, trust and rates, as the port holds its VFs to them

Read from sysfs (Documentation/PCI/pci-iov-howto.rst, Documentation/ABI/testing/sysfs-bus-pci) and from netlink
(IFLA_VFINFO_LIST). A port whose function offers no VFs is the firmware's fault and none of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.doctor.checks.vfs import binding, count, functions, identity, limits, owners

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trackbed.doctor.finding import Finding
    from trackbed.doctor.view import NodeView

READS = functions.READS | count.READS | binding.READS | owners.READS | identity.READS
"""What these checks want to see of a host."""


def check(view: NodeView) -> Iterator[Finding]:
    """Judge every port's VFs; what needs netlink and peers only is judged without the host's files too."""
    yield from identity.check_macs(view)
    if view.host is None:
        return
    for part in (count, binding, owners, identity, limits):
        yield from part.check(view)
