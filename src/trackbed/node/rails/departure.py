"""Deletes a pod's interfaces without waiting for the memory they leave behind.

    0 ms    RTM_DELLINK for the whole group, sent by a thread
    2 ms    the kernel announces each interface gone: out of the namespace, routes, addresses and MAC free   <- return
    18 ms   RCU grace period over, memory freed, RTM_DELLINK acknowledged; the thread ends

What a pod, a runtime and the next pod can see is the same at 2 ms as at 18: unregister_netdevice_many() announces once
the interface is unlisted and stopped; netdev_run_todo() then waits without holding the RTNL lock. Where an announcement
is missing, because an interface was gone before, the acknowledgement is waited for.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.links import RTM_DELLINK
from trackbed.kernel.netlink.sockets import Socket, open_link_monitor
from trackbed.node.rails import batch
from trackbed.node.rails.batch import Step

_INFO: Final = struct.Struct("=4xi")  # struct ifinfomsg
_RECEIVE_BYTES: Final = 1 << 16
_PATIENCE_MS: Final = 15_000
_THREADS: Final = 16


class Departures:
    """The threads that wait for the kernel."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, "departure")

    def delete(self, netns: int, step: Step, indexes: Iterable[int]) -> None:
        """Do `step`, which deletes interfaces; return when those with `indexes` are gone, or when it is acknowledged.

        Raises:
            StepsRefusedError: the kernel refused.
            NetlinkError: it did not answer.
        """
        ours, theirs = socket.socketpair()  # readable for us once the thread has closed its end
        with ours, open_link_monitor(netns) as announced:
            done = self._threads.submit(_send, Socket(netns=netns), step, theirs)
            if not _all_gone(announced, ours, set(indexes)):
                _acknowledged(done)


def _send(sock: Socket, step: Step, end: socket.socket) -> None:
    with end, sock:
        batch.send(sock, [step])


def _all_gone(announced: socket.socket, ended: socket.socket, awaited: set[int]) -> bool:
    """Whether the kernel announced all interfaces gone before the thread ended."""
    poll = select.poll()
    poll.register(announced, select.POLLIN)
    poll.register(ended, select.POLLIN)
    while awaited:
        ready = [fd for fd, _ in poll.poll(_PATIENCE_MS)]
        if announced.fileno() not in ready:
            return False
        try:
            awaited -= _gone(announced.recv(_RECEIVE_BYTES))
        except OSError:  # some were lost (ENOBUFS)
            return False
    return True


def _gone(datagram: bytes) -> set[int]:
    return {
        _INFO.unpack_from(message.body)[0] for message in codec.parse_messages(datagram) if message.type == RTM_DELLINK
    }


def _acknowledged(done: Future[None]) -> None:
    done.result(_PATIENCE_MS / 1000)
