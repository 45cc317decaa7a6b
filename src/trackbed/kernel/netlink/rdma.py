"""RDMA devices over NETLINK_RDMA: list, rename, move, make and delete (include/uapi/rdma/rdma_netlink.h).

Everything here needs `Socket(NETLINK_RDMA)`; opening that raises OSError (EPROTONOSUPPORT) where the kernel has no
RDMA, or has it as a module (ib_core) that is not loaded.

No message may carry NLM_F_CREATE, _EXCL or _REPLACE: the RDMA core reads those bits as NLM_F_DUMP
(drivers/infiniband/core/netlink.c, rdma_nl_rcv_msg). A device's name is one for the whole host, whatever the
namespace; one that is taken is refused (EEXIST for a rename, ENFILE for a new link).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.exact import U8, U32, U64, format_guid, unpack_number

if TYPE_CHECKING:
    from trackbed.kernel.netlink.sockets import Socket

RDMA_NL_NLDEV = 5
RDMA_NLDEV_CMD_GET, RDMA_NLDEV_CMD_SET, RDMA_NLDEV_CMD_NEWLINK, RDMA_NLDEV_CMD_DELLINK = 1, 2, 3, 4
RDMA_NLDEV_CMD_PORT_GET, RDMA_NLDEV_CMD_SYS_GET, RDMA_NLDEV_CMD_SYS_SET = 5, 6, 7
RDMA_NLDEV_CMD_GET_CHARDEV = 15

RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME, RDMA_NLDEV_ATTR_PORT_INDEX = 1, 2, 3
RDMA_NLDEV_ATTR_FW_VERSION, RDMA_NLDEV_ATTR_NODE_GUID, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID = 5, 6, 7
RDMA_NLDEV_ATTR_PORT_STATE, RDMA_NLDEV_ATTR_PORT_PHYS_STATE = 12, 13
RDMA_NLDEV_ATTR_NDEV_INDEX, RDMA_NLDEV_ATTR_NDEV_NAME, RDMA_NLDEV_ATTR_LINK_TYPE = 50, 51, 65
RDMA_NLDEV_SYS_ATTR_NETNS_MODE, RDMA_NLDEV_ATTR_DEV_PROTOCOL, RDMA_NLDEV_NET_NS_FD = 66, 67, 68
RDMA_NLDEV_ATTR_CHARDEV_TYPE, RDMA_NLDEV_ATTR_CHARDEV_NAME, RDMA_NLDEV_ATTR_CHARDEV = 69, 70, 72

NetnsMode = Literal["exclusive", "shared"]
"""Exclusive: a device is seen in one namespace only. Shared: in every one."""

_MODES: tuple[NetnsMode, ...] = ("exclusive", "shared")

PORT_STATES = ("nop", "down", "init", "armed", "active", "active_defer")
"""enum ib_port_state of include/rdma/ib_verbs.h, in the words of rdma(8)."""

PHYSICAL_STATES = (
    "nop",
    "sleep",
    "polling",
    "disabled",
    "port_configuration_training",
    "link_up",
    "link_error_recovery",
    "phy_test",
)
"""enum ib_port_phys_state of the same header."""


@dataclass(frozen=True, slots=True)
class RdmaDevice:
    """One RDMA device; GUIDs as sysfs writes them, `firmware` and `protocol` empty where the driver names none."""

    index: int
    name: str
    ports: int
    node_guid: str
    sys_image_guid: str
    firmware: str
    protocol: str
    """roce, ib, iw, usnic or opa; kernels before 5.0 do not say."""


@dataclass(frozen=True, slots=True)
class RdmaPort:
    """One port of a device: a link, as rdma(8) calls it."""

    device_index: int
    device: str
    number: int
    """From 1."""
    state: str
    """A word of PORT_STATES; a number where the kernel knows more than we do."""
    physical_state: str
    netdev: str | None
    """The interface of a RoCE or iWARP port; None where it has none, or has it in another namespace."""
    netdev_index: int | None


@dataclass(frozen=True, slots=True)
class VerbsDevice:
    """The character device by which programs use an RDMA device: its name under /dev/infiniband, its number."""

    name: str
    major: int
    minor: int


def _message(command: int, *attributes: bytes) -> Message:
    """RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), with no fixed header behind it."""
    return Message((RDMA_NL_NLDEV << 10) + command, 0, b"".join(attributes))


def _index(index: int) -> bytes:
    return codec.pack_u32(RDMA_NLDEV_ATTR_DEV_INDEX, index)


def build_netns_mode_request() -> Message:
    """The request behind `get_netns_mode`."""
    return _message(RDMA_NLDEV_CMD_SYS_GET)


def get_netns_mode(sock: Socket) -> NetnsMode:
    """Whether devices are shared among namespaces or exclusive to one."""
    return parse_netns_mode(_only(sock, build_netns_mode_request()))


def parse_netns_mode(body: bytes | memoryview) -> NetnsMode:
    """The mode in an answer; MalformedError where it is none that we know."""
    value = codec.parse_attributes(body).get(RDMA_NLDEV_SYS_ATTR_NETNS_MODE)
    mode = unpack_number(U8, value, "RDMA_NLDEV_SYS_ATTR_NETNS_MODE", len(_MODES))
    if mode >= len(_MODES):
        told = "none" if value is None else str(mode)
        msg = f"RDMA_NLDEV_SYS_ATTR_NETNS_MODE is {told}, where 0 (exclusive) or 1 (shared) was due"
        raise MalformedError(msg)
    return _MODES[mode]


def set_netns_mode(mode: NetnsMode) -> Message:
    """Change the mode; the kernel refuses (EBUSY) while any namespace but the first is there."""
    return _message(RDMA_NLDEV_CMD_SYS_SET, codec.pack_u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, _MODES.index(mode)))


def build_device_dump() -> Message:
    """The dump behind `list_devices`."""
    return _message(RDMA_NLDEV_CMD_GET)


def list_devices(sock: Socket) -> tuple[RdmaDevice, ...]:
    """All devices that the socket's namespace sees."""
    return tuple(parse_device(reply.body) for reply in sock.dump(build_device_dump()))


