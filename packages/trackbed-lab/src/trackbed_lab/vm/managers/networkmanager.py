"""NetworkManager with Debian's own configuration: ports without a profile get one, and DHCP."""

from trackbed_lab.vm.machine import ADDRESS, GATEWAY, MANAGEMENT, PREFIX

FILE = "/etc/NetworkManager/system-connections/trackbed-rail0.nmconnection"
PACKAGES = ("network-manager",)
UNITS = ("NetworkManager.service",)

_PROFILE = f"""[connection]
id={MANAGEMENT}
type=ethernet
interface-name={MANAGEMENT}
[ipv4]
method=manual
address1={ADDRESS}/{PREFIX},{GATEWAY}
[ipv6]
method=disabled
"""


def render_files(_number: int, _rails: int) -> dict[str, str]:
    """Return the profile of the management NIC."""
    return {f"etc/NetworkManager/system-connections/{MANAGEMENT}.nmconnection": _PROFILE}
