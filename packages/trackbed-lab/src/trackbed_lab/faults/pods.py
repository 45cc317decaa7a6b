"""Faults of the steps cni and pod."""

from trackbed.kernel.netlink.routes import build_delete_route, list_routes
from trackbed.kernel.netlink.rules import build_delete_rule, list_rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed_lab.faults.fault import LabFault
from trackbed_lab.faults.target import FaultTarget, UnsuitableError, read_links, send_messages, write_sysctl


def _find_pod(target: FaultTarget) -> str:
    pods = target.lab.list_pods(target.node.name)
    if not pods:
        raise UnsuitableError(f"this fault needs a pod on {target.node.name}; run `trackbed lab up --pods`")
    return pods[0]


def _find_interface_name(target: FaultTarget) -> str:
    return target.node.common.rails[target.port.rail].pod_netdev


def _attach_to_occupied(target: FaultTarget) -> None:
    if not target.is_on_host():
        raise UnsuitableError(
            f"the ports of {target.node.name} are inside a pod; take `trackbed lab up` without --pods"
        )
    target.lab.attach_twin(target.node.name, "twin", _find_interface_name(target))


def _reset_sysctls(target: FaultTarget) -> None:
    pod, name = _find_pod(target), _find_interface_name(target)
    for key in ("rp_filter", "arp_ignore", "arp_announce"):
        write_sysctl(target.lab, pod, f"net/ipv4/conf/{name}/{key}", "1" if key == "rp_filter" else "0")


def _restore_sysctls(target: FaultTarget) -> None:
    pod, name = _find_pod(target), _find_interface_name(target)
    for key, value in (("rp_filter", "2"), ("arp_ignore", "1"), ("arp_announce", "2")):
        write_sysctl(target.lab, pod, f"net/ipv4/conf/{name}/{key}", value)


def _delete_pod_routes(target: FaultTarget) -> None:
    pod = _find_pod(target)
    name, table = _find_interface_name(target), target.table
    index = next(link.index for link in read_links(target.lab, pod) if link.name == name)
    with Socket(netns=target.lab.locate_netns(pod)) as sock:
        routes = [route for route in list_routes(sock, target.family, table) if route.oif == index]
        rules = [rule for rule in list_rules(sock, target.family) if rule.table == table]
    send_messages(target.lab, pod, *map(build_delete_route, routes), *map(build_delete_rule, rules))


def _reattach_pod(target: FaultTarget) -> None:
    target.lab.reattach_pod(target.node.name, _find_pod(target))


def _clear_refusals(target: FaultTarget) -> None:
    target.lab.clear_refusals(target.node.name)


ON_HOST = False

FAULTS = (
    LabFault("cni-interface-exists", _attach_to_occupied, _clear_refusals),
    LabFault("cni-interface-sysctls-reset", _reset_sysctls, _restore_sysctls),
    LabFault("pod-rail-routes-missing", _delete_pod_routes, _reattach_pod),
)
