"""Deletion of a pod's interfaces that returns before the kernel has freed their memory.

    0 ms    RTM_DELLINK for the whole group, sent by a thread
    2 ms    the kernel announces each deletion: interface unlisted, routes, addresses and MAC free   <- return
    18 ms   RCU grace period over, memory freed, RTM_DELLINK acknowledged; the thread ends

The pod, the runtime and the next pod see the same state at 2 ms as at 18 ms: unregister_netdevice_many() announces a
deletion once the interface is unlisted and stopped, then netdev_run_todo() waits without holding the RTNL lock. Where
an announcement is missing, because an interface was deleted before, the acknowledgement is awaited.
"""

import select
import socket
import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.links import RTM_DELLINK
from trackbed.kernel.netlink.sockets import Socket, open_link_monitor
from trackbed.node.rails.batch import NetlinkStep, send_steps

_INFO: Final = struct.Struct("=4xi")  # struct ifinfomsg
_RECEIVE_BYTES: Final = 1 << 16
_TIMEOUT_MS: Final = 15_000
_THREADS: Final = 16


class InterfaceDeleter:
    """Deletes interfaces, with threads that wait for the kernel's acknowledgements."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "deletion")

    def delete(self, netns: int, step: NetlinkStep, indexes: Iterable[int]) -> None:
        """Send `step`, which deletes the interfaces with `indexes`; return once they are deleted.

        Raises:
            StepsRefusedError: the kernel refused.
            NetlinkError: the kernel did not answer.
        """
        ours, theirs = socket.socketpair()  # ours becomes readable once the thread has closed its end
        with ours, open_link_monitor(netns) as monitor:
            acknowledgement = self._threads.submit(_send, Socket(netns=netns), step, theirs)
            if not _wait_for_deletions(monitor, ours, set(indexes)):
                acknowledgement.result(_TIMEOUT_MS / 1000)


def _send(sock: Socket, step: NetlinkStep, end: socket.socket) -> None:
    with end, sock:
        send_steps(sock, [step])


def _wait_for_deletions(monitor: socket.socket, thread_end: socket.socket, indexes: set[int]) -> bool:
    """Return whether the kernel announced the deletion of all interfaces before the thread ended."""
    poll = select.poll()
    poll.register(monitor, select.POLLIN)
    poll.register(thread_end, select.POLLIN)
    while indexes:
        ready = [fd for fd, _ in poll.poll(_TIMEOUT_MS)]
        if monitor.fileno() not in ready:
            return False
        try:
            datagram = monitor.recv(_RECEIVE_BYTES)
        except OSError:  # announcements were lost (ENOBUFS)
            return False
        indexes -= {
            _INFO.unpack_from(message.body)[0]
            for message in codec.parse_messages(datagram)
            if message.type == RTM_DELLINK
        }
    return True
