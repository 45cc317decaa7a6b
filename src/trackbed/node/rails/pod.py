"""The inside of a pod: what is set there for an attachment, what is taken away, and whether it still is so.

Both modes end here. An interface has index 65536 + rail in the pod, so a batch can speak of it before it exists; it is
in group 0x54420000 + first rail, so that one message removes all of an attachment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from socket import AF_INET, AF_INET6
from typing import Final, NamedTuple

from trackbed.fabric.model.ranges import V4, V6
from trackbed.fabric.plan.plan import AddressPlan, CommonPlan
from trackbed.fabric.plan.routes import MAIN_TABLE, PlannedRoute, PlannedRule, build_fence, build_rule
from trackbed.kernel.netlink import addresses, links, routes, rules
from trackbed.kernel.netlink.netns import enter_netns
from trackbed.kernel.netlink.sockets import Socket
from trackbed.node.rails.attachment import Attachment, Port
from trackbed.node.rails.batch import ABSENT, NO_ROUTE, THERE, Step
from trackbed.node.rails.result import pod_routes
from trackbed.node.rails.sandbox import Sandbox

_FIRST_INDEX: Final = 1 << 16
_FIRST_GROUP: Final = 0x5442_0000
_GROUPS: Final = 1 << 12
_CONF: Final = {"rp_filter": 2, "arp_ignore": 1, "arp_announce": 2}
"""Why: Documentation/networking/ip-sysctl.rst, and the step routing of the host chain, which wants the same."""
_FAMILY: Final = {V4: AF_INET, V6: AF_INET6}


class Look(NamedTuple):
    """What is in the pod: how many of the attachment's interfaces, and everything that is not as it was attached."""

    interfaces: int
    differences: tuple[str, ...]


def index(rail: int) -> int:
    """The interface index of a rail in a pod."""
    return _FIRST_INDEX + rail


def group(attachment: Attachment) -> int:
    """The group of an attachment's interfaces."""
    return _FIRST_GROUP + attachment.first_rail


def is_ours(number: int) -> bool:
    """Whether a group of interfaces is one that `group` gives."""
    return _FIRST_GROUP <= number < _FIRST_GROUP + _GROUPS


def bring_up(attachment: Attachment, common: CommonPlan) -> Iterator[Step]:
    """Up, addresses, routes, rules: for interfaces that are in the pod already."""
    for port in attachment.ports:
        up = links.set_link(index(port.rail), up=True, ipv4_conf=_conf(attachment, port))
        yield Step(port.rail, f"bring up {port.name}", up)
    for port in attachment.ports:
        for own in port.addresses:
            message = addresses.add_address(_address(port.rail, own.addressed))
            yield Step(port.rail, f"add {own.text} to {port.name}", message)
    for rail, route in pod_routes(attachment, common):
        accepted = THERE if route.table == MAIN_TABLE else 0  # another attachment of this pod may have set it
        yield Step(
            rail, f"add route {route.to} to table {route.table}", routes.add_route(_route(rail, route)), accepted
        )
    for rail, own_rule in _rules(attachment, common):
        # The very same rule may be there: the fence is one for all attachments, and a crash may leave the others.
        yield Step(rail, f"add rule {own_rule.priority}", rules.add_rule(_rule(own_rule)), THERE)


def take_down(attachment: Attachment, common: CommonPlan, *, alone: bool) -> Iterator[Step]:
    """Away with what outlives the interfaces; the fence stays unless the attachment is `alone` in the pod."""
    for rail, own_rule in _rules(attachment, common):
        if own_rule.source or alone:
            yield Step(rail, f"delete rule {own_rule.priority}", rules.delete_rule(_rule(own_rule)), ABSENT)
    for rail, route in pod_routes(attachment, common):
        if route.unreachable:
            yield Step(rail, f"delete route of table {route.table}", routes.delete_route(_route(rail, route)), NO_ROUTE)


def look(attachment: Attachment, common: CommonPlan, sandbox: Sandbox) -> Look:
    """Compare the pod with what was attached."""
    with Socket(netns=sandbox.fd) as sock:
        found = {link.name: link for link in links.list_links(sock)}
        there = [port for port in attachment.ports if port.name in found and found[port.name].mac == port.mac]
        texts = (
            *_link_differences(attachment, found),
            *_address_differences(attachment, sock),
            *_route_differences(attachment, common, sock),
            *_rule_differences(attachment, common, sock),
            *_conf_differences(attachment, there, sandbox),
        )
    return Look(len(there), texts)


def _link_differences(attachment: Attachment, found: dict[str, links.Link]) -> Iterator[str]:
    for port in attachment.ports:
        link = found.get(port.name)
        if link is None:
            yield f"rail {port.rail}: {port.name} is missing"
            continue
        for what, have, want in (
            ("MAC", link.mac, port.mac),
            ("MTU", link.mtu, port.mtu_bytes),
            ("index", link.index, index(port.rail)),
        ):
            if have != want:
                yield f"rail {port.rail}: {what} of {port.name} is {have}, was {want}"
        if not link.up:
            yield f"rail {port.rail}: {port.name} is down"


