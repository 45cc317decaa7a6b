"""The floor: the same work for the kernel, by two batches of rtnetlink a pod and nothing else.

Message bodies are packed beforehand. Timed are opening a socket on the node and one in the pod, and two sends with
their acknowledgement; putting headers before 48 bodies is in it too, some 30 microseconds.
"""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench import spawn
from bench.node import RAILS, Calls, Node, Pod
from trackbed.kernel.netlink import links
from trackbed.kernel.netlink.addresses import Address, build_add_address
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, Route, build_add_route
from trackbed.kernel.netlink.rules import PolicyRule, build_add_rule, build_delete_rule
from trackbed.kernel.netlink.sockets import Socket

NOTHING: Final = ("/bin/true",)
ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

_FIRST_INDEX: Final = 100
_GROUP: Final = 77
_FIRST_TABLE: Final = 100
_FIRST_PRIORITY: Final = 1000


def macvlan(made: Node) -> Callable[[Pod], Calls]:
    """Create 8 macvlans directly inside the pod; delete them together by their link group."""
    parents = [socket.if_nametoindex(name) for name in made.parents]

    def prepare(pod: Pod) -> Calls:
        create = [
            links.build_create_macvlan(f"net{n + 1}", parent, netns_fd=pod.fd, index=_FIRST_INDEX + n, group=_GROUP)
            for n, parent in enumerate(parents)
        ]
        address = list(_iter_address_messages(pod.slot))
        remove = [links.build_delete_group(_GROUP), *_delete_rules(pod.slot)]
        return Calls(lambda: _send(pod, create, address), lambda: _send(pod, [], remove))

    return prepare


def move(made: Node) -> Callable[[Pod], Calls]:
    """Move 8 prepared ports into the pod, and back with their old names and indexes."""
    home = os.open(Path("/proc/self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)

    def prepare(pod: Pod) -> Calls:
        ports = [(name, socket.if_nametoindex(name)) for name in made.ports[pod.slot]]
        there = [
            links.build_set_link(index, netns_fd=pod.fd, name=f"net{n + 1}", new_index=_FIRST_INDEX + n)
            for n, (_, index) in enumerate(ports)
        ]
        back = [
            links.build_set_link(_FIRST_INDEX + n, netns_fd=home, name=name, new_index=index)
            for n, (name, index) in enumerate(ports)
        ] + _delete_rules(pod.slot)
        address = list(_iter_address_messages(pod.slot))
        return Calls(lambda: _send(pod, there, address), lambda: _send(pod, [], back))

    return prepare


def move_one_port(made: Node) -> Callable[[Pod], Calls]:
    """Move a single port into the pod and back without configuring it, to measure the move alone."""
    home = os.open(Path("/proc/self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)

    def prepare(pod: Pod) -> Calls:
        name = made.ports[pod.slot][0]
        index = socket.if_nametoindex(name)
        there = links.build_set_link(index, netns_fd=pod.fd, name="net1", new_index=_FIRST_INDEX)
        back = links.build_set_link(_FIRST_INDEX, netns_fd=home, name=name, new_index=index)
        return Calls(lambda: _send(pod, [there], []), lambda: _send(pod, [], [back]))

    return prepare


def add_exec(prepare: Callable[[Pod], Calls]) -> Callable[[Pod], Calls]:
    """Begin a floor with one exec of a program that does nothing, since a runtime execs one for each pod."""

    def prepare_both(pod: Pod) -> Calls:
        add, delete = prepare(pod)
        return Calls(lambda: _run_after_exec(add), lambda: _run_after_exec(delete))

    return prepare_both


def _run_after_exec(work: Callable[[], None]) -> None:
    spawn.call(NOTHING, ENVIRONMENT)
    work()


def _send(pod: Pod, on_node: list[Message], in_pod: list[Message]) -> None:
    with Socket() as node_socket, Socket(netns=pod.fd) as pod_socket:
        node_socket.send(on_node)
        pod_socket.send(in_pod)


def _iter_address_messages(slot: int) -> Iterator[Message]:
    """Yield messages that give each link an address, two routes in its own table and a source rule, and set it up."""
    for rail, rule in enumerate(_rules(slot)):
        index, net = _FIRST_INDEX + rail, _network(rail)
        yield links.build_set_link(index, up=True)
        yield build_add_address(Address(index, socket.AF_INET, rule.src, 24))
        yield build_add_route(Route(socket.AF_INET, rule.table, net, 24, oif=index, scope=RT_SCOPE_LINK))
        yield build_add_route(Route(socket.AF_INET, rule.table, oif=index, gateway=net + 1))
        yield build_add_rule(rule)


def _delete_rules(slot: int) -> list[Message]:
    """Return messages that delete the rules, which remain when their link is deleted."""
    return [build_delete_rule(rule) for rule in _rules(slot)]


def _rules(slot: int) -> list[PolicyRule]:
    return [
        PolicyRule(socket.AF_INET, _FIRST_PRIORITY + rail, _FIRST_TABLE + rail, _network(rail) + 10 + slot, 32)
        for rail in range(RAILS)
    ]


def _network(rail: int) -> int:
    """172.30.RAIL.0."""
    return 172 << 24 | 30 << 16 | rail << 8
