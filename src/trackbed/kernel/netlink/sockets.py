"""Netlink sockets: batches of messages, requests, dumps, and errors that name the failed message.

    NetlinkError (codec)
      MalformedError       malformed message, or too many replies
      ReplyTimeoutError    the kernel did not reply in time
      OverrunError         replies were lost, or too many for the caller: a listing is incomplete, sent messages may
                           have been applied
      RequestError         the kernel refused a request: `errno`, `text` (its extended ACK)
      BatchError           messages of a batch failed: `failures` lists (index, errno, text)

The kernel processes the messages of one sendmsg in order and continues after a failure. So a BatchError lists every
message that failed, not the point where the batch stopped. The kernel reports each failure in order, even without
NLM_F_ACK: only the last message requests an ACK, and all failures arrive before it.

Opening a socket raises OSError (EPROTONOSUPPORT if the kernel lacks the family), and so does sending (EMSGSIZE for a
batch longer than the send buffer: 1 MiB with CAP_NET_ADMIN, else net.core.wmem_max). A socket serves one thread at a
time. Replies left over from an abandoned exchange are ignored.
"""

from __future__ import annotations

import errno as errno_
import os
import socket
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message, NetlinkError, ReceivedMessage
from trackbed.kernel.netlink.netns import enter_netns

if TYPE_CHECKING:
    from typing import Self

NETLINK_ROUTE, NETLINK_NETFILTER, NETLINK_RDMA = 0, 12, 20
_RTMGRP_LINK = 1  # include/uapi/linux/rtnetlink.h
_SOL_NETLINK, _CAP_ACK, _EXT_ACK, _STRICT = 270, 10, 11, 12
_NLMSGERR_ATTR_MSG = 1
_CAPPED, _ACK_TLVS = 0x100, 0x200
_BUFFER_BYTES = 1 << 20
_DUMP_TRIES = 5
RECEIVE_BYTES = 1 << 17
"""A datagram of a dump has 32 KiB at most, or one larger message: the alternative names of an interface alone take up
to 64 KiB (rtnl_alt_ifname() of net/core/rtnetlink.c)."""
_STALE_DATAGRAMS = 1 << 16  # more than the receive buffer can hold
_BUFFER_OPTIONS = (
    (32, socket.SO_SNDBUF),
    (33, socket.SO_RCVBUF),
)  # SO_SNDBUFFORCE, SO_RCVBUFFORCE: exceed net.core.*mem_max
_ERRNO = struct.Struct("=i")
_Choice = TypeVar("_Choice")


class ReplyTimeoutError(NetlinkError):
    """The kernel did not reply in time."""


class OverrunError(NetlinkError):
    """The receive buffer of the socket overflowed, or a listing has more entries than the caller takes."""


class Failure(NamedTuple):
    """A message that the kernel rejected: its index in the batch, the errno, the text of the extended ACK if any."""

    index: int  # type: ignore[assignment] # the field hides a method of tuple
    errno: int
    text: str

    def __str__(self) -> str:
        words = f" ({self.text})" if self.text else ""
        return f"message {self.index}: {os.strerror(self.errno)}{words}"


class BatchError(NetlinkError):
    """The kernel refused some messages of a batch."""

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        self.failures = failures
        super().__init__("; ".join(map(str, failures)))


class RequestError(NetlinkError):
    """The kernel refused a request."""

    def __init__(self, failure: Failure) -> None:
        self.errno, self.text = failure.errno, failure.text
        super().__init__(f"{os.strerror(failure.errno)}" + (f" ({failure.text})" if failure.text else ""))


