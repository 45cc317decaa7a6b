"""The files that every format needs: kernel parameters, names of route tables, names of ports.

    /etc/sysctl.d/90-trackbed.conf                  sysctl.d(5); "-" because a port may come later than the file is read
    /etc/iproute2/rt_tables.d/trackbed.conf         ip-route(8): `ip route show table rail0`
    /etc/systemd/network/10-trackbed-rail0.link     systemd.link(5), read by udev whatever configures the network

Ports are recognised by PCI path or permanent MAC address, never by the order in which they appear. netplan's own
`match` knows no PCI address, so all formats share the .link file.
"""

from __future__ import annotations

from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.render.ports import Gathered, Port
from trackbed.host.setting import HEAD

SYSCTL = "/etc/sysctl.d/90-trackbed.conf"
TABLES = "/etc/iproute2/rt_tables.d/trackbed.conf"
NETWORKD = "/etc/systemd/network/10-trackbed-"


def render_common(node: NodePlan, gathered: Gathered) -> dict[str, str]:
    """Return the content of the shared files by path."""
    files = {SYSCTL: HEAD + "".join(f"-{want.key} = {want.value}\n" for want in gathered.sysctls)}
    tables = [rail for rail in node.common.rails if node.find_port(rail.rail)]
    files[TABLES] = HEAD + "".join(f"{rail.table}\trail{rail.rail}\n" for rail in tables)
    files.update({f"{NETWORKD}{port.name.netdev}.link": _render_link(port) for port in gathered.ports if port.renamed})
    return files


def render_ini(*sections: tuple[str, list[tuple[str, object]]]) -> str:
    """Render an INI file; order and repeated keys are kept, as systemd and NetworkManager require."""
    return HEAD + "".join(_render_section(name, entries) for name, entries in sections)


def _render_section(name: str, entries: list[tuple[str, object]]) -> str:
    return "".join([f"\n[{name}]\n", *(f"{key}={value}\n" for key, value in entries)])


def _render_link(port: Port) -> str:
    return render_ini(
        ("Match", list(_render_match(port))),
        ("Link", [("Name", port.name.netdev), ("AlternativeNamesPolicy", "database onboard slot path")]),
    )


def _render_match(port: Port) -> Iterator[tuple[str, object]]:
    if port.name.pci:
        yield "Path", f"pci-{port.name.pci}"
    else:
        yield "PermanentMACAddress", port.name.mac
