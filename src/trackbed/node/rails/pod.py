"""The settings of an attachment inside its pod: their setup, removal and comparison, for all modes.

An interface has index 65536 + rail in the pod, so a batch can refer to it before it exists. It is in group
0x54420000 + first rail, so that one message removes all interfaces of an attachment.
"""

import errno
import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from socket import AF_INET
from typing import Final, NamedTuple

from trackbed.fabric.plan.plan import AddressPlan, CommonPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, PlannedRule, build_fence_rule, build_source_rule
from trackbed.host.kinds.planned_entries import (
    list_address_differences,
    list_route_differences,
    list_rule_differences,
    to_address,
    to_route,
    to_rule,
)
from trackbed.kernel.netlink import addresses, links, routes, rules
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.attachment import Attachment, PodPort
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps
from trackbed.node.rails.result import iter_pod_routes, list_planned_ports
from trackbed.node.rails.sandbox import MAX_ENTRIES, Sandbox

_log = logging.getLogger(__name__)

_FIRST_INDEX: Final = 1 << 16
_FIRST_GROUP: Final = 0x5442_0000
_GROUPS: Final = 1 << 12
_IPV4_SYSCTLS: Final = {"rp_filter": 2, "arp_ignore": 1, "arp_announce": 2}
"""Sysctls of each interface, as the step `routing` sets them on the host (Documentation/networking/ip-sysctl.rst)."""


class PodComparison(NamedTuple):
    """A pod compared with its attachment: the number of its interfaces that exist, and all differences as sentences."""

    interface_count: int
    differences: tuple[str, ...]


def get_interface_index(rail: int) -> int:
    """Return the interface index of a rail in a pod."""
    return _FIRST_INDEX + rail


def get_interface_group(attachment: Attachment) -> int:
    """Return the interface group of an attachment."""
    return _FIRST_GROUP + attachment.first_rail


def is_trackbed_group(group: int) -> bool:
    """Return whether an interface group belongs to an attachment."""
    return _FIRST_GROUP <= group < _FIRST_GROUP + _GROUPS


def iter_setup_steps(attachment: Attachment, common: CommonPlan) -> Iterator[NetlinkStep]:
    """Yield the steps that bring existing interfaces up and add their addresses, routes and rules."""
    for port in attachment.ports:
        up = links.build_set_link(
            get_interface_index(port.rail), up=True, ipv4_conf=_choose_ipv4_sysctls(attachment, port)
        )
        yield NetlinkStep(port.rail, f"bring up {port.name}", up)
    for port in attachment.ports:
        for address in port.addresses:
            message = addresses.build_add_address(_to_address(port, address.plan))
            yield NetlinkStep(port.rail, f"add {address.text} to {port.name}", message)
    for rail, route in iter_pod_routes(attachment, common):
        # Another attachment of this pod may have added this route to the main table.
        accepted = errno.EEXIST if route.table == MAIN_TABLE else 0
        message = routes.build_add_route(_to_route(rail, route))
        yield NetlinkStep(rail, f"add route {route.to} to table {route.table}", message, accepted)
    for rail, rule in _iter_rules(attachment, common):
        # The rule may exist: all attachments share the fence, and a crash may leave the other rules.
        message = rules.build_add_rule(_to_rule(rule))
        yield NetlinkStep(rail, f"add rule {rule.priority}", message, errno.EEXIST)


def iter_removal_steps(attachment: Attachment, common: CommonPlan, *, alone: bool) -> Iterator[NetlinkStep]:
    """Yield the steps that delete the rules and routes that would outlive the interfaces.

    The fence is kept unless the attachment is `alone` in the pod.
    """
    for rail, rule in _iter_rules(attachment, common):
        if rule.source or alone:
            message = rules.build_delete_rule(_to_rule(rule))
            yield NetlinkStep(rail, f"delete rule {rule.priority}", message, errno.ENOENT)
    for rail, route in iter_pod_routes(attachment, common):
        if route.unreachable:
            message = routes.build_delete_route(_to_route(rail, route))
            yield NetlinkStep(rail, f"delete route of table {route.table}", message, errno.ESRCH)


def clear_settings(attachment: Attachment, common: CommonPlan, sandbox: Sandbox, *, alone: bool) -> None:
    """Delete the rules and routes of an attachment. A refusal is logged: they end with the pod's namespace."""
    with Socket(netns=sandbox.fd) as sock:
        try:
            send_steps(sock, iter_removal_steps(attachment, common, alone=alone))
        except StepsRefusedError as error:
            _log.warning("%s: %s", attachment, error)


def compare(attachment: Attachment, common: CommonPlan, sandbox: Sandbox) -> PodComparison:
    """Return the differences between a pod and its attachment. Raises NetlinkError if the pod cannot be read."""
    with Socket(netns=sandbox.fd, max_entries=MAX_ENTRIES) as sock:
        by_name = {link.name: link for link in links.list_links(sock)}
        existing = [port for port in attachment.ports if port.name in by_name and by_name[port.name].mac == port.mac]
        differences = (
            *_compare_links(attachment, by_name),
            *_compare_addresses(attachment, sock),
            *_compare_routes(attachment, common, sock),
            *_compare_rules(attachment, common, sock),
            *_compare_sysctls(attachment, existing, sandbox),
        )
    return PodComparison(len(existing), differences)


