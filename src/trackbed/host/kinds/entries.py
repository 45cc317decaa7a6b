"""Undo of addresses, routes and rules. They are recorded as the kernel's own messages, so no attribute is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from trackbed.host.kinds.links import send_batch
from trackbed.host.machine import Machine
from trackbed.host.setting import PROTOCOL
from trackbed.host.state import list_both_families
from trackbed.kernel.netlink.addresses import Address
from trackbed.kernel.netlink.codec import Identity, Message
from trackbed.kernel.netlink.routes import Route
from trackbed.kernel.netlink.rules import PolicyRule
from trackbed.kernel.netlink.sockets import Socket

E = TypeVar("E", Address, Route, PolicyRule)


@dataclass(frozen=True)
class KernelTable(Generic[E]):
    """How entries of one kernel table are listed, identified, deleted (`delete_type`: RTM_DEL*) and restored."""

    subject: str
    list_family: Callable[[Socket, int], tuple[E, ...]]
    identify: Callable[[bytes], Identity]
    delete_type: int
    restore_passes: tuple[Callable[[bytes], Message], ...]
    """Each pass builds the message that restores an entry; a second pass restores entries that depend on others."""


def restore_entries(
    machine: Machine,
    table: KernelTable[E],
    undo_data: Iterable[bytes],
    is_planned: Callable[[E], bool] = lambda _: False,
) -> Iterator[str]:
    """Restore missing entries; remove unrecorded entries with Trackbed's mark or for which `is_planned` is true."""
    bodies = {table.identify(body): body for body in undo_data}
    with machine.open_socket() as sock:

        def list_present() -> dict[Identity, E]:
            return {table.identify(entry.body): entry for entry in list_both_families(sock, table.list_family)}

        extra = [entry for identity, entry in list_present().items() if identity not in bodies]
        ours = [entry for entry in extra if entry.protocol == PROTOCOL or is_planned(entry)]
        send_batch(sock, [Message(table.delete_type, 0, entry.body) for entry in ours])
        for build in table.restore_passes:
            now = list_present()
            send_batch(sock, [build(body) for identity, body in bodies.items() if identity not in now])
        if missing := len(bodies.keys() - list_present().keys()):
            yield f"{missing} {table.subject} could not be put back"
