"""systemd-networkd, which is in the usual tools."""

from trackbed_lab.vm.machine import ADDRESS, GATEWAY, MANAGEMENT, PREFIX

FILE = "/etc/systemd/network/10-trackbed-rail0.network"
PACKAGES = ()
UNITS = ("systemd-networkd.service",)

_NETWORK = f"""[Match]
Name={MANAGEMENT}
[Network]
Address={ADDRESS}/{PREFIX}
Gateway={GATEWAY}
LinkLocalAddressing=no
IPv6AcceptRA=no
"""


def render_files(_number: int, _rails: int) -> dict[str, str]:
    """Return the file of the management NIC."""
    return {"etc/systemd/network/05-lab.network": _NETWORK}
