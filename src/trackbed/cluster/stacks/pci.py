"""PCI addresses of ports, from the Fabric or decoded from interface names.

Interface names have the form `en[P<domain>]p<bus>s<slot>[f<function>][n<port>]` with decimal numbers
(systemd.net-naming-scheme(7)). For example enp122s0np0 is 0000:7a:00.0. Names with `d<dev_port>`, and names by slot or
firmware index (ens, eno), are not decoded.
"""

import re

from trackbed.fabric.plan.plan import PortPlan

_BY_PATH = re.compile(r"(?:en|ib)(?:P(\d{1,5}))?p(\d{1,3})s(\d{1,2})(?:f([0-7]))?(?:np?[0-9a-z]+)?")


def find_pci_address(port: PortPlan) -> str | None:
    """Return the PCI address of a port, such as 0000:7a:00.0; None if neither the Fabric nor the name contains it."""
    return port.pci or _parse_interface_name(port.kernel_name or port.netdev)


def _parse_interface_name(interface_name: str) -> str | None:
    match = _BY_PATH.fullmatch(interface_name)
    if match is None:
        return None
    domain, bus, slot, function = (int(part or 0) for part in match.groups())
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}" if bus < 256 and slot < 32 else None  # noqa: PLR2004 - PCI
