"""Ids by which one network namespace refers to others (include/uapi/linux/net_namespace.h).

A listing of another namespace by its id (IFLA_TARGET_NETNSID) names namespaces as the socket's own namespace does, so
the same link has the same peer in listings of any namespace.
"""

from __future__ import annotations

import struct

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.sockets import Socket

RTM_NEWNSID, RTM_GETNSID = 88, 90
NETNSA_NSID, NETNSA_FD = 1, 3
_RTGENMSG = bytes(4)  # struct rtgenmsg, padded
_S32 = struct.Struct("=i")
_NOT_ASSIGNED = -1


def assign_netns_id(sock: Socket, netns_fd: int) -> int:
    """Return the id of a network namespace in the socket's own one; it is assigned if there is none yet.

    It is valid until the namespace ends. Raises RequestError if the descriptor is not a network namespace.
    """
    netns_id = _get_netns_id(sock, netns_fd)
    if netns_id == _NOT_ASSIGNED:
        wanted = codec.pack_attribute(NETNSA_NSID, _S32.pack(_NOT_ASSIGNED))  # any
        sock.request(Message(RTM_NEWNSID, 0, _RTGENMSG + codec.pack_u32(NETNSA_FD, netns_fd) + wanted))
        netns_id = _get_netns_id(sock, netns_fd)
    return netns_id


def _get_netns_id(sock: Socket, netns_fd: int) -> int:
    reply = sock.request_one(Message(RTM_GETNSID, 0, _RTGENMSG + codec.pack_u32(NETNSA_FD, netns_fd)))
    (netns_id,) = codec.unpack_header(_S32, codec.parse_attributes(reply, len(_RTGENMSG))[NETNSA_NSID])
    return netns_id
