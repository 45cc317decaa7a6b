"""Removal of macvlans, rules and routes that a former attachment left in a pod without a record.

Macvlans are recognized by their group, rules by priority, routes by table. `move` returns ports and VFs.
"""

import errno
import logging
from collections.abc import Iterator

from trackbed.fabric.plan.plan import NodePlan
from trackbed.kernel.netlink import links, routes, rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import pod
from trackbed.node.rails.batch import NetlinkStep, send_steps
from trackbed.node.rails.deletion import delete_by_index
from trackbed.node.rails.sandbox import MAX_ENTRIES, Sandbox

_log = logging.getLogger(__name__)


def remove_macvlans(sandbox: Sandbox) -> bool:
    """Remove the macvlans of attachments from a pod; return whether there were any.

    Raises:
        StepsRefusedError: the kernel refused to remove something.
        NetlinkError: the pod changed its interfaces all the time, or has thousands.
    """
    with Socket(netns=sandbox.fd) as pod_socket:
        indexes = links.choose_from_links(pod_socket, lambda link: link.index if _is_macvlan_of_rails(link) else None)
        delete_by_index(pod_socket, indexes)
    if indexes:
        _log.warning("removed interfaces from a pod that has no record")
    return bool(indexes)


def remove_settings(node: NodePlan, sandbox: Sandbox) -> None:
    """Remove the rules and routes of rails from a pod.

    Raises:
        StepsRefusedError: the kernel refused to remove something.
        NetlinkError: the pod has too many of them.
    """
    with Socket(netns=sandbox.fd, max_entries=MAX_ENTRIES) as pod_socket:
        send_steps(pod_socket, [*_iter_rule_deletions(node, pod_socket), *_iter_route_deletions(node, pod_socket)])


def _is_macvlan_of_rails(link: links.Link) -> bool:
    """Return whether an interface is a macvlan of an attachment; a pod can put any interface into the group."""
    return link.kind == "macvlan" and pod.is_trackbed_group(link.group)


def _iter_rule_deletions(node: NodePlan, pod_socket: Socket) -> Iterator[NetlinkStep]:
    first = node.common.rule_priority - 1
    for rule in rules.list_rules(pod_socket):
        if first <= rule.priority <= first + len(node.common.rails):
            yield NetlinkStep(-1, f"delete rule {rule.priority}", rules.build_delete_rule(rule), errno.ENOENT)


def _iter_route_deletions(node: NodePlan, pod_socket: Socket) -> Iterator[NetlinkStep]:
    tables = {rail.table for rail in node.common.rails}
    for route in routes.list_routes(pod_socket):
        if route.table in tables and route.type == routes.RTN_UNREACHABLE:
            yield NetlinkStep(-1, f"delete route of table {route.table}", routes.build_delete_route(route), errno.ESRCH)
