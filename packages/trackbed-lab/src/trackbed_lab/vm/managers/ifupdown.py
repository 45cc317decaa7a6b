"""ifupdown, as Debian's installer leaves it: one file, which sources the folder interfaces.d."""

from trackbed_lab.vm.machine import ADDRESS, GATEWAY, MANAGEMENT, PREFIX

FILE = "/etc/network/interfaces.d/trackbed"
PACKAGES = ("ifupdown",)
UNITS = ("networking.service",)

_INTERFACES = f"""# This file describes the network interfaces available on your system
source /etc/network/interfaces.d/*

auto lo
iface lo inet loopback

auto {MANAGEMENT}
iface {MANAGEMENT} inet static
    address {ADDRESS}/{PREFIX}
    gateway {GATEWAY}
"""


def render_files(_number: int, _rails: int) -> dict[str, str]:
    """Return the main file."""
    return {"etc/network/interfaces": _INTERFACES}
