"""Faults of the steps vfs and names."""

from __future__ import annotations

from trackbed.kernel.netlink.links import VethEnd, create_veth, delete_link, set_link
from trackbed.kernel.netlink.neighbours import flush_neighbours
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, read_link, send_messages


def _same_mac(at: FaultTarget) -> None:
    other = at.peer
    port = other.port(at.port.rail)
    name = port.netdev if port else at.port.netdev
    theirs = read_link(at.lab, other.name, name)
    send_messages(at.lab, other.name, set_link(theirs.index, mac=at.read_link().mac))


def _own_mac(at: FaultTarget) -> None:
    port = at.peer.port(at.port.rail)
    if port and port.mac:
        send_messages(at.lab, at.peer.name, set_link(read_link(at.lab, at.peer.name, port.netdev).index, mac=port.mac))
    leaf, end = at.lab.find_leaf_end(at.peer.name, at.port.rail)
    with Socket(netns=at.lab.locate_netns(leaf)) as sock:  # it has learned the wrong MAC, and would keep it for a while
        flush_neighbours(sock, read_link(at.lab, leaf, end).index)


def _occupied_name(at: FaultTarget) -> None:
    port = at.read_link()
    at.send(
        set_link(port.index, up=False),
        set_link(port.index, name="rename7"),
        create_veth(VethEnd(at.port.netdev), VethEnd("elsewhere")),
    )


def _free_name(at: FaultTarget) -> None:
    at.send(delete_link(at.read_link().index))
    port = at.read_link("rename7")
    at.send(set_link(port.index, name=at.port.netdev))


FAULTS = (
    LabFault("vfs-mac-duplicate", _same_mac, _own_mac),
    LabFault("names-rename-conflict", _occupied_name, _free_name),
)
