"""Removal of interfaces, rules and routes that a former attachment left in a pod without a record.

Macvlans are recognized by their group, moved ports by their index, rules by priority, routes by table.
"""

import errno
import logging
from collections.abc import Iterator
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.kernel.netlink import links, routes, rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import hardware, pod
from trackbed.node.rails.batch import NetlinkStep, send_steps
from trackbed.node.rails.sandbox import Sandbox

_log = logging.getLogger(__name__)


def remove_leftovers(node: NodePlan, sandbox: Sandbox, host_netns: int) -> bool:
    """Remove leftovers and return whether there were any; ports move to the namespace `host_netns`.

    Raises:
        StepsRefusedError: the kernel refused to remove something.
    """
    with Socket(netns=sandbox.fd) as inside:
        listing = links.list_links(inside)
        steps = [*_delete_macvlans(listing), *_return_ports(node, listing, host_netns)]
        if not steps:
            return False
        send_steps(inside, [*_delete_rules(node, inside), *_delete_routes(node, inside), *steps])
    _log.warning("removed interfaces from a pod that has no record")
    return True


def _delete_macvlans(listing: tuple[links.Link, ...]) -> Iterator[NetlinkStep]:
    groups = {link.group for link in listing if link.kind == "macvlan" and pod.is_trackbed_group(link.group)}
    for group in sorted(groups):
        yield NetlinkStep(-1, "delete the pod's interfaces", links.delete_group(group), errno.ENODEV)


def _return_ports(node: NodePlan, listing: tuple[links.Link, ...], host_netns: int) -> Iterator[NetlinkStep]:
    by_index = {link.index: link for link in listing if link.kind != "macvlan"}
    for port in node.ports:
        link = by_index.get(pod.get_index(port.rail))
        if link is not None:
            name = choose_host_netdev_name(node, port, link.parent_device)
            _log.warning("rail %d: %s returns without its settings; `trackbed apply` sets it up", port.rail, name)
            message = links.set_link(link.index, name=name, netns_fd=host_netns)
            yield NetlinkStep(port.rail, f"move {name} back", message)


def choose_host_netdev_name(node: NodePlan, port: PortPlan, device: str | None, sysfs: Path = hardware.SYSFS) -> str:
    """Return the name that the device at a PCI address should have in the host's namespace.

    A port gets its planned name. A VF gets systemd's name, since only a record has its original one.
    """
    for vf in range(node.common.vfs):
        if hardware.locate_vf(port.netdev, vf, sysfs).resolve().name == device:
            return f"{port.netdev}v{vf}"
    return port.netdev


def _delete_rules(node: NodePlan, inside: Socket) -> Iterator[NetlinkStep]:
    first = node.common.rule_priority - 1
    for rule in rules.list_rules(inside):
        if first <= rule.priority <= first + len(node.common.rails):
            yield NetlinkStep(-1, f"delete rule {rule.priority}", rules.delete_rule(rule), errno.ENOENT)


def _delete_routes(node: NodePlan, inside: Socket) -> Iterator[NetlinkStep]:
    tables = {rail.table for rail in node.common.rails}
    for route in routes.list_routes(inside):
        if route.table in tables and route.type == routes.RTN_UNREACHABLE:
            yield NetlinkStep(-1, f"delete route of table {route.table}", routes.delete_route(route), errno.ESRCH)