def parse_device(body: bytes | memoryview) -> RdmaDevice:
    """The device in an answer to RDMA_NLDEV_CMD_GET (fill_dev_info of drivers/infiniband/core/nldev.c)."""
    found = codec.parse_attributes(body)
    return RdmaDevice(
        index=_due(found, RDMA_NLDEV_ATTR_DEV_INDEX, "RDMA_NLDEV_ATTR_DEV_INDEX"),
        name=_name(found),
        ports=_due(found, RDMA_NLDEV_ATTR_PORT_INDEX, "RDMA_NLDEV_ATTR_PORT_INDEX"),
        node_guid=_guid(found, RDMA_NLDEV_ATTR_NODE_GUID, "RDMA_NLDEV_ATTR_NODE_GUID"),
        sys_image_guid=_guid(found, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, "RDMA_NLDEV_ATTR_SYS_IMAGE_GUID"),
        firmware=codec.as_text(found.get(RDMA_NLDEV_ATTR_FW_VERSION)),
        protocol=codec.as_text(found.get(RDMA_NLDEV_ATTR_DEV_PROTOCOL)),
    )


def build_port_request(device_index: int, port: int) -> Message:
    """The request for one port (from 1) behind `list_ports`."""
    return _message(RDMA_NLDEV_CMD_PORT_GET, _index(device_index), codec.pack_u32(RDMA_NLDEV_ATTR_PORT_INDEX, port))


def list_ports(sock: Socket, device: RdmaDevice) -> tuple[RdmaPort, ...]:
    """All ports of a device; RefusedError (EINVAL) if it is gone."""
    return tuple(
        parse_port(_only(sock, build_port_request(device.index, number_))) for number_ in range(1, device.ports + 1)
    )


def parse_port(body: bytes | memoryview) -> RdmaPort:
    """The port in an answer to RDMA_NLDEV_CMD_PORT_GET (fill_port_info of drivers/infiniband/core/nldev.c)."""
    found = codec.parse_attributes(body)
    netdev = found.get(RDMA_NLDEV_ATTR_NDEV_INDEX)
    return RdmaPort(
        device_index=_due(found, RDMA_NLDEV_ATTR_DEV_INDEX, "RDMA_NLDEV_ATTR_DEV_INDEX"),
        device=_name(found),
        number=_due(found, RDMA_NLDEV_ATTR_PORT_INDEX, "RDMA_NLDEV_ATTR_PORT_INDEX"),
        state=_word(
            PORT_STATES, unpack_number(U8, found.get(RDMA_NLDEV_ATTR_PORT_STATE), "RDMA_NLDEV_ATTR_PORT_STATE")
        ),
        physical_state=_word(
            PHYSICAL_STATES,
            unpack_number(U8, found.get(RDMA_NLDEV_ATTR_PORT_PHYS_STATE), "RDMA_NLDEV_ATTR_PORT_PHYS_STATE"),
        ),
        netdev=codec.as_text(found.get(RDMA_NLDEV_ATTR_NDEV_NAME)) or None,
        netdev_index=None if netdev is None else unpack_number(U32, netdev, "RDMA_NLDEV_ATTR_NDEV_INDEX"),
    )


