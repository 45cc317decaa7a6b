"""The nf_tables packet filter: base chains, their policy and their number of rules.

It is read through NETLINK_NETFILTER (include/uapi/linux/netfilter/nf_tables.h), so `nft` is not needed. Rules of
`iptables-nft` are included, those of `iptables-legacy` are not. Fault injection uses the one kind of table that this
module creates: a chain that drops everything.
"""

from __future__ import annotations

import errno
import socket
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.codec import Message, ReceivedMessage
from trackbed.kernel.netlink.sockets import (
    NETLINK_NETFILTER,
    BatchError,
    Failure,
    ReplyTimeoutError,
    RequestError,
    Socket,
)
from trackbed.kernel.wire.errors import NotAvailable, NotPermitted
from trackbed.kernel.wire.netns_sockets import Netns, open_socket

FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}  # NFPROTO_*
_INET = 1
_IP_HOOKS = ("prerouting", "input", "forward", "output", "postrouting", "ingress")  # NF_INET_*
_ARP_HOOKS = ("input", "output", "forward")  # NF_ARP_*
_NETDEV_HOOKS = ("ingress", "egress")  # NF_NETDEV_*
_HOOKS = {"arp": _ARP_HOOKS, "netdev": _NETDEV_HOOKS}
_POLICIES = ("drop", "accept")  # NF_DROP, NF_ACCEPT

_SUBSYSTEM = 10  # NFNL_SUBSYS_NFTABLES
_BATCH_BEGIN, _BATCH_END = 0x10, 0x11  # NFNL_MSG_BATCH_*
_NEWTABLE, _DELTABLE, _NEWCHAIN, _GETCHAIN, _GETRULE = 0, 2, 3, 4, 7  # NFT_MSG_*
_TABLE_NAME = 1  # NFTA_TABLE_NAME
_CHAIN_TABLE, _CHAIN_NAME, _CHAIN_HOOK, _CHAIN_POLICY, _CHAIN_TYPE = 1, 3, 4, 5, 7  # NFTA_CHAIN_*
_HOOK_NUMBER, _HOOK_PRIORITY = 1, 2  # NFTA_HOOK_*
_RULE_TABLE, _RULE_CHAIN = 1, 2  # NFTA_RULE_*
_GENERIC = struct.Struct("!BBH")  # struct nfgenmsg: family, version 0, resource id
_REPLY_BYTES = 1 << 16
_NOT_AVAILABLE = (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP)  # no nfnetlink; no subsystem for the batch
_NOT_PERMITTED = (errno.EPERM, errno.EACCES)


@dataclass(frozen=True)
class BaseChain:
    """A chain that the kernel calls at a hook."""

    family: str
    """Name that `nft` uses: inet, ip, ip6, arp, bridge or netdev."""
    table: str
    name: str
    kind: str
    """filter, nat or route."""
    hook: str
    priority: int
    policy: str
    """Verdict for packets without a matching rule: accept or drop."""
    rules: int
    """Rules in the chain itself. With policy drop, 0 means that nothing passes."""


def list_base_chains(netns: Netns, timeout_seconds: float) -> tuple[BaseChain, ...]:
    """Return all base chains of a network namespace, in the kernel's order.

    Raises:
        NotAvailable: this kernel has no nf_tables.
        NotPermitted: the process lacks CAP_NET_ADMIN in the namespace.
        NetlinkError: the kernel did not reply in time, or returned another error.
    """
    try:
        with Socket(NETLINK_NETFILTER, netns=netns, timeout_seconds=timeout_seconds) as netlink:
            rules = Counter(_identify_chain(received) for received in netlink.dump(build_message(_GETRULE, 0)))
            chains = tuple(netlink.dump(build_message(_GETCHAIN, 0)))
    except (OSError, RequestError) as error:
        _raise_probe_error(error)
    return tuple(_iter_base_chains(chains, rules))


def add_drop_chain(netns: Netns, table: str, chain: str, hook: str, timeout_seconds: float) -> None:
    """Create a table of family inet with a base chain at `hook` that drops everything; existing ones are kept.

    Raises:
        ValueError: inet has no such hook.
        NotAvailable, NotPermitted, NetlinkError: as list_base_chains.
    """
    hook_attributes = codec.pack_be32(_HOOK_NUMBER, _IP_HOOKS.index(hook)) + codec.pack_be32(_HOOK_PRIORITY, 0)
    attributes = (
        codec.pack_string(_CHAIN_TABLE, table),
        codec.pack_string(_CHAIN_NAME, chain),
        codec.pack_nested(_CHAIN_HOOK, hook_attributes),
        codec.pack_be32(_CHAIN_POLICY, _POLICIES.index("drop")),
        codec.pack_string(_CHAIN_TYPE, "filter"),
    )
    new_table = build_message(_NEWTABLE, _INET, codec.pack_string(_TABLE_NAME, table), flags=codec.NLM_F_CREATE)
    new_chain = build_message(_NEWCHAIN, _INET, *attributes, flags=codec.NLM_F_CREATE)
    commit(netns, (new_table, new_chain), timeout_seconds)


