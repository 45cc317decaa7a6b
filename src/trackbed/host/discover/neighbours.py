"""Which switch port each interface of a machine is cabled to, as LLDP tells."""

from __future__ import annotations

import msgspec

from trackbed.host.discover.inventory import Inventory
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire import lldp
from trackbed.kernel.wire.netns_sockets import Netns


def listened(inventory: Inventory, netns: Netns, seconds: float) -> Inventory:
    """The inventory with what switches said within some seconds. ProbeError and OSError where one may not listen."""
    wanted = {nic.netdev for nic in inventory.nics if nic.netdev and nic.link == "ethernet"}
    with Socket(netns=netns) as sock:
        names = {link.index: link.name for link in list_links(sock) if link.name in wanted}
    if not names:
        return inventory
    heard = lldp.listen(netns, list(names), seconds).neighbours
    said = {names[index]: f"{one.system_name or one.chassis_id} {one.port_id}" for index, one in heard.items()}
    return msgspec.structs.replace(inventory, neighbours=said)
