"""The switch port of each interface of a machine, by LLDP."""

import msgspec

from trackbed.host.discover.inventory import Inventory
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.netlink.sockets import Socket
from trackbed.kernel.wire import lldp
from trackbed.kernel.wire.netns_sockets import Netns


def add_neighbours(inventory: Inventory, netns: Netns, seconds: float) -> Inventory:
    """Listen for LLDP frames for `seconds`; return the inventory with the neighbours added.

    Raises ProbeError or OSError without permission to listen.
    """
    wanted = {nic.netdev for nic in inventory.nics if nic.netdev and nic.link == "ethernet"}
    with Socket(netns=netns) as sock:
        names = {link.index: link.name for link in list_links(sock) if link.name in wanted}
    if not names:
        return inventory
    neighbours = lldp.listen(netns, list(names), seconds).neighbours
    ports = {
        names[index]: f"{neighbour.system_name or neighbour.chassis_id} {neighbour.port_id}"
        for index, neighbour in neighbours.items()
    }
    return msgspec.structs.replace(inventory, neighbours=ports)