def build_verbs_request(index: int) -> Message:
    """The request behind `get_verbs`."""
    return _message(
        RDMA_NLDEV_CMD_GET_CHARDEV, _index(index), codec.pack_string(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")
    )


def get_verbs(sock: Socket, device: RdmaDevice) -> VerbsDevice:
    """The file of a device for programs; RefusedError (ENOENT) where ib_uverbs is not loaded."""
    return parse_verbs(_only(sock, build_verbs_request(device.index)))


def parse_verbs(body: bytes | memoryview) -> VerbsDevice:
    """The file in an answer to RDMA_NLDEV_CMD_GET_CHARDEV; its number is in huge_encode_dev of linux/kdev_t.h."""
    found = codec.parse_attributes(body)
    name = codec.as_text(found.get(RDMA_NLDEV_ATTR_CHARDEV_NAME))
    if not name:
        msg = "an answer without RDMA_NLDEV_ATTR_CHARDEV_NAME"
        raise MalformedError(msg)
    device_number = unpack_number(U64, found.get(RDMA_NLDEV_ATTR_CHARDEV), "RDMA_NLDEV_ATTR_CHARDEV")
    return VerbsDevice(name, os.major(device_number), os.minor(device_number))


def rename_device(index: int, name: str) -> Message:
    """Give a device another name; at most 63 bytes (IB_DEVICE_NAME_MAX with its NUL)."""
    return _message(RDMA_NLDEV_CMD_SET, _index(index), codec.pack_string(RDMA_NLDEV_ATTR_DEV_NAME, name))


def move_device(index: int, netns_fd: int) -> Message:
    """Move a device into a namespace; only in exclusive mode, and only where the driver can (rxe: EOPNOTSUPP)."""
    return _message(RDMA_NLDEV_CMD_SET, _index(index), codec.pack_u32(RDMA_NLDEV_NET_NS_FD, netns_fd))


def create_link(name: str, netdev: str, kind: str = "rxe") -> Message:
    """Make a software device (rxe, siw) on an interface of the socket's namespace."""
    return _message(
        RDMA_NLDEV_CMD_NEWLINK,
        codec.pack_string(RDMA_NLDEV_ATTR_DEV_NAME, name),
        codec.pack_string(RDMA_NLDEV_ATTR_LINK_TYPE, kind),
        codec.pack_string(RDMA_NLDEV_ATTR_NDEV_NAME, netdev),
    )


def delete_link(index: int) -> Message:
    """Delete a software device; hardware is refused (EINVAL)."""
    return _message(RDMA_NLDEV_CMD_DELLINK, _index(index))


def _only(sock: Socket, message: Message) -> memoryview:
    replies = sock.request(message)
    if len(replies) != 1:
        msg = f"{len(replies)} answers to one RDMA request"
        raise MalformedError(msg)
    return replies[0].body


def _due(found: dict[int, memoryview], kind: int, what: str) -> int:
    if kind not in found:
        msg = f"an answer without {what}"
        raise MalformedError(msg)
    return unpack_number(U32, found[kind], what)


def _name(found: dict[int, memoryview]) -> str:
    name = codec.as_text(found.get(RDMA_NLDEV_ATTR_DEV_NAME))
    if not name:
        msg = "an answer without RDMA_NLDEV_ATTR_DEV_NAME"
        raise MalformedError(msg)
    return name


def _guid(found: dict[int, memoryview], kind: int, what: str) -> str:
    return format_guid(unpack_number(U64, found.get(kind), what))


def _word(words: tuple[str, ...], value: int) -> str:
    return words[value] if value < len(words) else str(value)