class Socket:
    """A netlink socket of one family in the network namespace it was opened in. A context manager."""

    def __init__(
        self,
        family: int = NETLINK_ROUTE,
        netns: Path | int | None = None,
        timeout_seconds: float = 10.0,
        max_entries: int | None = None,
    ) -> None:
        """`max_entries`: listings of which more is chosen raise OverrunError; None for no limit."""
        if netns is None:
            self._socket = _open_socket(family, timeout_seconds)
        else:
            with enter_netns(netns):
                self._socket = _open_socket(family, timeout_seconds)
        self._timeout_seconds = timeout_seconds
        self._max_entries = max_entries
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; closing it twice is allowed."""
        self._socket.close()

    def fileno(self) -> int:
        """Return the file descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, messages: Sequence[Message]) -> None:
        """Send all messages in one sendmsg and wait until the kernel has processed the last.

        Raises BatchError with every message that failed.
        """
        if not messages:
            return
        first = self._sequence + 1
        self._sequence += len(messages)
        last = len(messages) - 1
        parts = [
            codec.pack_message(message, first + index, codec.NLM_F_ACK if index == last else 0)
            for index, message in enumerate(messages)
        ]
        self._socket.send(b"".join(parts))
        failures = self._read_acknowledgements(first, self._sequence)
        if failures:
            raise BatchError(tuple(failures))

    def _read_acknowledgements(self, first: int, last: int) -> list[Failure]:
        failures: list[Failure] = []
        deadline = self._compute_deadline()
        while True:
            for reply in self._receive(deadline):
                if reply.type != codec.NLMSG_ERROR or not first <= reply.sequence <= last:
                    continue
                failure = _parse_failure(reply, reply.sequence - first)
                if failure:
                    failures.append(failure)
                if reply.sequence == last:
                    return failures

    def request(self, message: Message) -> list[ReceivedMessage]:
        """Send a message and return the replies that precede its ACK. Raises RequestError if the kernel rejects it."""
        sequence = self._send_request(message, codec.NLM_F_ACK)
        replies: list[ReceivedMessage] = []
        deadline = self._compute_deadline()
        while True:
            for reply in self._receive(deadline):
                if reply.sequence != sequence:
                    continue
                if reply.type != codec.NLMSG_ERROR:
                    replies.append(reply)
                    continue
                failure = _parse_failure(reply, 0)
                if failure:
                    raise RequestError(failure)
                return replies

    def request_one(self, message: Message) -> memoryview:
        """Send a message and return the body of its only reply. Raises RequestError like `request`.

        Raises MalformedError if there are no replies or several.
        """
        replies = self.request(message)
        if len(replies) != 1:
            raise MalformedError(f"{len(replies)} replies to a request for one")
        return replies[0].body

    def dump(self, message: Message) -> list[ReceivedMessage]:
        """Return all replies to a dump request, as `choose_from_dump` does."""
        return self.choose_from_dump(message, lambda reply: reply)

    def choose_from_dump(self, message: Message, choose: Callable[[ReceivedMessage], _Choice | None]) -> list[_Choice]:
        """Return what `choose` makes of each reply to a dump request, without None. Nothing else is held in memory.

        The dump is retried a few times if the list changes in the meantime.
        """
        for _ in range(_DUMP_TRIES):
            chosen, complete = self._read_dump(self._send_request(message, codec.NLM_F_DUMP), choose)
            if complete:
                return chosen
        raise OverrunError(f"the list kept changing while it was read, {_DUMP_TRIES} times")

    def _read_dump(
        self, sequence: int, choose: Callable[[ReceivedMessage], _Choice | None]
    ) -> tuple[list[_Choice], bool]:
        chosen: list[_Choice] = []
        complete = True
        deadline = self._compute_deadline()
        while True:
            for reply in self._receive(deadline):
                if reply.sequence != sequence:
                    continue
                deadline = self._compute_deadline()  # the timeout limits the gap between replies, not the dump
                complete = complete and not reply.flags & codec.NLM_F_DUMP_INTR
                if reply.type in {codec.NLMSG_DONE, codec.NLMSG_ERROR}:
                    failure = _parse_failure(reply, 0)
                    if failure:
                        raise RequestError(failure)
                    return chosen, complete
                choice = choose(reply)
                if choice is not None:
                    chosen.append(choice)
                if self._max_entries is not None and len(chosen) > self._max_entries:
                    raise OverrunError(f"a listing of more than {self._max_entries} entries")

    def _send_request(self, message: Message, flags: int) -> int:
        self._sequence += 1
        self._socket.send(codec.pack_message(message, self._sequence, flags))
        return self._sequence

    def _describe_timeout(self) -> str:
        return f"the kernel did not answer within {self._timeout_seconds:g} seconds"

    def _compute_deadline(self) -> float:
        return time.monotonic() + self._timeout_seconds

    def _receive(self, deadline: float) -> list[ReceivedMessage]:
        """Return the messages of the next datagram; an empty list if its sender is not the kernel."""
        if time.monotonic() > deadline:  # only unrelated messages have arrived
            raise ReplyTimeoutError(self._describe_timeout())
        try:
            datagram, _, flags, sender = self._socket.recvmsg(RECEIVE_BYTES)
        except socket.timeout as error:  # TimeoutError from Python 3.10 on
            raise ReplyTimeoutError(self._describe_timeout()) from error
        except OSError as error:
            if error.errno == errno_.ENOBUFS:
                self._drain_receive_buffer()
                raise OverrunError(
                    "the netlink socket's buffer overflowed, replies were lost; list the objects to see the result"
                ) from error
            raise
        if flags & socket.MSG_TRUNC:
            raise MalformedError(f"a reply of more than {RECEIVE_BYTES} bytes")
        return list(codec.parse_messages(datagram)) if sender[0] == 0 else []

    def _drain_receive_buffer(self) -> None:
        """Empty the receive buffer; after an overflow the kernel drops every reply until then."""
        self._socket.settimeout(0)
        with suppress(BlockingIOError):
            for _ in range(_STALE_DATAGRAMS):
                self._socket.recv(1)
        self._socket.settimeout(self._timeout_seconds)


