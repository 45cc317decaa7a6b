"""What must be set again at every boot because the kernel keeps it nowhere: VFs and QoS of the ports, before kubelet.

    /etc/systemd/system/trackbed-boot.service                 runs the script once, after the ports have their names
    /etc/systemd/system/multi-user.target.d/90-trackbed.conf  makes each boot want it (systemd.unit(5), drop-ins)
    /etc/trackbed/boot.sh                                     writes what differs; sh(1) alone, nothing of Trackbed

A plain drop-in, not `systemctl enable`, so that all of it is files that can be compared and put back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trackbed.chain.setting import HEAD, Attribute, File

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.plan.plan import NodePlan, PortPlan

UNIT = "/etc/systemd/system/trackbed-boot.service"
WANTED = "/etc/systemd/system/multi-user.target.d/90-trackbed.conf"
SCRIPT = "/etc/trackbed/boot.sh"

_SYSTEMD = ("/usr/lib/systemd/system/multi-user.target", "/lib/systemd/system/multi-user.target")
_RELOAD = ("systemctl", "daemon-reload")

_FUNCTIONS = """\
failed=0
put() { # FILE VALUE: a driver that has no such file has nothing to set
\t[ -e "$1" ] || return 0
\techo "$2" >"$1" || failed=1
}
vfs() { # DEVICE COUNT: a count that is not 0 can only become 0
\tif [ ! -e "$1/sriov_numvfs" ]; then
\t\techo "trackbed: $1 offers no VFs" >&2
\t\tfailed=1
\t\treturn 0
\tfi
\tread -r have <"$1/sriov_numvfs" || :
\t[ "$have" = "$2" ] && return 0
\t[ "$have" = 0 ] || echo 0 >"$1/sriov_numvfs" || failed=1
\techo "$2" >"$1/sriov_numvfs" || failed=1
}
"""


def files(node: NodePlan, attributes: Iterable[Attribute]) -> Iterator[File]:
    """The three files; with nothing to set, none. Where the plan has no VFs they need a driver that has QoS files."""
    lines = [*(_vfs(node, port) for port in node.ports if node.common.vfs), *map(_put, attributes)]
    if not lines:
        return
    needs = _SYSTEMD if node.common.vfs else ("/sys/class/net/*/ecn/roce_np",)
    lack = "there is no systemd here" if node.common.vfs else "no port's driver has QoS files"
    script = f"#!/bin/sh\n{HEAD}{_FUNCTIONS}{''.join(lines)}exit $failed\n"
    yield File(SCRIPT, script, needs, lack, mode=0o755)
    yield File(UNIT, _unit(node), needs, lack)
    yield File(WANTED, f"{HEAD}[Unit]\nWants=trackbed-boot.service\n", needs, lack, after=_RELOAD)


def _unit(node: NodePlan) -> str:
    ports = " ".join(f"sys-subsystem-net-devices-{_escaped(port.netdev)}.device" for port in node.ports)
    return f"""{HEAD}[Unit]
Description=VFs and QoS of the rails of {node.common.fabric}
Wants={ports}
After=systemd-modules-load.service {ports}
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {SCRIPT}
"""


def _escaped(name: str) -> str:
    """A name as part of a unit's name (systemd.unit(5), "String escaping")."""
    return "".join(sign if sign.isalnum() or sign in ":_." else f"\\x{ord(sign):02x}" for sign in name)


def _vfs(node: NodePlan, port: PortPlan) -> str:
    folder = f"/sys/bus/pci/devices/{port.pci}" if port.pci else f"/sys/class/net/{port.netdev}/device"
    return f"vfs {folder} {node.common.vfs}\n"


def _put(want: Attribute) -> str:
    if "{rdma}" not in want.path:
        return f"put {want.path.format(netdev=want.netdev)} {want.value}\n"
    places = want.path.format(netdev=want.netdev, rdma="*")
    return f'for file in {places}; do put "$file" {want.value}; done\n'
