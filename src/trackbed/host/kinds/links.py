"""Interfaces for undo: kept by index, which stays when the name changes. Batches of messages that may be refused."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trackbed.host.kinds.kind import Kept
from trackbed.host.kinds.view import View
from trackbed.host.machine import Machine
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.links import Link, list_links
from trackbed.kernel.netlink.sockets import BatchError, Socket

GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.EADDRNOTAVAIL, errno.ENODEV})
"""The kernel's answers where the thing to remove is not there: a rule, a route, an address, an interface."""


def keep_links(read: Callable[[Link], object]) -> Callable[[View], Kept]:
    """Return a function that keeps what `read` returns of each port, by interface index."""
    return lambda view: {str(link.index): read(link) for link in view.ports.values()}


def restore_links(
    machine: Machine, kept: Kept, subject: str, build: Callable[[list[tuple[Link, Any]]], list[Message]]
) -> Iterator[str]:
    """Send the messages that `build` returns for the existing links of `kept` (by index) and their kept values."""
    with machine.open_socket() as sock:
        links = [(link, kept[str(link.index)]) for link in list_links(sock) if str(link.index) in kept]
        yield from (f"{subject}: {reason}" for reason in send_batch(sock, build(links)))


def send_batch(sock: Socket, messages: Sequence[Message]) -> list[str]:
    """Send messages; return the kernel's errors, except those of removals whose target is already gone."""
    try:
        sock.send(messages)
    except BatchError as error:
        failures = [failure for failure in error.failures if failure.errno not in GONE]
        return [f"{os.strerror(failure.errno)} {failure.text}".rstrip() for failure in failures]
    return []
