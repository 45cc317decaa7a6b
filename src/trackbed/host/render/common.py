"""The files that all formats share: kernel parameters, names of route tables, names of ports.

    /etc/sysctl.d/90-trackbed.conf                  sysctl.d(5); "-" ignores ports that appear after the file is read
    /etc/iproute2/rt_tables.d/trackbed.conf         ip-route(8): `ip route show table rail0`
    /etc/systemd/network/10-trackbed-rail0.link     systemd.link(5), read by udev whatever configures the network

Ports are identified by PCI path or permanent MAC address, never by the order in which they appear. netplan's `match`
supports no PCI address, so all formats share the .link file. `Property` leaves out representors, subfunctions and VFs,
which a rule of step names marks; systemd before 243 ignores that line.
"""

from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.render.ports import NetworkSettings, Port
from trackbed.host.setting import HEAD
from trackbed.host.steps import names

SYSCTL = "/etc/sysctl.d/90-trackbed.conf"
TABLES = "/etc/iproute2/rt_tables.d/trackbed.conf"
NETWORKD = "/etc/systemd/network/10-trackbed-"


def render_common(node: NodePlan, settings: NetworkSettings) -> dict[str, str]:
    """Return the content of the shared files by path."""
    rails = [rail for rail in node.common.rails if node.find_port(rail.rail)]
    return {
        SYSCTL: HEAD + "".join(f"-{want.key} = {want.value}\n" for want in settings.sysctls),
        TABLES: HEAD + "".join(f"{rail.table}\trail{rail.rail}\n" for rail in rails),
        **{f"{NETWORKD}{port.name.netdev}.link": _render_link(port) for port in settings.ports if port.is_renamed},
    }


def render_ini(*sections: tuple[str, list[tuple[str, object]]]) -> str:
    """Render an INI file; order and repeated keys are kept, as systemd and NetworkManager require."""
    return HEAD + "".join(_render_section(name, entries) for name, entries in sections)


def _render_section(name: str, entries: list[tuple[str, object]]) -> str:
    return "".join([f"\n[{name}]\n", *(f"{key}={value}\n" for key, value in entries)])


def _render_link(port: Port) -> str:
    match = ("Path", f"pci-{port.name.pci}") if port.name.pci else ("PermanentMACAddress", port.name.mac)
    return render_ini(
        ("Match", [match, ("Property", f"!{names.MARK}=0")]),
        ("Link", [("Name", port.name.netdev), ("AlternativeNamesPolicy", "database onboard slot path")]),
    )
