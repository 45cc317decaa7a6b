"""A netlink socket whose other end is the drivers' model for what such drivers answer, and the real kernel otherwise.

It stands below `Socket`, at bytes: `attach` puts it where Trackbed opens its sockets. Links, addresses, routes and
rules are the kernel's. The interface of a PF or VF is a real one whose alias (IFLA_IFALIAS) is its PCI address: the
alias stays with it through renames and namespaces.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pytest

from tests.drivers import rtnetlink
from tests.drivers.port import Port
from tests.drivers.rdma_core import RdmaCore
from trackbed.kernel.netlink import codec, dcb, links, netns, sockets, vfs
from trackbed.kernel.netlink.codec import HEADER, Message
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, NETLINK_ROUTE, Socket

IFLA_IFALIAS = 20
RTM_SETLINK = 19
_INFO = struct.Struct("=BxHiII")
_ARPHRD_INFINIBAND = 32
_NETNS_PID, _NETNS_FD = 19, links.IFLA_NET_NS_FD
_open_real_socket = sockets._open_socket  # noqa: SLF001 - the double stands behind this very function


class Devices(Protocol):
    """What the double asks the model for."""

    rdma: RdmaCore

    def find_port(self, pci: str) -> Port | None:
        """Return the PF with this address."""

    def leave_namespace(self, pci: str) -> None:
        """Hear that the kernel moved an interface to another namespace."""


def attach(devices: Devices, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every socket that Trackbed opens from now on have these devices."""

    def open_socket(family: int, timeout_seconds: float) -> Wire | socket.socket:
        namespace = netns.read_inode(Path("/proc/thread-self/ns/net"))
        if family == NETLINK_RDMA:
            return Wire(devices, namespace, None)
        real = _open_real_socket(family, timeout_seconds)
        return Wire(devices, namespace, real) if family == NETLINK_ROUTE else real

    monkeypatch.setattr(sockets, "_open_socket", open_socket)


class KernelSocket(Socket):
    """A socket that speaks to the kernel alone, for the model's own doings."""

    def __init__(self, namespace: int) -> None:
        with netns.enter_netns(namespace):
            self._socket = _open_real_socket(NETLINK_ROUTE, 10.0)
        self._timeout_seconds = 10.0
        self._sequence = 0


