"""Boot unit and script that restore VFs and QoS of the ports at every boot, before kubelet starts.

    /etc/systemd/system/trackbed-boot.service                 runs the script once, after the ports have their names
    /etc/systemd/system/multi-user.target.d/90-trackbed.conf  makes each boot want it (systemd.unit(5), drop-ins)
    /etc/trackbed/boot.sh                                     writes what differs; sh(1), nothing of Trackbed

A plain drop-in, not `systemctl enable`, so that all of it is files that can be compared and put back.

The script writes files of sysfs and configfs. Two things only netlink can set: trust and spoof check of VFs, by ip(8),
and DCB (PFC, DSCP, traffic classes), by dcb(8). Where one of these programs is missing and its driver would take the
setting, the script says so in the journal; `trackbed apply` sets them without either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import file
from trackbed.host.kinds.registry import find_kind
from trackbed.host.setting import HEAD
from trackbed.host.steps.boot_script import TEXT

_SYSTEMD = ("/usr/lib/systemd/system/multi-user.target", "/lib/systemd/system/multi-user.target")
_QOS = ("/sys/class/net/*/ecn/roce_np", "/sys/class/infiniband/*")
_RELOAD = ("systemctl", "daemon-reload")


def build_files(node: NodePlan, wants: Iterable[object]) -> Iterator[file.Want]:
    """Yield the three files; none if nothing has to be restored.

    With VFs they need systemd on the host, without VFs a port with RDMA or QoS files.
    """
    ports = node.ports if node.common.vfs else ()
    lines = [f"await {port.netdev}\n" for port in ports]
    lines += [line for port in ports for line in _render_counts(node, port)]
    lines += ["settle\n"] if ports else []
    lines += [_render_guard(node, port) for port in ports if node.common.link_type == "ethernet"]
    lines += [find_kind(want).render_boot_line(want, node) for want in wants]
    if not any(lines):
        return
    needs = _SYSTEMD if node.common.vfs else _QOS
    lack = "there is no systemd here" if node.common.vfs else "no port has RDMA or QoS files"
    shebang, functions = TEXT.split("\n", 1)
    script = f"{shebang}\n{HEAD}{functions}{''.join(lines)}exit $failed\n"
    yield file.Want(file.BOOT_SCRIPT, script, needs, lack, mode=0o755)
    yield file.Want(file.BOOT_UNIT, _render_unit(node), needs, lack)
    yield file.Want(file.BOOT_WANTED, f"{HEAD}[Unit]\nWants=trackbed-boot.service\n", needs, lack, after=_RELOAD)


def _render_unit(node: NodePlan) -> str:
    ports = " ".join(f"sys-subsystem-net-devices-{_escape(port.netdev)}.device" for port in node.ports)
    return f"""{HEAD}[Unit]
Description=VFs and QoS of the rails of {node.common.fabric}
Wants={ports}
After=systemd-modules-load.service {ports}
Before=kubelet.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {file.BOOT_SCRIPT}
"""


def _escape(name: str) -> str:
    """Escape a name for use in a unit's name (systemd.unit(5), "String escaping")."""
    return "".join(sign if sign.isalnum() or sign in ":_." else f"\\x{ord(sign):02x}" for sign in name)


def _find_device(port: PortPlan) -> str:
    return f"/sys/bus/pci/devices/{port.pci}" if port.pci else f"/sys/class/net/{port.netdev}/device"


def _render_counts(node: NodePlan, port: PortPlan) -> Iterator[str]:
    yield f"put {_find_device(port)}/sriov_drivers_autoprobe 1\n"
    yield f"vfs {_find_device(port)} {node.common.vfs}\n"


def _render_guard(node: NodePlan, port: PortPlan) -> str:
    common = node.common
    switches = f"{_name_switch(on=common.vf_trust)} {_name_switch(on=common.vf_spoof_check)}"
    return f"guard {port.netdev} {_find_device(port)} {switches} {common.vf_mtu_bytes}\n"


def _name_switch(*, on: bool) -> str:
    return "on" if on else "off"
