"""Addresses, routes and rules for undo: kept as the kernel's own messages, so that nothing is lost in a translation."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from trackbed.host.kinds.links import send_batch
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL
from trackbed.host.state import list_families
from trackbed.kernel.netlink.addresses import Address
from trackbed.kernel.netlink.codec import Identity, Message
from trackbed.kernel.netlink.routes import Route
from trackbed.kernel.netlink.rules import PolicyRule
from trackbed.kernel.netlink.sockets import Socket

E = TypeVar("E", Address, Route, PolicyRule)


@dataclass(frozen=True, slots=True)
class KernelTable(Generic[E]):
    """One of the kernel's tables: how its entries are listed, told apart, removed (RTM_DEL*) and put back."""

    subject: str
    list_family: Callable[[Socket, int], tuple[E, ...]]
    identify: Callable[[bytes], Identity]
    removal: int
    passes: tuple[Callable[[bytes], Message], ...]
    """Builds the message that puts an entry back; a second pass is for entries that need others of the table."""


def encode_body(entry: Address | Route | PolicyRule) -> str:
    """Return the netlink body of an entry in base64, as it is stored in an undo record."""
    return b64encode(entry.body).decode()


def restore_entries(
    machine: Machine, table: KernelTable[E], kept: Iterable[str], is_planned: Callable[[E], bool] = lambda _: False
) -> Iterator[str]:
    """Restore missing entries, and remove entries with Trackbed's mark or for which `is_planned` is true."""
    bodies = {table.identify(body): body for body in map(b64decode, kept)}
    with machine.open_socket() as sock:

        def list_now() -> dict[Identity, E]:
            return {table.identify(entry.body): entry for entry in list_families(sock, table.list_family)}

        extra = [entry for identity, entry in list_now().items() if identity not in bodies]
        ours = [entry for entry in extra if entry.protocol == PROTOCOL or is_planned(entry)]
        send_batch(sock, [Message(table.removal, 0, entry.body) for entry in ours])
        for build in table.passes:
            now = list_now()
            send_batch(sock, [build(body) for identity, body in bodies.items() if identity not in now])
        if missing := len(bodies.keys() - list_now().keys()):
            yield f"{missing} {table.subject} could not be put back"
