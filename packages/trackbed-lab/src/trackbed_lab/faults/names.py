"""Faults of the steps vfs and names."""

from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_delete_link, build_set_link
from trackbed.kernel.netlink.neighbours import flush_neighbours
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, read_link, send_messages


def _copy_mac(target: FaultTarget) -> None:
    """Give the peer's port on the same rail the MAC address of the port."""
    peer = target.peer
    port = peer.find_port(target.port.rail)
    link = read_link(target.lab, peer.name, port.netdev if port else target.port.netdev)
    send_messages(target.lab, peer.name, build_set_link(link.index, mac=target.read_link().mac))


def _restore_mac(target: FaultTarget) -> None:
    """Restore the peer's MAC address; flush the leaf's neighbours, which hold the copied one."""
    lab, peer = target.lab, target.peer
    port = peer.find_port(target.port.rail)
    if port and port.mac:
        send_messages(lab, peer.name, build_set_link(read_link(lab, peer.name, port.netdev).index, mac=port.mac))
    leaf, interface = lab.find_leaf_end(peer.name, target.port.rail)
    with Socket(netns=lab.locate_netns(leaf)) as sock:
        flush_neighbours(sock, read_link(lab, leaf, interface).index)


def _occupy_name(target: FaultTarget) -> None:
    """Rename the port to a temporary name of udev, and give its planned name to another interface."""
    port = target.read_link()
    target.send_messages(
        build_set_link(port.index, up=False),
        build_set_link(port.index, name="rename7"),
        build_create_veth(VethEnd(target.port.netdev), VethEnd("elsewhere")),
    )


def _free_name(target: FaultTarget) -> None:
    target.send_messages(build_delete_link(target.read_link().index))
    port = target.read_link("rename7")
    target.send_messages(build_set_link(port.index, name=target.port.netdev))


ON_HOST = True

FAULTS = (
    LabFault("vfs-mac-duplicate", _copy_mac, _restore_mac),
    LabFault("names-rename-conflict", _occupy_name, _free_name),
)
