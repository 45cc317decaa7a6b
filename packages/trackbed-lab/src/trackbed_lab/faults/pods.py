"""Faults of the steps cni and pod."""

from __future__ import annotations

from trackbed.kernel.netlink.routes import delete_route, list_routes
from trackbed.kernel.netlink.rules import delete_rule, list_rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError, read_links, send_messages, write_sysctl


def _pod(at: FaultTarget) -> str:
    found = at.lab.list_pods(at.node.name)
    if not found:
        raise UnsuitableError(f"this fault needs a pod on {at.node.name}; run `trackbed lab up --pods`")
    return found[0]


def _rail_name(at: FaultTarget) -> str:
    return at.node.common.rails[at.port.rail].pod_netdev


def _interface_exists(at: FaultTarget) -> None:
    if not at.is_on_host():
        raise UnsuitableError(f"the ports of {at.node.name} are inside a pod; take `trackbed lab up` without --pods")
    at.lab.attach_twin(at.node.name, "twin", _rail_name(at))


def _reset(at: FaultTarget) -> None:
    pod, name = _pod(at), _rail_name(at)
    for key in ("rp_filter", "arp_ignore", "arp_announce"):
        write_sysctl(at.lab, pod, f"net/ipv4/conf/{name}/{key}", "1" if key == "rp_filter" else "0")


def _reset_undone(at: FaultTarget) -> None:
    pod, name = _pod(at), _rail_name(at)
    for key, value in (("rp_filter", "2"), ("arp_ignore", "1"), ("arp_announce", "2")):
        write_sysctl(at.lab, pod, f"net/ipv4/conf/{name}/{key}", value)


def _no_routes(at: FaultTarget) -> None:
    pod = _pod(at)
    table, index = at.table, next(link.index for link in read_links(at.lab, pod) if link.name == _rail_name(at))
    with Socket(netns=at.lab.locate_netns(pod)) as sock:
        routes = [r for r in list_routes(sock, at.family, table) if r.oif == index]
        rules = [r for r in list_rules(sock, at.family) if r.table == table]
    send_messages(at.lab, pod, *(delete_route(r) for r in routes), *(delete_rule(r) for r in rules))


def _attached_again(at: FaultTarget) -> None:
    at.lab.reattach(at.node.name, _pod(at))


def _forgotten(at: FaultTarget) -> None:
    at.lab.forget_refusals(at.node.name)


FAULTS = (
    LabFault("cni-interface-exists", _interface_exists, _forgotten),
    LabFault("cni-interface-sysctls-reset", _reset, _reset_undone),
    LabFault("pod-rail-routes-missing", _no_routes, _attached_again),
)
