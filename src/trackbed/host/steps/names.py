"""Step names: every port has the name of its rail.

Wanted: the port that the Fabric identifies by PCI address, MAC or kernel name has the planned name (`rail0`), which
later settings, pods and NCCL variables use (systemd.link(5)). Otherwise names depend on the order in which drivers
probe: after a card is replaced, rail 3 may be configured as rail 4.

Representors and subfunctions share the PCI address of their port, and all would get its name. A udev rule marks them by
phys_port_name (pf0vf1, c1pf0, pf0sf7; __devlink_port_phys_port_name_get of net/devlink/port.c), subfunctions also by
their auxiliary device (mlx5_core.sf.4), and VFs by their link `physfn`; the .link file skips what is marked
(`host.render.common`).
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import file, name
from trackbed.host.setting import HEAD, Setting

STEP = "names"
IS_RENDERED = True
HAS_FILES = True

MARK = "TRACKBED_IS_PORT"
"""Property of udev: "0" for a device that only shares a port's PCI or MAC address."""

_UDEV = ("/usr/bin/udevadm", "/bin/udevadm", "/sbin/udevadm")
_MATCHES = ('ATTR{phys_port_name}=="*pf[0-9]*"', 'KERNELS=="*.sf.[0-9]*"', 'TEST=="device/physfn"')
_RULES = HEAD + "".join(f'SUBSYSTEM=="net", ACTION!="remove", {match}, ENV{{{MARK}}}="0"\n' for match in _MATCHES)


def iter_settings(node: NodePlan) -> Iterator[Setting]:
    """Yield the name of each port, then the rules of udev."""
    for port in node.ports:
        want = name.Want(port.netdev, port.pci, port.mac, port.kernel_name)
        yield Setting(STEP, want, port.rail, f"rail {port.rail} is the port {_get_hardware_id(port)}")
    if any(port.pci or port.mac for port in node.ports):
        want_rules = file.Want(file.NAME_RULES, _RULES, _UDEV, "there is no udev here")
        yield Setting(STEP, want_rules, None, "only the port itself has its name after a reboot")


def _get_hardware_id(port: PortPlan) -> str:
    return port.pci or port.mac or port.kernel_name or port.netdev
