"""Faults of the steps cni and pod."""

from __future__ import annotations

from trackbed.kernel.netlink.routes import delete_route, list_routes
from trackbed.kernel.netlink.rules import delete_rule, list_rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import Fault
from trackbed_lab.faults.place import Place, UnsuitableError, do, links, set_sysctl


def _pod(at: Place) -> str:
    found = at.site.pods(at.node.name)
    if not found:
        raise UnsuitableError(f"this fault needs a pod on {at.node.name}; run `trackbed lab up --pods`")
    return found[0]


def _rail_name(at: Place) -> str:
    return at.node.common.rails[at.port.rail].pod_netdev


def _interface_exists(at: Place) -> None:
    if not at.is_here():
        raise UnsuitableError(f"the ports of {at.node.name} are inside a pod; take `trackbed lab up` without --pods")
    at.site.attach(at.node.name, "twin", _rail_name(at))


def _reset(at: Place) -> None:
    pod, name = _pod(at), _rail_name(at)
    for key in ("rp_filter", "arp_ignore", "arp_announce"):
        set_sysctl(at.site, pod, f"net/ipv4/conf/{name}/{key}", "1" if key == "rp_filter" else "0")


def _reset_undone(at: Place) -> None:
    pod, name = _pod(at), _rail_name(at)
    for key, value in (("rp_filter", "2"), ("arp_ignore", "1"), ("arp_announce", "2")):
        set_sysctl(at.site, pod, f"net/ipv4/conf/{name}/{key}", value)


def _no_routes(at: Place) -> None:
    pod = _pod(at)
    table, index = at.table, next(link.index for link in links(at.site, pod) if link.name == _rail_name(at))
    with Socket(netns=at.site.netns(pod)) as sock:
        routes = [r for r in list_routes(sock, at.family, table) if r.oif == index]
        rules = [r for r in list_rules(sock, at.family) if r.table == table]
    do(at.site, pod, *(delete_route(r) for r in routes), *(delete_rule(r) for r in rules))


def _attached_again(at: Place) -> None:
    at.site.reattach(at.node.name, _pod(at))


def _forgotten(at: Place) -> None:
    at.site.forget_refusals(at.node.name)


FAULTS = (
    Fault("cni-interface-exists", _interface_exists, _forgotten),
    Fault("cni-interface-sysctls-reset", _reset, _reset_undone),
    Fault("pod-rail-routes-missing", _no_routes, _attached_again),
)