def _compare_links(attachment: Attachment, links_by_name: dict[str, links.Link]) -> Iterator[str]:
    for port in attachment.ports:
        link = links_by_name.get(port.name)
        if link is None:
            yield f"rail {port.rail}: {port.name} is missing"
            continue
        for attribute, have, want in (
            ("MAC", link.mac, port.mac),
            ("MTU", link.mtu, port.mtu_bytes),
            ("index", link.index, get_interface_index(port.rail)),
        ):
            if have != want:
                yield f"rail {port.rail}: {attribute} of {port.name} is {have}, was {want}"
        if not link.is_up:
            yield f"rail {port.rail}: {port.name} is down"


def _compare_addresses(attachment: Attachment, sock: Socket) -> Iterator[str]:
    present = addresses.list_addresses(sock)
    for port in attachment.ports:
        for address in port.addresses:
            planned = _to_address(port, address.plan)
            key = (planned.index, planned.family, planned.address)
            rivals = [rival for rival in present if (rival.index, rival.family, rival.address) == key]
            if not rivals:
                yield f"rail {port.rail}: address {address.text} is missing from {port.name}"
            if any(rival.flags & addresses.IFA_F_DADFAILED for rival in rivals):
                yield (
                    f"rail {port.rail}: address {address.text} is in use elsewhere (duplicate address detection failed)"
                )
            differences = (list_address_differences(rival, planned) for rival in rivals)
            for difference in min(differences, key=len, default=()):
                yield f"rail {port.rail}: address {address.text} of {port.name}: {difference}"


def _compare_routes(attachment: Attachment, common: CommonPlan, sock: Socket) -> Iterator[str]:
    present = routes.list_routes(sock)
    for rail, route in iter_pod_routes(attachment, common):
        planned = _to_route(rail, route)
        key = (planned.family, planned.table, planned.dst, planned.prefix)
        rivals = [rival for rival in present if (rival.family, rival.table, rival.dst, rival.prefix) == key]
        if route.table == MAIN_TABLE and any(_is_of_other_attachment(rival, attachment, common) for rival in rivals):
            continue
        differences = [list_route_differences(rival, planned) for rival in rivals]
        if not differences:
            yield f"rail {rail}: route {route.to} is missing from table {route.table}"
        for difference in min(differences, key=len, default=()):
            yield f"rail {rail}: route {route.to} of table {route.table}: {difference}"


def _is_of_other_attachment(route: routes.Route, attachment: Attachment, common: CommonPlan) -> bool:
    """Return whether a route is over a rail that another attachment of the pod has: `iter_setup_steps` accepts it."""
    rail = route.oif - _FIRST_INDEX
    return 0 <= rail < len(common.rails) and rail not in {port.rail for port in attachment.ports}


def _compare_rules(attachment: Attachment, common: CommonPlan, sock: Socket) -> Iterator[str]:
    present = rules.list_rules(sock)
    for rail, rule in _iter_rules(attachment, common):
        planned = _to_rule(rule)
        rivals = [rival for rival in present if (rival.family, rival.priority) == (planned.family, planned.priority)]
        differences = [list_rule_differences(rival, planned) for rival in rivals]
        source = f"from {rule.source}" if rule.source else f"not to {rule.unless_to}"
        if not differences:
            yield f"rail {rail}: rule {rule.priority} {source} lookup {rule.table} is missing"
        for difference in min(differences, key=len, default=()):
            yield f"rail {rail}: rule {rule.priority} {source}: {difference}"


def _compare_sysctls(attachment: Attachment, ports: list[PodPort], sandbox: Sandbox) -> Iterator[str]:
    with enter_netns(sandbox.fd):
        have = {port.rail: read_ipv4_sysctls(port.name, _choose_ipv4_sysctls(attachment, port)) for port in ports}
    for port in ports:
        for key, want in _choose_ipv4_sysctls(attachment, port).items():
            if have[port.rail][key] != want:
                yield f"rail {port.rail}: {key} of {port.name} is {have[port.rail][key]}, was {want}"


def read_ipv4_sysctls(netdev: str, keys: Iterable[str]) -> dict[str, int]:
    """Return IPv4 sysctls of an interface in the network namespace of the calling thread."""
    folder = Path("/proc/sys/net/ipv4/conf", netdev)
    return {key: int((folder / key).read_text()) for key in keys}


def _choose_ipv4_sysctls(attachment: Attachment, port: PodPort) -> dict[str, int]:
    """Return the IPv4 sysctls of a port; arp_filter is set if another port of the pod has the same subnet."""
    subnets = {address.plan.subnet for address in port.addresses}
    others = {address.plan.subnet for other in attachment.ports if other is not port for address in other.addresses}
    return _IPV4_SYSCTLS | ({"arp_filter": 1} if subnets & others else {})


def _iter_rules(attachment: Attachment, common: CommonPlan) -> Iterator[tuple[int, PlannedRule]]:
    """Yield the rule of each address and one fence for each IP version, each with its rail."""
    fenced: set[int] = set()
    for port in list_planned_ports(attachment, common):
        for address in port.addresses:
            version = address.plan.version
            yield port.rail, build_source_rule(common, port.rail, address.plan)
            outer = build_fence_rule(common, version)
            if outer and version not in fenced:
                fenced.add(version)
                yield port.rail, outer


def _to_address(port: PodPort, address: AddressPlan) -> addresses.Address:
    entry = to_address(address, get_interface_index(port.rail), protocol=0)
    return replace(entry, label=port.name) if entry.family == AF_INET else entry  # the kernel labels it so anyway


def _to_route(rail: int, route: PlannedRoute) -> routes.Route:
    return to_route(route, get_interface_index(rail), routes.RTPROT_STATIC)


def _to_rule(rule: PlannedRule) -> rules.PolicyRule:
    return to_rule(rule, protocol=0)
