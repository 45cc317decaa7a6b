"""Faults of the steps vfs and names."""

from __future__ import annotations

from trackbed.kernel.netlink.links import VethEnd, create_veth, delete_link, set_link
from trackbed.kernel.netlink.neighbours import flush_neighbours
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import Fault
from trackbed_lab.faults.place import Place, do, link


def _same_mac(at: Place) -> None:
    other = at.peer
    port = other.port(at.port.rail)
    name = port.netdev if port else at.port.netdev
    theirs = link(at.site, other.name, name)
    do(at.site, other.name, set_link(theirs.index, mac=at.link().mac))


def _own_mac(at: Place) -> None:
    port = at.peer.port(at.port.rail)
    if port and port.mac:
        do(at.site, at.peer.name, set_link(link(at.site, at.peer.name, port.netdev).index, mac=port.mac))
    leaf, end = at.site.leaf_end(at.peer.name, at.port.rail)
    with Socket(netns=at.site.netns(leaf)) as sock:  # it has learned the wrong MAC, and would keep it for a while
        flush_neighbours(sock, link(at.site, leaf, end).index)


def _occupied_name(at: Place) -> None:
    port = at.link()
    at.do(
        set_link(port.index, up=False),
        set_link(port.index, name="rename7"),
        create_veth(VethEnd(at.port.netdev), VethEnd("elsewhere")),
    )


def _free_name(at: Place) -> None:
    at.do(delete_link(at.link().index))
    port = at.link("rename7")
    at.do(set_link(port.index, name=at.port.netdev))


FAULTS = (
    Fault("vfs-mac-duplicate", _same_mac, _own_mac),
    Fault("names-rename-conflict", _occupied_name, _free_name),
)