def _open_socket(family: int, timeout_seconds: float) -> socket.socket:
    netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
    for option in (_CAP_ACK, _EXT_ACK, _STRICT):
        with suppress(OSError):  # kernels before 4.20 lack _STRICT; the callers filter their listings
            netlink.setsockopt(_SOL_NETLINK, option, 1)
    for forced_option, plain_option in _BUFFER_OPTIONS:
        try:
            netlink.setsockopt(socket.SOL_SOCKET, forced_option, _BUFFER_BYTES)
        except PermissionError:
            netlink.setsockopt(socket.SOL_SOCKET, plain_option, _BUFFER_BYTES)
    netlink.settimeout(timeout_seconds)
    return netlink


def _parse_failure(reply: ReceivedMessage, index: int) -> Failure | None:
    """Return the failure in an NLMSG_ERROR or NLMSG_DONE; None for an ACK."""
    if len(reply.body) < 4:  # noqa: PLR2004 - the errno of struct nlmsgerr
        if reply.type == codec.NLMSG_DONE:
            return None
        raise MalformedError("an error message without errno")
    (error_number,) = _ERRNO.unpack_from(reply.body)
    if error_number >= 0:
        return None
    text = ""
    if reply.flags & _ACK_TLVS:
        offset = 4 if reply.type == codec.NLMSG_DONE else 4 + codec.HEADER.size
        if not reply.flags & _CAPPED and reply.type == codec.NLMSG_ERROR:
            offset = 4 + (codec.as_int(reply.body[4:8]) + 3 & ~3)
        text = codec.as_text(codec.parse_attributes(reply.body, offset).get(_NLMSGERR_ATTR_MSG))
    return Failure(index, -error_number, text)


def open_link_monitor(netns: Path | int | None = None) -> socket.socket:
    """Open a non-blocking socket that receives every interface change in a namespace (rtnetlink(7), RTMGRP_LINK).

    Raises OSError if the namespace does not exist, or if memory runs out. Reading raises OSError (ENOBUFS) after
    messages were lost.
    """
    with enter_netns(netns):
        monitor = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, NETLINK_ROUTE)
    monitor.bind((0, _RTMGRP_LINK))
    return monitor
