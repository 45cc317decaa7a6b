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
from concurrent.futures import Executor
from typing import Final

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.links import RTM_DELLINK
from trackbed.kernel.netlink.sockets import RECEIVE_BYTES, Socket, open_link_monitor
from trackbed.node.rails.batch import NetlinkStep, send_steps

_IFINFOMSG: Final = struct.Struct("=4xi")  # struct ifinfomsg
_TIMEOUT_MS: Final = 15_000
_MAX_LATE: Final = 1000
"""Announcements read after the acknowledgement: more than a socket's buffer can have held before it."""


def delete_interfaces(threads: Executor, netns_fd: int, step: NetlinkStep, indexes: Iterable[int]) -> bool:
    """Send `step`, which deletes the interfaces with `indexes` in a network namespace; wait until they are deleted.

    Return whether the kernel announced all these deletions. If it did not, the interfaces had other indexes or were
    gone. One of `threads` waits for the kernel's acknowledgement.

    Raises:
        StepsRefusedError: the kernel refused the deletion.
        NetlinkError, TimeoutError: the kernel did not answer.
    """
    reader_end, thread_end = socket.socketpair()  # reader_end becomes readable once the thread has closed its end
    with reader_end, open_link_monitor(netns_fd) as monitor:
        acknowledgement = threads.submit(_send_deletion, Socket(netns=netns_fd), step, thread_end)
        if _wait_for_deletions(monitor, reader_end, set(indexes)):
            return True
        acknowledgement.result(_TIMEOUT_MS / 1000)
        return False


def _send_deletion(sock: Socket, step: NetlinkStep, thread_end: socket.socket) -> None:
    with thread_end, sock:
        send_steps(sock, [step])


def _wait_for_deletions(monitor: socket.socket, thread_end: socket.socket, indexes: set[int]) -> bool:
    """Return whether the kernel announced the deletion of all interfaces before the thread ended.

    A pod may keep the kernel announcing other changes, so the number of announcements after the end is limited.
    """
    poll = select.poll()
    poll.register(monitor, select.POLLIN)
    poll.register(thread_end, select.POLLIN)
    late = 0
    while indexes:
        ready = [fd for fd, _ in poll.poll(_TIMEOUT_MS)]
        late += thread_end.fileno() in ready
        if monitor.fileno() not in ready or late > _MAX_LATE:
            return False
        try:
            datagram, (sender, _) = monitor.recvfrom(RECEIVE_BYTES)
        except OSError:  # announcements were lost (ENOBUFS)
            return False
        if sender:  # a process of the pod, which may send to any netlink socket there
            continue
        indexes -= {
            _IFINFOMSG.unpack_from(message.body)[0]
            for message in codec.parse_messages(datagram)
            if message.type == RTM_DELLINK
        }
    return True
