"""Deletion of a pod's interfaces: of a group, without a wait until the kernel has freed their memory, and by index.

    0 ms    RTM_DELLINK for the whole group, sent by a thread
    2 ms    the kernel announces each deletion: interface unlisted, routes, addresses and MAC free   <- return
    18 ms   RCU grace period over, memory freed, RTM_DELLINK acknowledged; the thread ends

The pod, the runtime and the next pod see the same state at 2 ms as at 18 ms: unregister_netdevice_many() announces a
deletion once the interface is unlisted and stopped, then netdev_run_todo() waits without holding the RTNL lock. Where
an announcement is missing, because an interface was deleted before, the acknowledgement is awaited.
"""

import errno
import secrets
import select
import socket
import struct
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from typing import Final

from trackbed.kernel.netlink import codec, links
from trackbed.kernel.netlink.links import RTM_DELLINK
from trackbed.kernel.netlink.sockets import RECEIVE_BYTES, Socket, open_link_monitor
from trackbed.node.rails.batch import NetlinkStep, StepsRefusedError, send_steps

_IFINFOMSG: Final = struct.Struct("=4xi")  # struct ifinfomsg
_TIMEOUT_MS: Final = 15_000
_MAX_LATE: Final = 1000
"""Announcements read after the acknowledgement: more than a socket's buffer can have held before it."""

_BATCH: Final = 256
"""Interfaces that are deleted at once: one after the other they take 16 ms each, and a socket waits for 10 s."""


def delete_by_index(pod_socket: Socket, indexes: Sequence[int]) -> None:
    """Delete interfaces of a pod; those that are gone are no error.

    They are deleted as a group, since each deletion of its own waits 16 ms and a pod may have made thousands. No pod
    knows the group beforehand: the kernel deletes none of a group with an interface that it cannot delete.

    Raises:
        StepsRefusedError: the kernel refused to delete some.
        NetlinkError: the kernel did not answer.
    """
    action = "delete the pod's interfaces"
    for first in range(0, len(indexes), _BATCH):
        batch = indexes[first : first + _BATCH]
        group = secrets.randbits(31) | 1 << 31
        messages = [links.build_set_link(index, group=group) for index in batch] + [links.build_delete_group(group)]
        try:
            send_steps(pod_socket, [NetlinkStep(-1, action, message, errno.ENODEV) for message in messages])
        except StepsRefusedError:  # the pod has put another interface into the group meanwhile
            messages = [links.build_delete_link(index) for index in batch]
            send_steps(pod_socket, [NetlinkStep(-1, action, message, errno.ENODEV) for message in messages])


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
