"""Units and script that restore VFs and QoS of the ports at every boot, and whenever a driver makes a port anew.

    /etc/trackbed/boot.sh [PORT...]                           writes what differs; sh(1), nothing of Trackbed
    /etc/systemd/system/trackbed-port@.service                runs the script for one port, once for each of its devices
    /etc/systemd/system/trackbed-boot.target                  the units of all ports, before kubelet starts
    /etc/systemd/system/multi-user.target.d/90-trackbed.conf  makes each boot want it (systemd.unit(5), drop-ins)
    /etc/udev/rules.d/90-trackbed-ports.rules                 makes each port that appears want its unit

A driver that is loaded again (openibd, a driver container, a health recovery) makes its ports anew, without VFs and
QoS. A port's unit ends with its device (BindsTo=), and udev starts it with the next one (SYSTEMD_WANTS=,
systemd.device(5)). A port that returns from a pod's network namespace is a new device, too. So is a name that moves to
another device: the script leaves a port alone whose name is not on the planned PCI device.

Everything is enabled by files and not by `systemctl enable`, so that all parts can be compared and restored.

The script writes files of sysfs and configfs. Addresses, trust and spoof check of VFs need ip(8), and DCB (PFC, DSCP,
traffic classes) needs dcb(8). Without these programs the script logs to the journal which settings are missing;
`trackbed apply` needs neither.

Making VFs can hold the kernel's lock of all links (rtnl) for longer than systemd-networkd waits for an answer (25 s,
sd-netlink). It then gives up its port for good, which stays without addresses, so the script asks it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.host.kinds import file
from trackbed.host.kinds.registry import find_kind
from trackbed.host.setting import HEAD
from trackbed.host.steps.boot_script import TEXT
from trackbed.host.steps.vfs import build_address_want

_SYSTEMD = ("/usr/lib/systemd/system/multi-user.target", "/lib/systemd/system/multi-user.target")
_QOS = ("/sys/class/net/*/ecn/roce_np", "/sys/class/infiniband/*")
_RELOAD = ("systemctl", "daemon-reload")
_RELOAD_RULES = ("udevadm", "control", "--reload")
_TARGET = "trackbed-boot.target"
_KUBELETS = "kubelet.service rke2-server.service rke2-agent.service k3s.service k3s-agent.service"


def build_files(node: NodePlan, wants: Iterable[object]) -> Iterator[file.Want]:
    """Yield the files; nothing if the node needs no settings at boot.

    With VFs, the files need systemd on the host; without VFs, a port with RDMA or QoS files.
    """
    wanted = list(wants)
    sections = {port.netdev: "".join(_iter_lines(node, port, wanted)) for port in node.ports}
    if not any(sections.values()):
        return
    needs = _SYSTEMD if node.common.vfs else _QOS
    lack = "there is no systemd here" if node.common.vfs else "no port has RDMA or QoS files"
    yield file.Want(file.BOOT_SCRIPT, _render_script(sections), needs, lack, mode=0o755)
    yield file.Want(file.PORT_UNIT, _render_port_unit(node), needs, lack)
    yield file.Want(file.BOOT_TARGET, _render_target(node), needs, lack)
    yield file.Want(file.BOOT_WANTED, f"{HEAD}[Unit]\nWants={_TARGET}\n", needs, lack, reload_command=_RELOAD)
    yield file.Want(file.PORT_RULES, _render_rules(node), needs, lack, reload_command=_RELOAD_RULES)


def _render_script(sections: dict[str, str]) -> str:
    """Render the functions, then the lines of each port; without arguments, the script does all ports."""
    shebang, functions = TEXT.split("\n", 1)
    cases = "".join(f"\t{quote(name)})\n{_indent(lines)}\t\t;;\n" for name, lines in sections.items())
    everything = f"[ $# -gt 0 ] || set -- {' '.join(map(quote, sections))}\n"
    loop = f'for port; do\n\tcase "$port" in\n{cases}\tesac\ndone\nexit $failed\n'
    return f"{shebang}\n{HEAD}{functions}{everything}{loop}"


def _indent(lines: str) -> str:
    return "".join(f"\t\t{line}\n" for line in lines.splitlines())


def _render_port_unit(node: NodePlan) -> str:
    device = "sys-subsystem-net-devices-%i.device"
    return f"""{HEAD}[Unit]
Description=VFs and QoS of rail port %I of {node.common.fabric}
BindsTo={device}
After=systemd-modules-load.service {device}
Before={_KUBELETS}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {file.BOOT_SCRIPT} %I
"""


def _render_target(node: NodePlan) -> str:
    units = " ".join(map(_name_unit, node.ports))
    return f"""{HEAD}[Unit]
Description=VFs and QoS of the rails of {node.common.fabric}
Wants={units}
After={units}
Before={_KUBELETS}
"""


def _render_rules(node: NodePlan) -> str:
    """Render two rules for each port: NAME is set while a rule renames the port, KERNEL is the name it already has."""
    rules = "".join(
        f'{key}=="{port.netdev}", TAG+="systemd", ENV{{SYSTEMD_WANTS}}+="{_name_unit(port)}"\n'
        for port in node.ports
        for key in ("NAME", "KERNEL")
    )
    head = f'{HEAD}SUBSYSTEM!="net", GOTO="trackbed_end"\nACTION=="remove", GOTO="trackbed_end"\n'
    return f'{head}{rules}LABEL="trackbed_end"\n'


def _name_unit(port: PortPlan) -> str:
    return f"trackbed-port@{_escape_unit_name(port.netdev)}.service"


def _escape_unit_name(name: str) -> str:
    """Escape a name for use in a unit's name (systemd.unit(5), "String escaping")."""
    return "".join(sign if sign.isalnum() or sign in ":_." else f"\\x{ord(sign):02x}" for sign in name)


def _iter_lines(node: NodePlan, port: PortPlan, wants: Iterable[object]) -> Iterator[str]:
    """Yield the lines of a port: VFs first, because their creation resets some ports."""
    lines = [
        find_kind(want).render_boot_line(want, node)
        for want in wants
        if getattr(want, "netdev", port.netdev) == port.netdev
    ]
    if node.common.vfs or any(lines):
        yield f"await {quote(port.netdev)}\n"
        if port.pci:
            yield f"misnamed {quote(port.netdev)} {quote(port.pci)} && continue\n"
    if node.common.vfs:
        yield from _iter_vf_lines(node, port)
    if any(lines):
        yield f"verbs {quote(port.netdev)}\n"
        yield from lines


def _iter_vf_lines(node: NodePlan, port: PortPlan) -> Iterator[str]:
    common, folder, netdev = node.common, _get_device_folder(port), quote(port.netdev)
    yield f"up {netdev}\n"
    yield f"put {folder}/sriov_drivers_autoprobe 1\n"
    yield f"vfs {folder} {common.vfs}\n"
    yield "settle\n"
    yield f"show {netdev}\n"
    for vf in range(common.vfs):
        yield f"address {netdev} {folder} {vf} {build_address_want(node, port, vf).address}\n"
    if common.link_type == "ethernet":
        switches = f"{_format_switch(on=common.vf_trust)} {_format_switch(on=common.vf_spoof_check)}"
        yield f"guard {netdev} {folder} {switches} {common.vf_mtu_bytes}\n"
    yield f"managed {netdev}\n"


def _get_device_folder(port: PortPlan) -> str:
    return quote(f"/sys/bus/pci/devices/{port.pci}" if port.pci else f"/sys/class/net/{port.netdev}/device")


def _format_switch(*, on: bool) -> str:
    return "on" if on else "off"
