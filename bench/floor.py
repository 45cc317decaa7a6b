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
from trackbed.kernel.netlink.addresses import Address, add_address
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.routes import RT_SCOPE_LINK, Route, add_route
from trackbed.kernel.netlink.rules import PolicyRule, add_rule, delete_rule
from trackbed.kernel.netlink.sockets import Socket

NOTHING: Final = ("/bin/true",)
ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}

_FIRST_INDEX: Final = 100
_GROUP: Final = 77
_FIRST_TABLE: Final = 100
_FIRST_PRIORITY: Final = 1000


def macvlan(made: Node) -> Callable[[Pod], Calls]:
    """8 macvlans made straight inside the pod; deleted all at once by their link group."""
    parents = [socket.if_nametoindex(name) for name in made.parents]

    def prepare(pod: Pod) -> Calls:
        create = [
            links.create_macvlan(f"net{n + 1}", parent, netns_fd=pod.fd, index=_FIRST_INDEX + n, group=_GROUP)
            for n, parent in enumerate(parents)
        ]
        address = list(_addressing(pod.slot))
        remove = [links.delete_group(_GROUP), *_clearing(pod.slot)]
        return Calls(lambda: _send(pod, create, address), lambda: _send(pod, [], remove))

    return prepare


def move(made: Node) -> Callable[[Pod], Calls]:
    """8 ready ports moved into the pod, and back under their old names and indexes."""
    home = os.open(Path("/proc/self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)

    def prepare(pod: Pod) -> Calls:
        ports = [(name, socket.if_nametoindex(name)) for name in made.ports[pod.slot]]
        there = [
            links.set_link(index, netns_fd=pod.fd, name=f"net{n + 1}", new_index=_FIRST_INDEX + n)
            for n, (_, index) in enumerate(ports)
        ]
        back = [
            links.set_link(_FIRST_INDEX + n, netns_fd=home, name=name, new_index=index)
            for n, (name, index) in enumerate(ports)
        ] + _clearing(pod.slot)
        address = list(_addressing(pod.slot))
        return Calls(lambda: _send(pod, there, address), lambda: _send(pod, [], back))

    return prepare


def one_move(made: Node) -> Callable[[Pod], Calls]:
    """One port moved into the pod and back, with nothing done to it: what the kernel takes for that alone."""
    home = os.open(Path("/proc/self/ns/net"), os.O_RDONLY | os.O_CLOEXEC)

    def prepare(pod: Pod) -> Calls:
        name = made.ports[pod.slot][0]
        index = socket.if_nametoindex(name)
        there = links.set_link(index, netns_fd=pod.fd, name="net1", new_index=_FIRST_INDEX)
        back = links.set_link(_FIRST_INDEX, netns_fd=home, name=name, new_index=index)
        return Calls(lambda: _send(pod, [there], []), lambda: _send(pod, [], [back]))

    return prepare


def through_exec(prepare: Callable[[Pod], Calls]) -> Callable[[Pod], Calls]:
    """A floor that begins with one exec of a program that does nothing: a runtime starts one for each pod."""

    def both(pod: Pod) -> Calls:
        add, delete = prepare(pod)
        return Calls(lambda: _after_exec(add), lambda: _after_exec(delete))

    return both


def _after_exec(work: Callable[[], None]) -> None:
    spawn.call(NOTHING, ENVIRONMENT)
    work()


def _send(pod: Pod, on_node: list[Message], in_pod: list[Message]) -> None:
    with Socket() as node_socket, Socket(netns=pod.fd) as pod_socket:
        node_socket.send(on_node)
        pod_socket.send(in_pod)


def _addressing(slot: int) -> Iterator[Message]:
    """Each link up, with an address, a connected and a default route in a table of its own, and a source rule."""
    for rail, rule in enumerate(_rules(slot)):
        index, net = _FIRST_INDEX + rail, _network(rail)
        yield links.set_link(index, up=True)
        yield add_address(Address(index, socket.AF_INET, rule.src, 24))
        yield add_route(Route(socket.AF_INET, rule.table, net, 24, oif=index, scope=RT_SCOPE_LINK))
        yield add_route(Route(socket.AF_INET, rule.table, oif=index, gateway=net + 1))
        yield add_rule(rule)


def _clearing(slot: int) -> list[Message]:
    """Rules stay when their link goes."""
    return [delete_rule(rule) for rule in _rules(slot)]


def _rules(slot: int) -> list[PolicyRule]:
    return [
        PolicyRule(socket.AF_INET, _FIRST_PRIORITY + rail, _FIRST_TABLE + rail, _network(rail) + 10 + slot, 32)
        for rail in range(RAILS)
    ]


def _network(rail: int) -> int:
    """172.30.RAIL.0."""
    return 172 << 24 | 30 << 16 | rail << 8