class Wire:
    """The double: what `Socket` needs of a socket."""

    def __init__(self, devices: Devices, namespace: int, real: socket.socket | None) -> None:
        self._devices, self._namespace, self._real = devices, namespace, real
        self._replies: deque[bytes] = deque()
        self._ready, self._wake = os.pipe2(os.O_CLOEXEC)

    def send(self, datagram: bytes) -> int:
        """Answer each message in turn, as the kernel does within sendmsg."""
        for message in codec.parse_messages(datagram):
            packed = HEADER.pack(HEADER.size + len(message.body), message.type, message.flags, message.sequence, 0)
            self._answer(message, packed + bytes(message.body))
        return len(datagram)

    def recvmsg(self, _: int) -> tuple[bytes, list[object], int, tuple[int, int]]:
        """Return the next datagram."""
        if not self._replies:
            raise TimeoutError
        return self._replies.popleft(), [], 0, (0, 0)

    def recv(self, _: int) -> bytes:
        """Return the next datagram, or raise BlockingIOError."""
        if not self._replies:
            raise BlockingIOError
        return self._replies.popleft()

    def settimeout(self, _: float) -> None:
        """Nothing is waited for."""

    def fileno(self) -> int:
        """Return a descriptor; it is never readable."""
        return self._ready

    def close(self) -> None:
        """Close what is open."""
        if self._ready >= 0:
            os.close(self._ready)
            os.close(self._wake)
            self._ready = -1
        if self._real:
            self._real.close()

    def _answer(self, message: codec.ReceivedMessage, packed: bytes) -> None:
        body = bytes(message.body)
        answer = self._find_answer(message.type, message.flags, body)
        if answer is None:
            self._pass_on(message, packed)
        elif isinstance(answer, int):
            self._end(message, -answer)
        else:
            kind = links.RTM_NEWLINK if message.type == links.RTM_GETLINK else message.type
            for reply in answer:
                self._reply(kind, message.sequence, reply)
            self._end(message, 0)

    def _find_answer(self, kind: int, flags: int, body: bytes) -> list[bytes] | int | None:
        """Return the model's answer; None: this is the kernel's."""
        if self._real is None:
            return self._devices.rdma.answer(kind, flags, body, self._namespace)
        if kind in {dcb.RTM_GETDCB, dcb.RTM_SETDCB}:
            return self._answer_dcb(body)
        if kind in {links.RTM_NEWLINK, RTM_SETLINK}:
            return self._set_vfs(body)
        return None

    def _answer_dcb(self, body: bytes) -> list[bytes] | int | None:
        name = codec.as_text(codec.parse_attributes(body, 4).get(dcb.DCB_ATTR_IFNAME))
        port = self._find_port(lambda _, attributes: codec.as_text(attributes.get(links.IFLA_IFNAME)) == name)
        if port is None:
            return None
        reply = rtnetlink.answer_dcb(port, body)
        return reply if isinstance(reply, int) else [reply]

    def _set_vfs(self, body: bytes) -> list[bytes] | int | None:
        attributes = codec.parse_attributes(body, _INFO.size)
        if vfs.IFLA_VFINFO_LIST not in attributes:
            return None
        wanted = _INFO.unpack_from(body)[2]
        name = codec.as_text(attributes.get(links.IFLA_IFNAME))
        port = self._find_port(
            lambda index, item: index == wanted if wanted else codec.as_text(item.get(links.IFLA_IFNAME)) == name
        )
        if port is None:
            return None
        for attribute_type, info in codec.iter_attributes(attributes[vfs.IFLA_VFINFO_LIST]):
            if attribute_type != vfs.IFLA_VF_INFO:
                return -errno.EINVAL
            if (code := rtnetlink.set_vf(port, codec.parse_attributes(info))) < 0:
                return code
        return []

    def _find_port(self, is_meant: Callable[[int, dict[int, memoryview]], bool]) -> Port | None:
        for index, attributes in list_interfaces(self._namespace_socket()):
            if is_meant(index, attributes):
                return self._devices.find_port(codec.as_text(attributes.get(IFLA_IFALIAS)))
        return None

    def _namespace_socket(self) -> socket.socket:
        assert self._real is not None
        return self._real

    def _pass_on(self, message: codec.ReceivedMessage, packed: bytes) -> None:
        """Let the kernel answer, and add what only the NIC's driver reports."""
        real = self._namespace_socket()
        is_dump = message.flags & codec.NLM_F_DUMP == codec.NLM_F_DUMP and message.type % 4 == 2
        moved = self._find_moved(message)
        flags = message.flags if is_dump else message.flags | codec.NLM_F_ACK
        real.send(HEADER.pack(len(packed), message.type, flags, message.sequence, 0) + packed[HEADER.size :])
        wants_vfs = message.type == links.RTM_GETLINK and _asks_for_vfs(bytes(message.body))
        while True:
            datagram = real.recv(1 << 17)
            last = False
            kept = b""
            for reply in codec.parse_messages(datagram):
                if reply.sequence != message.sequence:
                    continue
                last = reply.type in {codec.NLMSG_ERROR, codec.NLMSG_DONE}
                is_success = reply.type == codec.NLMSG_ERROR and codec.as_int(reply.body[:4]) == 0
                if is_success and moved:
                    self._devices.leave_namespace(moved)
                if not is_success or message.flags & codec.NLM_F_ACK:
                    kept += self._complete(reply, wants_vfs=wants_vfs)
            if kept:
                self._replies.append(kept)
            if last:
                return

    def _find_moved(self, message: codec.ReceivedMessage) -> str:
        """Return the PCI address of the interface that a message moves to another namespace."""
        if message.type not in {links.RTM_NEWLINK, RTM_SETLINK}:
            return ""
        attributes = codec.parse_attributes(message.body, _INFO.size)
        if not {_NETNS_FD, _NETNS_PID} & attributes.keys():
            return ""
        wanted, name = _INFO.unpack_from(message.body)[2], codec.as_text(attributes.get(links.IFLA_IFNAME))
        for index, item in list_interfaces(self._namespace_socket()):
            if index == wanted or (not wanted and codec.as_text(item.get(links.IFLA_IFNAME)) == name):
                return codec.as_text(item.get(IFLA_IFALIAS))
        return ""

    def _complete(self, reply: codec.ReceivedMessage, *, wants_vfs: bool) -> bytes:
        body = bytes(reply.body)
        if reply.type == links.RTM_NEWLINK:
            attributes = codec.parse_attributes(body, _INFO.size)
            pci = codec.as_text(attributes.get(IFLA_IFALIAS))
            if pci:
                body += codec.pack_string(links.IFLA_PARENT_DEV_NAME, pci)
                body += codec.pack_string(links.IFLA_PARENT_DEV_BUS_NAME, "pci")
            port = self._devices.find_port(pci)
            if port is not None:
                body = body[:2] + struct.pack("=H", _ARPHRD_INFINIBAND) + body[4:] if port.infiniband else body
                body += codec.pack_attribute(links.IFLA_PERM_ADDRESS, port.mac[-6:])
                body += rtnetlink.fill_vfs(port) if wants_vfs else b""
        body += bytes(-len(body) % 4)
        return HEADER.pack(HEADER.size + len(body), reply.type, reply.flags, reply.sequence, 0) + body

    def _reply(self, kind: int, sequence: int, body: bytes, flags: int = 0) -> None:
        self._replies.append(
            HEADER.pack(HEADER.size + len(body), kind, flags, sequence, 0) + body + bytes(-len(body) % 4)
        )

    def _end(self, message: codec.ReceivedMessage, number: int) -> None:
        is_dump = message.flags & codec.NLM_F_DUMP == codec.NLM_F_DUMP
        if is_dump and not number:
            self._reply(codec.NLMSG_DONE, message.sequence, struct.pack("=i", 0))
        elif number or message.flags & codec.NLM_F_ACK:
            self._reply(codec.NLMSG_ERROR, message.sequence, struct.pack("=i", -number) + bytes(HEADER.size), 0x100)


def list_interfaces(real: socket.socket) -> list[tuple[int, dict[int, memoryview]]]:
    """Return index and attributes of each interface in the namespace of a real socket."""
    body = _INFO.pack(0, 0, 0, 0, 0)
    real.send(codec.pack_message(Message(links.RTM_GETLINK, 0, body), 0, codec.NLM_F_DUMP))
    interfaces: list[tuple[int, dict[int, memoryview]]] = []
    while True:
        for reply in codec.parse_messages(real.recv(1 << 17)):
            if reply.type == codec.NLMSG_DONE:
                return interfaces
            if reply.sequence == 0 and reply.type == links.RTM_NEWLINK:
                interfaces.append((_INFO.unpack_from(reply.body)[2], codec.parse_attributes(reply.body, _INFO.size)))


def _asks_for_vfs(body: bytes) -> bool:
    mask = codec.parse_attributes(body, _INFO.size).get(links.IFLA_EXT_MASK)
    return bool(codec.as_int(mask) & vfs.RTEXT_FILTER_VF)
