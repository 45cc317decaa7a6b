"""Netlink sockets: many messages in one sendmsg, dumps, and errors that say which message failed.

    NetlinkError (codec)
      MalformedError       bytes that are no message, or more of them than one answer may have
      SilenceError         the kernel did not answer in time
      OverrunError         answers were lost: what was being read is incomplete, what was sent may have happened
      RefusedError         the kernel refused a request: `errno`, `text` (its extended ACK)
      BatchError           messages of a batch failed: `failures` lists (index, errno, text)

The kernel handles the messages of one sendmsg one after the other and goes on after one that fails, so a BatchError
says what did not happen, not where it stopped. It answers a failing message whether asked or not, and in order: so an
ACK is asked of the last message only, and when that one is there, every refusal before it is there as well.

Opening a socket raises what the system says, an OSError (EPROTONOSUPPORT where the kernel lacks the family); so does
sending (EMSGSIZE for a batch longer than the send buffer: 1 MiB with CAP_NET_ADMIN, else net.core.wmem_max).
A socket serves one thread at a time. Answers left over from an exchange that was given up are passed by.
"""

from __future__ import annotations

import errno as errno_
import os
import socket
import struct
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message, NetlinkError, Received
from trackbed.kernel.netlink.netns import enter_netns

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NETLINK_ROUTE, NETLINK_NETFILTER, NETLINK_RDMA = 0, 12, 20
_RTMGRP_LINK = 1  # include/uapi/linux/rtnetlink.h
_SOL_NETLINK, _CAP_ACK, _EXT_ACK, _STRICT = 270, 10, 11, 12
_NLMSGERR_ATTR_MSG = 1
_CAPPED, _ACK_TLVS = 0x100, 0x200
_BUFFER_BYTES = 1 << 20
_DUMP_TRIES = 5
_RECEIVE_BYTES = 1 << 16  # the kernel puts at most 32 KiB of a dump into a datagram
_STALE_DATAGRAMS = 1 << 16  # more than the receive buffer can hold
_FORCED = ((32, socket.SO_SNDBUF), (33, socket.SO_RCVBUF))  # SO_SNDBUFFORCE, SO_RCVBUFFORCE: past net.core.*mem_max
_ERRNO = struct.Struct("=i")


class ReplyTimeoutError(NetlinkError):
    """The kernel did not answer in time."""


class OverrunError(NetlinkError):
    """The socket's buffer ran over."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One message that the kernel refused: its place in the batch, errno, and the kernel's own words if it gave any."""

    index: int
    errno: int
    text: str

    def __str__(self) -> str:
        words = f" ({self.text})" if self.text else ""
        return f"message {self.index}: {os.strerror(self.errno)}{words}"


class BatchError(NetlinkError):
    """Some messages of a batch were refused."""

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        self.failures = failures
        super().__init__("; ".join(map(str, failures)))


class RequestError(NetlinkError):
    """The kernel refused a request."""

    def __init__(self, failure: Failure) -> None:
        self.errno, self.text = failure.errno, failure.text
        super().__init__(f"{os.strerror(failure.errno)}" + (f" ({failure.text})" if failure.text else ""))


