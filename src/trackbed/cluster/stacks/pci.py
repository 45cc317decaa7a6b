"""PCI addresses of ports: as the Fabric gives them, or read from names that systemd made of them.

systemd.net-naming-scheme(7): `en[P<domain>]p<bus>s<slot>[f<function>][n<port>]`, numbers decimal. So enp122s0np0 is
0000:7a:00.0. `d<dev_port>` and names by slot or firmware index (ens, eno) tell no address.
"""

from __future__ import annotations

import re

from trackbed.fabric.plan.plan import PortPlan

_BY_PATH = re.compile(r"(?:en|ib)(?:P(\d{1,5}))?p(\d{1,3})s(\d{1,2})(?:f([0-7]))?(?:np?[0-9a-z]+)?")


def pci_address(port: PortPlan) -> str | None:
    """The port's PCI address, 0000:7a:00.0; None where neither Fabric nor name tells it."""
    return port.pci or _from_name(port.kernel_name or port.netdev)


def _from_name(name: str) -> str | None:
    found = _BY_PATH.fullmatch(name)
    if found is None:
        return None
    domain, bus, slot, function = (int(part or 0) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}" if bus < 256 and slot < 32 else None  # noqa: PLR2004 - PCI