def _address_differences(attachment: Attachment, sock: Socket) -> Iterator[str]:
    have = {(a.index, a.family, a.address, a.prefix): a for a in addresses.list_addresses(sock)}
    for port in attachment.ports:
        for own in port.addresses:
            wanted = _address(port.rail, own.addressed)
            found = have.get((wanted.index, wanted.family, wanted.address, wanted.prefix))
            if found is None:
                yield f"rail {port.rail}: address {own.text} is missing from {port.name}"
            elif found.flags & addresses.IFA_F_DADFAILED:
                yield f"rail {port.rail}: address {own.text} is in use elsewhere (duplicate address detection failed)"


def _route_differences(attachment: Attachment, common: CommonPlan, sock: Socket) -> Iterator[str]:
    have = {(r.family, r.table, r.dst, r.prefix, r.gateway, r.type) for r in routes.list_routes(sock)}
    for rail, route in pod_routes(attachment, common):
        want = _route(rail, route)
        if (want.family, want.table, want.dst, want.prefix, want.gateway, want.type) not in have:
            yield f"rail {rail}: route {route.to} is missing from table {route.table}"


def _rule_differences(attachment: Attachment, common: CommonPlan, sock: Socket) -> Iterator[str]:
    have = {(r.family, r.priority, r.table, r.src, r.src_prefix, r.dst, r.dst_prefix) for r in rules.list_rules(sock)}
    for rail, own_rule in _rules(attachment, common):
        want = _rule(own_rule)
        key = (want.family, want.priority, want.table, want.src, want.src_prefix, want.dst, want.dst_prefix)
        if key not in have:
            source = f"from {own_rule.source}" if own_rule.source else f"not to {own_rule.unless_to}"
            yield f"rail {rail}: rule {own_rule.priority} {source} lookup {own_rule.table} is missing"


def _conf_differences(attachment: Attachment, there: list[Port], sandbox: Sandbox) -> Iterator[str]:
    with enter_netns(sandbox.fd):
        have = {port.rail: ipv4_conf(port.name, _conf(attachment, port)) for port in there}
    for port in there:
        for key, want in _conf(attachment, port).items():
            if have[port.rail][key] != want:
                yield f"rail {port.rail}: {key} of {port.name} is {have[port.rail][key]}, was {want}"


def ipv4_conf(name: str, keys: Iterable[str]) -> dict[str, int]:
    """Sysctls of an interface in the namespace that the calling thread is in."""
    folder = Path("/proc/sys/net/ipv4/conf", name)
    return {key: int((folder / key).read_text()) for key in keys}


def _conf(attachment: Attachment, port: Port) -> dict[str, int]:
    mine = {own.addressed.subnet for own in port.addresses}
    others = {own.addressed.subnet for other in attachment.ports if other is not port for own in other.addresses}
    return _CONF | ({"arp_filter": 1} if mine & others else {})


def _rules(attachment: Attachment, common: CommonPlan) -> Iterator[tuple[int, PlannedRule]]:
    fenced: set[int] = set()
    for port in attachment.ports:
        for own in port.addresses:
            yield port.rail, build_rule(common, port.rail, own.addressed)
            outer = build_fence(common, own.addressed.version)
            if outer and own.addressed.version not in fenced:
                fenced.add(own.addressed.version)
                yield port.rail, outer


def _address(rail: int, own: AddressPlan) -> addresses.Address:
    flags = addresses.IFA_F_NODAD if own.version == V6 else 0  # a pod must be able to bind its address at once
    return addresses.Address(index(rail), _FAMILY[own.version], own.address, own.prefix, flags=flags)


def _route(rail: int, route: PlannedRoute) -> routes.Route:
    return routes.Route(
        family=_FAMILY[route.to.version],
        table=route.table,
        dst=route.to.base,
        prefix=route.to.prefix,
        oif=0 if route.unreachable else index(rail),
        gateway=route.gateway,
        prefsrc=route.source,
        scope=routes.RT_SCOPE_UNIVERSE if route.gateway or route.unreachable else routes.RT_SCOPE_LINK,
        type=routes.RTN_UNREACHABLE if route.unreachable else routes.RTN_UNICAST,
    )


def _rule(wanted: PlannedRule) -> rules.PolicyRule:
    to = wanted.source or wanted.unless_to
    assert to is not None  # noqa: S101 - plan.routes.Rule: exactly one of the two is given
    source, outer = wanted.source, wanted.unless_to
    return rules.PolicyRule(
        family=_FAMILY[to.version],
        priority=wanted.priority,
        table=wanted.table,
        src=source.base if source else 0,
        src_prefix=source.prefix if source else 0,
        dst=outer.base if outer else 0,
        dst_prefix=outer.prefix if outer else 0,
        invert=outer is not None,
    )
