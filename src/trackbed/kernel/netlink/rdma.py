"""RDMA devices over NETLINK_RDMA: list, rename, move and create (include/uapi/rdma/rdma_netlink.h).

All functions need `Socket(NETLINK_RDMA)`. Opening it raises OSError (EPROTONOSUPPORT) if the kernel has no RDMA, or has
it as a module (ib_core) that is not loaded.

No message may carry NLM_F_CREATE, _EXCL or _REPLACE: the RDMA core reads those bits as NLM_F_DUMP
(drivers/infiniband/core/netlink.c, rdma_nl_rcv_msg). Device names are unique on the whole host, across namespaces; a
duplicate is refused (EEXIST for a rename, ENFILE for a new link).
"""

from __future__ import annotations

import os
from typing import Literal, NamedTuple

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import MalformedError, Message
from trackbed.kernel.netlink.exact import U32, U64, format_guid, unpack_number
from trackbed.kernel.netlink.sockets import Socket

RDMA_NL_NLDEV = 5
RDMA_NLDEV_CMD_GET, RDMA_NLDEV_CMD_SET, RDMA_NLDEV_CMD_NEWLINK = 1, 2, 3
RDMA_NLDEV_CMD_SYS_SET, RDMA_NLDEV_CMD_GET_CHARDEV = 7, 15

RDMA_NLDEV_ATTR_DEV_INDEX, RDMA_NLDEV_ATTR_DEV_NAME, RDMA_NLDEV_ATTR_PORT_INDEX = 1, 2, 3
RDMA_NLDEV_ATTR_FW_VERSION, RDMA_NLDEV_ATTR_NODE_GUID, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID = 5, 6, 7
RDMA_NLDEV_ATTR_NDEV_NAME, RDMA_NLDEV_ATTR_LINK_TYPE = 51, 65
RDMA_NLDEV_SYS_ATTR_NETNS_MODE, RDMA_NLDEV_ATTR_DEV_PROTOCOL, RDMA_NLDEV_NET_NS_FD = 66, 67, 68
RDMA_NLDEV_ATTR_CHARDEV_TYPE, RDMA_NLDEV_ATTR_CHARDEV_NAME, RDMA_NLDEV_ATTR_CHARDEV = 69, 70, 72

NetnsMode = Literal["exclusive", "shared"]
"""exclusive: a device is visible in one namespace only. shared: in all of them."""

_MODES: tuple[NetnsMode, ...] = ("exclusive", "shared")


class RdmaDevice(NamedTuple):
    """An RDMA device; GUIDs in the format of sysfs, `firmware` and `protocol` empty if the driver reports none."""

    index: int  # type: ignore[assignment] # the field hides a method of tuple
    name: str
    ports: int
    node_guid: str
    sys_image_guid: str
    firmware: str
    protocol: str
    """roce, ib, iw, usnic or opa; empty on kernels before 5.0."""


class VerbsDevice(NamedTuple):
    """Character device that gives access to an RDMA device: its name under /dev/infiniband and its device number."""

    name: str
    major: int
    minor: int


def _build_message(command: int, *attributes: bytes) -> Message:
    """Return a message of type RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command); it has no fixed header."""
    return Message((RDMA_NL_NLDEV << 10) + command, 0, b"".join(attributes))


def _pack_index(index: int) -> bytes:
    return codec.pack_u32(RDMA_NLDEV_ATTR_DEV_INDEX, index)


def build_set_netns_mode(mode: NetnsMode) -> Message:
    """Return the message that sets the namespace mode; the kernel rejects it (EBUSY) while other namespaces exist."""
    return _build_message(RDMA_NLDEV_CMD_SYS_SET, codec.pack_u8(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, _MODES.index(mode)))


def build_device_dump() -> Message:
    """Return the dump request that `list_devices` sends."""
    return _build_message(RDMA_NLDEV_CMD_GET)


def list_devices(sock: Socket) -> tuple[RdmaDevice, ...]:
    """Return the RDMA devices that are visible in the socket's namespace."""
    return tuple(parse_device(reply.body) for reply in sock.dump(build_device_dump()))


