"""What an attachment of ours left in a pod although no record of it exists any more: found by its marks, removed.

The marks: macvlans by their group, ports that moved by their index, rules by priority, routes by table.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from trackbed.fabric.plan.plan import NodePlan, PortPlan
from trackbed.kernel.netlink import links, routes, rules
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails import batch, hardware, pod
from trackbed.node.rails.batch import Step
from trackbed.node.rails.sandbox import Sandbox

_log = logging.getLogger(__name__)


def clear(node: NodePlan, sandbox: Sandbox, home: int) -> bool:
    """Remove them, ports to the namespace `home`; whether there were any. StepsRefusedError if something stays."""
    with Socket(netns=sandbox.fd) as inside:
        listed = links.list_links(inside)
        steps = [*_macvlans(listed), *_ports(node, listed, home)]
        if not steps:
            return False
        batch.send(inside, [*_rules(node, inside), *_routes(node, inside), *steps])
    _log.warning("removed interfaces from a pod that no record was found of")
    return True


def _macvlans(listed: tuple[links.Link, ...]) -> Iterator[Step]:
    for group in sorted({link.group for link in listed if link.kind == "macvlan" and pod.is_ours(link.group)}):
        yield Step(-1, "delete the pod's interfaces", links.delete_group(group), batch.GONE)


def _ports(node: NodePlan, listed: tuple[links.Link, ...], home: int) -> Iterator[Step]:
    by_index = {link.index: link for link in listed if link.kind != "macvlan"}
    for port in node.ports:
        found = by_index.get(pod.index(port.rail))
        if found is not None:
            name = home_name(node, port, found.parent_device)
            _log.warning("rail %d: %s goes back bare; `trackbed apply` sets it up", port.rail, name)
            message = links.set_link(found.index, name=name, netns_fd=home)
            yield Step(port.rail, f"move {name} back", message)


def home_name(node: NodePlan, port: PortPlan, device: str | None, sysfs: Path = hardware.SYSFS) -> str:
    """What the device at a PCI address is called at home: the port its name, a VF one after it, as systemd does.

    No record says what the VF was called.
    """
    found = (vf for vf in range(node.common.vfs) if hardware.vf(port.netdev, vf, sysfs).resolve().name == device)
    vf = next(found, None)
    return port.netdev if vf is None else f"{port.netdev}v{vf}"


def _rules(node: NodePlan, inside: Socket) -> Iterator[Step]:
    first = node.common.rule_priority - 1
    for rule in rules.list_rules(inside):
        if first <= rule.priority <= first + len(node.common.rails):
            yield Step(-1, f"delete rule {rule.priority}", rules.delete_rule(rule), batch.ABSENT)


def _routes(node: NodePlan, inside: Socket) -> Iterator[Step]:
    tables = {rail.table for rail in node.common.rails}
    for route in routes.list_routes(inside):
        if route.table in tables and route.type == routes.RTN_UNREACHABLE:
            yield Step(-1, f"delete route of table {route.table}", routes.delete_route(route), batch.NO_ROUTE)
