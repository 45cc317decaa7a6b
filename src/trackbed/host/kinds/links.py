"""Undo of settings of interfaces, by interface index because names change; batches of netlink messages."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trackbed.host.kinds.kind import UndoData
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import Link, list_links
from trackbed.kernel.netlink.sockets import BatchError, Socket

TARGET_ABSENT = frozenset({errno.ENOENT, errno.ESRCH, errno.EADDRNOTAVAIL, errno.ENODEV})
"""The kernel's errors if the rule, route, address or interface to be removed or changed is absent."""


def build_undo_reader(read: Callable[[Link], object]) -> Callable[[View], UndoData]:
    """Return a `read_undo_data` function that calls `read` for each port; its results are by interface index."""
    return lambda view: {str(link.index): read(link) for link in view.ports.values()}


def restore_links(
    subject: str, build: Callable[[list[tuple[Link, Any]]], list[Message]], machine: Machine, undo_data: UndoData
) -> Iterator[str]:
    """Send the messages that `build` returns for the existing links and their values in `undo_data`; yield failures."""
    with machine.open_socket() as sock:
        links = [(link, undo_data[str(link.index)]) for link in list_links(sock) if str(link.index) in undo_data]
        yield from (f"{subject}: {reason}" for reason in send_batch(sock, build(links)))


def send_batch(sock: Socket, messages: Sequence[Message]) -> list[str]:
    """Send messages; return the kernel's errors as text, except those of absent targets (TARGET_ABSENT)."""
    try:
        sock.send(messages)
    except BatchError as error:
        failures = [failure for failure in error.failures if failure.errno not in TARGET_ABSENT]
        return [f"{os.strerror(failure.errno)} {failure.text}".rstrip() for failure in failures]
    return []