def parse_device(body: bytes | memoryview) -> RdmaDevice:
    """Parse a reply to RDMA_NLDEV_CMD_GET (fill_dev_info of drivers/infiniband/core/nldev.c)."""
    attributes = codec.parse_attributes(body)
    return RdmaDevice(
        index=_require_u32(attributes, RDMA_NLDEV_ATTR_DEV_INDEX, "RDMA_NLDEV_ATTR_DEV_INDEX"),
        name=_require_name(attributes),
        ports=_require_u32(attributes, RDMA_NLDEV_ATTR_PORT_INDEX, "RDMA_NLDEV_ATTR_PORT_INDEX"),
        node_guid=_parse_guid_attribute(attributes, RDMA_NLDEV_ATTR_NODE_GUID, "RDMA_NLDEV_ATTR_NODE_GUID"),
        sys_image_guid=_parse_guid_attribute(
            attributes, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, "RDMA_NLDEV_ATTR_SYS_IMAGE_GUID"
        ),
        firmware=codec.as_text(attributes.get(RDMA_NLDEV_ATTR_FW_VERSION)),
        protocol=codec.as_text(attributes.get(RDMA_NLDEV_ATTR_DEV_PROTOCOL)),
    )


def build_verbs_request(index: int) -> Message:
    """Return the request that `get_verbs` sends."""
    return _build_message(
        RDMA_NLDEV_CMD_GET_CHARDEV, _pack_index(index), codec.pack_string(RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs")
    )


def get_verbs(sock: Socket, device: RdmaDevice) -> VerbsDevice:
    """Return the character device of an RDMA device. Raises RequestError (ENOENT) if ib_uverbs is not loaded."""
    return parse_verbs(sock.request_one(build_verbs_request(device.index)))


def parse_verbs(body: bytes | memoryview) -> VerbsDevice:
    """Parse a reply to RDMA_NLDEV_CMD_GET_CHARDEV; the device number is in huge_encode_dev of linux/kdev_t.h."""
    attributes = codec.parse_attributes(body)
    name = codec.as_text(attributes.get(RDMA_NLDEV_ATTR_CHARDEV_NAME))
    if not name:
        raise MalformedError("a reply without RDMA_NLDEV_ATTR_CHARDEV_NAME")
    device_number = unpack_number(U64, attributes.get(RDMA_NLDEV_ATTR_CHARDEV), "RDMA_NLDEV_ATTR_CHARDEV")
    return VerbsDevice(name, os.major(device_number), os.minor(device_number))


def build_rename_device(index: int, name: str) -> Message:
    """Return the message that renames a device; `name` has at most 63 bytes (IB_DEVICE_NAME_MAX includes the NUL)."""
    return _build_message(RDMA_NLDEV_CMD_SET, _pack_index(index), codec.pack_string(RDMA_NLDEV_ATTR_DEV_NAME, name))


def build_move_device(index: int, netns_fd: int) -> Message:
    """Return the message that moves an RDMA device into a network namespace.

    Works in exclusive mode only, and only if the driver supports it (rxe: EOPNOTSUPP).
    """
    return _build_message(RDMA_NLDEV_CMD_SET, _pack_index(index), codec.pack_u32(RDMA_NLDEV_NET_NS_FD, netns_fd))


def build_create_link(name: str, netdev: str, kind: str = "rxe") -> Message:
    """Return the message that creates a software device (rxe, siw) on an interface in the socket's namespace."""
    return _build_message(
        RDMA_NLDEV_CMD_NEWLINK,
        codec.pack_string(RDMA_NLDEV_ATTR_DEV_NAME, name),
        codec.pack_string(RDMA_NLDEV_ATTR_LINK_TYPE, kind),
        codec.pack_string(RDMA_NLDEV_ATTR_NDEV_NAME, netdev),
    )


def _require_u32(attributes: dict[int, memoryview], attribute_type: int, label: str) -> int:
    if attribute_type not in attributes:
        raise MalformedError(f"a reply without {label}")
    return unpack_number(U32, attributes[attribute_type], label)


def _require_name(attributes: dict[int, memoryview]) -> str:
    name = codec.as_text(attributes.get(RDMA_NLDEV_ATTR_DEV_NAME))
    if not name:
        raise MalformedError("a reply without RDMA_NLDEV_ATTR_DEV_NAME")
    return name


def _parse_guid_attribute(attributes: dict[int, memoryview], attribute_type: int, label: str) -> str:
    return format_guid(unpack_number(U64, attributes.get(attribute_type), label))
