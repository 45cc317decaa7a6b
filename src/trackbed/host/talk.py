"""Requests to the RDMA core of a machine's kernel over NETLINK_RDMA (`netlink.rdma`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol, Self

from trackbed.host.boot_id import BOOT_ID, read_boot_id
from trackbed.host.machine import Machine
from trackbed.kernel.netlink import rdma
from trackbed.kernel.netlink.codec import Message, NetlinkError, Received
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, BatchError, Socket


class RdmaSocket(Protocol):
    """The part of a netlink socket that is used here; the caller closes it (it is a context manager)."""

    def __enter__(self) -> Self:
        """Itself."""

    def __exit__(self, *_: object) -> None:
        """Close it."""

    def send(self, messages: Sequence[Message]) -> None:
        """As `netlink.sockets.Socket` does."""

    def dump(self, message: Message) -> list[Received]:
        """As `netlink.sockets.Socket` does."""


def open_rdma(machine: Machine) -> RdmaSocket | None:
    """Open a socket in the machine's namespace; None where the kernel has no RDMA, or the files are another machine's.

    The boot id tells a captured tree from this host: a request by netlink would otherwise change this host.
    """
    if machine.read(BOOT_ID) != read_boot_id():
        return None
    try:
        return Socket(NETLINK_RDMA, machine.netns)
    except OSError:  # EPROTONOSUPPORT: no ib_core
        return None


def list_devices(machine: Machine) -> dict[str, int]:
    """Return the index of each RDMA device by name; empty where the RDMA core cannot be queried."""
    rdma_socket = open_rdma(machine)
    if rdma_socket is None:
        return {}
    with rdma_socket:
        try:
            return {
                device.name: device.index
                for device in (rdma.parse_device(reply.body) for reply in rdma_socket.dump(rdma.build_device_dump()))
            }
        except NetlinkError:
            return {}


def send_message(machine: Machine, message: Message) -> str:
    """Send one request; return the reason of a failure as text, empty on success."""
    rdma_socket = open_rdma(machine)
    if rdma_socket is None:
        return "this kernel's RDMA core cannot be asked"
    with rdma_socket:
        try:
            rdma_socket.send([message])
        except BatchError as error:
            return "; ".join(f"{os.strerror(failure.errno)} {failure.text}".rstrip() for failure in error.failures)
        except NetlinkError as error:
            return str(error)
    return ""