def delete_table(netns: Netns, table: str, timeout_seconds: float) -> None:
    """Delete a table of family inet with all its chains; a missing table is ignored.

    Raises:
        NotAvailable, NotPermitted, NetlinkError: as list_base_chains.
    """
    try:
        commit(netns, (build_message(_DELTABLE, _INET, codec.pack_string(_TABLE_NAME, table)),), timeout_seconds)
    except BatchError as error:
        if any(failure.errno != errno.ENOENT for failure in error.failures):
            raise


def build_message(message_type: int, family: int, *attributes: bytes, flags: int = 0) -> Message:
    """Return a message of nf_tables: type NFT_MSG_*, family NFPROTO_*, attributes."""
    return Message(_SUBSYSTEM << 8 | message_type, flags, _GENERIC.pack(family, 0, 0) + b"".join(attributes))


def _identify_chain(received: ReceivedMessage) -> tuple[int, str, str]:
    attributes = codec.parse_attributes(received.body, _GENERIC.size)
    return received.body[0], codec.as_text(attributes.get(_RULE_TABLE)), codec.as_text(attributes.get(_RULE_CHAIN))


def _iter_base_chains(chains: Sequence[ReceivedMessage], rules: Counter[tuple[int, str, str]]) -> Iterator[BaseChain]:
    for received in chains:
        attributes = codec.parse_attributes(received.body, _GENERIC.size)
        if _CHAIN_HOOK not in attributes:  # not a base chain
            continue
        hook_attributes = codec.parse_attributes(attributes[_CHAIN_HOOK])
        family = FAMILIES.get(received.body[0], str(received.body[0]))
        table, name = codec.as_text(attributes.get(_CHAIN_TABLE)), codec.as_text(attributes.get(_CHAIN_NAME))
        yield BaseChain(
            family=family,
            table=table,
            name=name,
            kind=codec.as_text(attributes.get(_CHAIN_TYPE)),
            hook=_get_value_name(_HOOKS.get(family, _IP_HOOKS), _parse_number(hook_attributes.get(_HOOK_NUMBER))),
            priority=_parse_number(hook_attributes.get(_HOOK_PRIORITY)),
            policy=_get_value_name(_POLICIES, _parse_number(attributes.get(_CHAIN_POLICY))),
            rules=rules[received.body[0], table, name],
        )


def _parse_number(value: memoryview | None) -> int:
    return 0 if value is None else int.from_bytes(value, "big", signed=True)


def _get_value_name(names: Sequence[str], number: int) -> str:
    return names[number] if 0 <= number < len(names) else str(number)


def commit(netns: Netns, messages: Sequence[Message], timeout_seconds: float) -> None:
    """Apply all of `messages` or none, in one nfnetlink batch.

    Socket.send cannot be used here: it waits for the ACK of the batch's end, which only Linux 6.10 and later send.

    Raises:
        BatchError: the kernel refused a message; its index counts from 1.
        NotAvailable, NotPermitted, ReplyTimeoutError: as list_base_chains.
    """
    begin, end = (Message(kind, 0, _GENERIC.pack(0, 0, _SUBSYSTEM)) for kind in (_BATCH_BEGIN, _BATCH_END))
    batch = (begin, *(message._replace(flags=message.flags | codec.NLM_F_ACK) for message in messages), end)
    try:
        with open_socket(netns, socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
            netlink.settimeout(timeout_seconds)
            netlink.send(b"".join(codec.pack_message(message, number) for number, message in enumerate(batch)))
            _wait_for_acknowledgement(netlink, batch)
    except TimeoutError as error:
        raise ReplyTimeoutError(
            f"the kernel did not answer a batch for nf_tables within {timeout_seconds:g} s"
        ) from error
    except (OSError, BatchError) as error:
        _raise_probe_error(error)


def _wait_for_acknowledgement(netlink: socket.socket, batch: Sequence[Message]) -> None:
    """Wait for the ACK of the last message. Raises BatchError if one is rejected; the kernel then rolls back all."""
    while True:
        for reply in codec.parse_messages(netlink.recv(_REPLY_BYTES)):
            if reply.type != codec.NLMSG_ERROR:
                continue
            error_number = -int.from_bytes(reply.body[:4], sys.byteorder, signed=True)
            if error_number:
                raise BatchError((Failure(reply.sequence, error_number, ""),))
            if reply.sequence == len(batch) - 2:
                return


def _raise_probe_error(error: OSError | RequestError | BatchError) -> NoReturn:
    """Raise the kernel's refusal as a probe error if it means one; otherwise raise it unchanged."""
    error_number = error.failures[0].errno if isinstance(error, BatchError) else error.errno
    no_subsystem = isinstance(error, RequestError) and error_number == errno.EINVAL
    if no_subsystem or error_number in _NOT_AVAILABLE:
        raise NotAvailable(f"this kernel has no nf_tables ({error}): its packet filter cannot be read") from error
    if error_number in _NOT_PERMITTED:
        raise NotPermitted(f"may not use nf_tables ({error}): run as root or with CAP_NET_ADMIN") from error
    raise error
