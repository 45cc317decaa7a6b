"""The node of the pods: this process's private network namespace, and namespaces for pods."""

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from trackbed.kernel.netlink import netns
from trackbed.kernel.netlink.addresses import Address, build_add_address, list_addresses
from trackbed.kernel.netlink.links import VethEnd, build_create_veth, build_set_link, list_links
from trackbed.kernel.netlink.routes import RT_TABLE_MAIN, Route, build_add_route
from trackbed.kernel.netlink.sockets import Socket

RAILS: Final = 8
SLOTS: Final = 10
"""Number of pods at once; each has its own ports to move."""

NAMESPACE: Final = "bench"
"""Namespace of pods with rails."""

_UPLINK: Final = "uplink0"
_UPLINK_ADDRESS: Final = 172 << 24 | 18 << 16 | 1  # 172.18.0.1
_SETTLE_S: Final = 0.3


class Calls(NamedTuple):
    """The timed work of a pod."""

    add: Callable[[], None]
    delete: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Node:
    """`parents[rail]`: the port that carries macvlans. `ports[slot][rail]`: ports that move into the pod of a slot."""

    state: Path
    parents: tuple[str, ...]
    ports: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod with its network namespace, which `fd` holds open. `uid` is that of the API server."""

    name: str
    id: str
    slot: int
    netns: Path
    fd: int
    namespace: str = NAMESPACE
    uid: str = ""


def node(state: Path) -> Node:
    """Create the node's ports, veth pairs with both ends on the node, and an uplink."""
    parents = tuple(f"rail{rail}" for rail in range(RAILS))
    ports = tuple(tuple(f"p{slot}rail{rail}" for rail in range(RAILS)) for slot in range(SLOTS))
    _connect()
    _bring_up([name for group in (parents, *ports) for name in group])
    return Node(state, parents, ports)


def _connect() -> None:
    """Set up loopback and a default route, without which an API server does not start."""
    _bring_up([_UPLINK])
    index = socket.if_nametoindex(_UPLINK)
    with Socket() as kernel:
        message = build_add_address(Address(index, socket.AF_INET, _UPLINK_ADDRESS, 24))
        away = build_add_route(Route(socket.AF_INET, RT_TABLE_MAIN, oif=index, gateway=_UPLINK_ADDRESS + 1))
        kernel.send([build_set_link(socket.if_nametoindex("lo"), up=True), message, away])


def restore_ports(made: Node, slot: int) -> None:
    """Set the ports of a slot up, since a move sets them down; recreate ports that were deleted with a failed pod."""
    _bring_up(made.ports[slot])


def _bring_up(names: Sequence[str]) -> None:
    present = {name for _, name in socket.if_nameindex()}
    ends = [end for name in names for end in (name, f"{name}x")]
    with Socket() as kernel:
        kernel.send([build_create_veth(VethEnd(name), VethEnd(f"{name}x")) for name in names if name not in present])
        kernel.send([build_set_link(socket.if_nametoindex(end), up=True) for end in ends])


@contextlib.contextmanager
def pods(made: Node, count: int) -> Iterator[list[Pod]]:
    """Yield pods in slots 0 to count - 1; remove them afterwards, and wait for the kernel's clean-up.

    Slots from SLOTS on have no ports to move.
    """
    folder = made.state / "netns"
    folder.mkdir(exist_ok=True)
    running: list[Pod] = []
    try:
        running.extend(_pod(folder, slot) for slot in range(count))
        yield running
    finally:
        for pod in running:
            os.close(pod.fd)
            netns.delete_netns(pod.netns)
        time.sleep(_SETTLE_S)


def list_working_links(pod: Pod) -> list[str]:
    """Return the names of the pod's interfaces that are up and have an IPv4 address, without lo."""
    with Socket(netns=pod.fd) as kernel:
        addressed = {address.index for address in list_addresses(kernel, socket.AF_INET)}
        return [
            link.name for link in list_links(kernel) if link.is_up and link.index in addressed and link.name != "lo"
        ]


def _pod(folder: Path, slot: int) -> Pod:
    name = f"pod-{secrets.token_hex(4)}-{slot}"
    netns.create_netns(folder / name)
    return Pod(name, secrets.token_hex(32), slot, folder / name, os.open(folder / name, os.O_RDONLY | os.O_CLOEXEC))
