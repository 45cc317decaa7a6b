"""The interfaces of a namespace by PCI address: read again only when the kernel says that one of them has changed.

The kernel sends RTM_NEWLINK and RTM_DELLINK to RTNLGRP_LINK before the call that changed an interface returns.
"""

from __future__ import annotations

import errno
import socket
import threading

from tests.drivers import wire
from tests.drivers.wire import IFLA_IFALIAS, KernelSocket
from trackbed.kernel.netlink import codec, links, netns
from trackbed.kernel.netlink.sockets import NETLINK_ROUTE

_RTMGRP_LINK = 1


class Names:
    """Names, indices and MACs in a namespace (a descriptor), for the threads of a test and of its sysfs."""

    def __init__(self, namespace: int) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, int, str]] | None = None
        self._listing = KernelSocket(namespace)
        with netns.enter_netns(namespace):
            self._changes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, NETLINK_ROUTE)
        self._changes.bind((0, _RTMGRP_LINK))

    def close(self) -> None:
        """Close the sockets."""
        self._listing.close()
        self._changes.close()

    def forget(self) -> None:
        """Read them again: the alias of an interface that is down changes without a word (netdev_state_change)."""
        with self._lock:
            self._known = None

    def read(self) -> dict[str, tuple[str, int, str]]:
        """Return name, index and MAC of each interface by PCI address."""
        with self._lock:
            if self._drain() or self._known is None:
                self._known = {
                    codec.as_text(item[IFLA_IFALIAS]): (
                        codec.as_text(item[links.IFLA_IFNAME]),
                        index,
                        bytes(item[links.IFLA_ADDRESS]).hex(":"),
                    )
                    for index, item in wire.list_interfaces(self._listing._socket)  # noqa: SLF001 - the model's own
                    if IFLA_IFALIAS in item
                }
            return self._known

    def _drain(self) -> bool:
        """Read what the kernel sent meanwhile; tell whether it sent, or lost, anything."""
        is_changed = False
        while True:
            try:
                self._changes.recv(1 << 16)
            except BlockingIOError:
                return is_changed
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
            is_changed = True