class Socket:
    """A netlink socket of one family, living in the network namespace it was opened in. A context manager."""

    def __init__(
        self, family: int = NETLINK_ROUTE, netns: Path | int | None = None, timeout_seconds: float = 10.0
    ) -> None:
        if netns is None:
            self._socket = _opened(family, timeout_seconds)
        else:
            with enter_netns(netns):
                self._socket = _opened(family, timeout_seconds)
        self._timeout_seconds = timeout_seconds
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket; nothing to do the second time."""
        self._socket.close()

    def fileno(self) -> int:
        """The descriptor, for selectors."""
        return self._socket.fileno()

    def send(self, messages: Sequence[Message]) -> None:
        """Hand all messages to the kernel in one sendmsg and wait until it has done the last.

        Raises BatchError with every message that failed.
        """
        if not messages:
            return
        first = self._sequence + 1
        self._sequence += len(messages)
        last = len(messages) - 1
        parts = [
            codec.pack_message(m, first + number, codec.NLM_F_ACK if number == last else 0)
            for number, m in enumerate(messages)
        ]
        self._socket.send(b"".join(parts))
        failures = self._acknowledged(first, self._sequence)
        if failures:
            raise BatchError(tuple(failures))

    def _acknowledged(self, first: int, last: int) -> list[Failure]:
        failures: list[Failure] = []
        deadline = self._deadline()
        while True:
            for reply in self._receive(deadline):
                if reply.type != codec.NLMSG_ERROR or not first <= reply.sequence <= last:
                    continue
                failure = _failure(reply, reply.sequence - first)
                if failure:
                    failures.append(failure)
                if reply.sequence == last:
                    return failures

    def request(self, message: Message) -> list[Received]:
        """Send one message and return what the kernel answers before its ACK; RefusedError if it refuses."""
        sequence = self._next(message, codec.NLM_F_ACK)
        found: list[Received] = []
        deadline = self._deadline()
        while True:
            for reply in self._receive(deadline):
                if reply.sequence != sequence:
                    continue
                if reply.type != codec.NLMSG_ERROR:
                    found.append(reply)
                    continue
                failure = _failure(reply, 0)
                if failure:
                    raise RequestError(failure)
                return found

    def dump(self, message: Message) -> list[Received]:
        """List everything that `message` asks for; asks again (a few times) when the list changed while it was read."""
        for _ in range(_DUMP_TRIES):
            found, whole = self._dumped(self._next(message, codec.NLM_F_DUMP))
            if whole:
                return found
        msg = f"the list kept changing while it was read, {_DUMP_TRIES} times"
        raise OverrunError(msg)

    def _dumped(self, sequence: int) -> tuple[list[Received], bool]:
        found: list[Received] = []
        whole = True
        deadline = self._deadline()
        while True:
            for reply in self._receive(deadline):
                if reply.sequence != sequence:
                    continue
                deadline = self._deadline()  # a long list may take long, as long as it goes on
                whole = whole and not reply.flags & codec.NLM_F_DUMP_INTR
                if reply.type in {codec.NLMSG_DONE, codec.NLMSG_ERROR}:
                    failure = _failure(reply, 0)
                    if failure:
                        raise RequestError(failure)
                    return found, whole
                found.append(reply)

    def _next(self, message: Message, flags: int) -> int:
        self._sequence += 1
        self._socket.send(codec.pack_message(message, self._sequence, flags))
        return self._sequence

    def _silence(self) -> str:
        return f"the kernel did not answer within {self._timeout_seconds:g} seconds"

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_seconds

    def _receive(self, deadline: float) -> list[Received]:
        """The messages of the next datagram; none if it is not the kernel's."""
        if time.monotonic() > deadline:  # meanwhile only something else came
            raise ReplyTimeoutError(self._silence())
        try:
            raw, _, flags, sender = self._socket.recvmsg(_RECEIVE_BYTES)
        except TimeoutError as error:
            raise ReplyTimeoutError(self._silence()) from error
        except OSError as error:
            if error.errno == errno_.ENOBUFS:
                self._drain()
                msg = (
                    "the netlink socket's buffer ran over and answers are lost; list what there is to see what was done"
                )
                raise OverrunError(msg) from error
            raise
        if flags & socket.MSG_TRUNC:
            msg = f"an answer of more than {_RECEIVE_BYTES} bytes"
            raise MalformedError(msg)
        return list(codec.parse_messages(raw)) if sender[0] == 0 else []

    def _drain(self) -> None:
        """Empty the buffer: once it ran over, the kernel drops every answer until that has happened."""
        self._socket.settimeout(0)
        with suppress(BlockingIOError):
            for _ in range(_STALE_DATAGRAMS):
                self._socket.recv(1)
        self._socket.settimeout(self._timeout_seconds)


def _opened(family: int, timeout_seconds: float) -> socket.socket:
    opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
    for option in (_CAP_ACK, _EXT_ACK, _STRICT):
        with suppress(OSError):  # kernels before 4.20 lack the last; what they list too much is sifted out here
            opened.setsockopt(_SOL_NETLINK, option, 1)
    for forced, plain in _FORCED:
        try:
            opened.setsockopt(socket.SOL_SOCKET, forced, _BUFFER_BYTES)
        except PermissionError:
            opened.setsockopt(socket.SOL_SOCKET, plain, _BUFFER_BYTES)
    opened.settimeout(timeout_seconds)
    return opened


def _failure(reply: Received, index: int) -> Failure | None:
    """The refusal in an NLMSG_ERROR or NLMSG_DONE, None if it is an ACK."""
    if len(reply.body) < 4:  # noqa: PLR2004 - the errno of struct nlmsgerr
        if reply.type == codec.NLMSG_DONE:
            return None
        msg = "an error message without errno"
        raise MalformedError(msg)
    (number,) = _ERRNO.unpack_from(reply.body)
    if number >= 0:
        return None
    text = ""
    if reply.flags & _ACK_TLVS:
        at = 4 if reply.type == codec.NLMSG_DONE else 4 + codec.HEADER.size
        if not reply.flags & _CAPPED and reply.type == codec.NLMSG_ERROR:
            at = 4 + (codec.as_int(reply.body[4:8]) + 3 & ~3)
        text = codec.as_text(codec.parse_attributes(reply.body, at).get(_NLMSGERR_ATTR_MSG))
    return Failure(index, -number, text)


def open_link_monitor(netns: Path | int | None = None) -> socket.socket:
    """A socket that hears of every change of an interface in a namespace (rtnetlink(7), RTMGRP_LINK); it never blocks.

    Raises OSError: there is no such namespace, or no memory. Reading raises OSError (ENOBUFS) where some were lost.
    """
    with enter_netns(netns):
        listening = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, NETLINK_ROUTE)
    listening.bind((0, _RTMGRP_LINK))
    return listening
