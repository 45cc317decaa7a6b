"""netplan over networkd, with the file that MAAS has cloud-init write: `match` and `set-name` for every port.

Names are those that MAAS has found when it commissioned the machine (get_config of cloudinit/net/netplan.py).
"""

from trackbed_lab.vm.machine import ADDRESS, GATEWAY, MANAGEMENT, MANAGEMENT_MAC, PREFIX, build_mac

FILE = "/etc/netplan/91-trackbed-entries.yaml"
PACKAGES = ("netplan.io",)
UNITS = ()
"""netplan's generator enables networkd."""

_HEAD = f"""# This file is generated from information provided by the datasource.
network:
    ethernets:
        {MANAGEMENT}:
            addresses:
            - {ADDRESS}/{PREFIX}
            link-local: []
            match:
                macaddress: {MANAGEMENT_MAC}
            mtu: 1500
            routes:
            -   to: 0.0.0.0/0
                via: {GATEWAY}
            set-name: {MANAGEMENT}
"""
_PORT = """        {name}:
            dhcp4: true
            match:
                macaddress: {mac}
            mtu: 1500
            optional: true
            set-name: {name}
"""


def render_files(number: int, rails: int) -> dict[str, str]:
    """Return the file that cloud-init writes."""
    ports = (_PORT.format(name=f"enp{rail + 1}s0f0np0", mac=build_mac(number, rail)) for rail in range(rails))
    return {"etc/netplan/50-cloud-init.yaml": f"{_HEAD}{''.join(ports)}    version: 2\n"}
