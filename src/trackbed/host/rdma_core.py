"""Requests over NETLINK_RDMA to the RDMA core of a machine's kernel (`netlink.rdma`)."""

from __future__ import annotations

import os

from trackbed.host.boot_id import BOOT_ID, read_boot_id
from trackbed.host.machine import Machine
from trackbed.kernel.netlink import rdma
from trackbed.kernel.netlink.codec import Message, NetlinkError
from trackbed.kernel.netlink.sockets import NETLINK_RDMA, BatchError, Socket


def open_socket(machine: Machine) -> Socket | None:
    """Open a socket in the machine's network namespace; the caller closes it.

    Return None if the kernel has no RDMA, or if the files are those of another machine: a request over netlink would
    change this host. The boot id distinguishes a captured tree from this host.
    """
    if machine.read(BOOT_ID) != read_boot_id():
        return None
    try:
        return Socket(NETLINK_RDMA, machine.netns)
    except OSError:  # EPROTONOSUPPORT: no ib_core
        return None


def read_device_indexes(machine: Machine) -> dict[str, int]:
    """Return the index of each RDMA device by name; empty if the RDMA core cannot be queried."""
    sock = open_socket(machine)
    if sock is None:
        return {}
    with sock:
        try:
            devices = [rdma.parse_device(reply.body) for reply in sock.dump(rdma.build_device_dump())]
        except NetlinkError:
            return {}
    return {device.name: device.index for device in devices}


def send_message(machine: Machine, message: Message) -> str:
    """Send one request; return the reason of a failure as text, empty on success."""
    sock = open_socket(machine)
    if sock is None:
        return "this kernel's RDMA core cannot be asked"
    with sock:
        try:
            sock.send([message])
        except BatchError as error:
            return "; ".join(f"{os.strerror(failure.errno)} {failure.text}".rstrip() for failure in error.failures)
        except NetlinkError as error:
            return str(error)
    return ""
