"""Putting a machine back: the record is compared with what is there now, and the difference is undone.

Nothing is replayed, so it does not matter where an apply was stopped, nor how often undo runs. Only what carries
Trackbed's mark (or is an address that the apply was about to add) is removed; what others have made since stays.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from trackbed.fabric.model.ranges import text
from trackbed.host.kinds import attributes, dcb, rdma, tos, vfs
from trackbed.host.kinds.names import live, renames
from trackbed.host.state import ADDRESS_HEAD, read
from trackbed.host.transaction import files
from trackbed.host.transaction.perform import RefusedError, run
from trackbed.host.transaction.record import bodies, here, key, made_here
from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import IFA_ADDRESS, IFA_F_NODAD, IFA_FLAGS, IFA_LOCAL, RTM_DELADDR, RTM_NEWADDR
from trackbed.kernel.netlink.codec import NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, Message
from trackbed.kernel.netlink.links import set_link
from trackbed.kernel.netlink.routes import RTM_DELROUTE, RTM_NEWROUTE
from trackbed.kernel.netlink.rules import RTM_DELRULE, RTM_NEWRULE
from trackbed.kernel.netlink.sockets import BatchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trackbed.host.machine import Machine
    from trackbed.host.transaction.record import Record
    from trackbed.kernel.netlink.sockets import Socket

_AF_INET6 = 10
_DELETE = {RTM_NEWADDR: RTM_DELADDR, RTM_NEWROUTE: RTM_DELROUTE, RTM_NEWRULE: RTM_DELRULE}
GONE = frozenset({errno.ENOENT, errno.ESRCH, errno.EADDRNOTAVAIL, errno.ENODEV})
"""What the kernel answers when the thing to remove is not there: a rule, a route, an address, an interface."""
_PASSES = (NLM_F_EXCL, NLM_F_REPLACE)
"""Routes go twice: one by a gateway needs the route to the gateway, which may come later in the list; and where an IPv6
address went, the kernel kept the routes that used it as their source but took the source from them."""


def restore(machine: Machine, record: Record) -> tuple[str, ...]:
    """Make the machine as the record says; returns what could not be put back, in words.

    After a reboot, or in another namespace, only the files are put back: the network of then is gone.
    """
    wrong: list[str] = []
    if here(machine, record):
        _links(machine, record, wrong)
        _sysctls(machine, record, wrong)
        wrong += rdma.restore(machine, record.rdma)  # first: attributes lie below the names that devices had
        wrong += attributes.restore(machine, record.attributes)
        wrong += vfs.restore(machine, record.vfs)  # after the count of VFs, which makes them anew
        wrong += dcb.restore(machine, record.dcb)
        wrong += tos.restore(machine, record.tos)
        with machine.socket() as sock:
            _network(sock, record, wrong)
    for path, content in record.files.items():
        try:
            files.write(machine, path, content, record.modes.get(path))
        except OSError as error:
            wrong.append(f"{path}: {error.strerror}")
    for argv in record.commands:
        try:
            run(machine, argv)
        except RefusedError as error:
            wrong.append(str(error))
    return tuple(wrong)


def _links(machine: Machine, record: Record, wrong: list[str]) -> None:
    state = read(machine)
    now = {link.index: link for link in state.links}
    there = [then for then in record.network.links if then.index in now]
    wrong += [f"interface {then.name} is gone" for then in record.network.links if then.index not in now]
    with machine.socket() as sock:
        _send(sock, renames([(now[then.index], then.name) for then in there], live=live(state)), wrong, "name")
        sizes = [set_link(t.index, mtu=t.mtu_bytes) for t in there if now[t.index].mtu != t.mtu_bytes]
        _send(sock, sizes, wrong, "MTU")
    with machine.socket() as sock:
        _send(sock, [set_link(then.index, up=then.up) for then in there], wrong, "state of an interface")


def _sysctls(machine: Machine, record: Record, wrong: list[str]) -> None:
    for name, value in record.sysctls.items():
        if machine.read_sysctl(name) == value:
            continue
        try:
            machine.write_sysctl(name, value)
        except OSError as error:
            wrong.append(f"{name}: {error.strerror}")


def _network(sock: Socket, record: Record, wrong: list[str]) -> None:
    then = record.network
    kinds = ((RTM_NEWADDR, then.addresses), (RTM_NEWROUTE, then.routes), (RTM_NEWRULE, then.rules))
    for kind, wanted in kinds:
        _put_back(sock, kind, wanted, record)
    for kind, wanted in kinds:
        now = {key(kind, body) for body in bodies(sock, kind, record.scope)}
        missing = sum(key(kind, body) not in now for body in wanted)
        if missing:
            what = {RTM_NEWADDR: "addresses", RTM_NEWROUTE: "routes", RTM_NEWRULE: "rules"}[kind]
            wrong.append(f"{missing} {what} could not be put back")


def _put_back(sock: Socket, kind: int, wanted: Sequence[bytes], record: Record) -> None:
    keep = {key(kind, body) for body in wanted}
    there = bodies(sock, kind, record.scope)
    extra = [b for b in there if key(kind, b) not in keep and (made_here(kind, b) or _announced(kind, b, record))]
    _send(sock, [Message(_DELETE[kind], 0, body) for body in extra])
    for flag in _PASSES if kind == RTM_NEWROUTE else _PASSES[:1]:
        now = {key(kind, body) for body in bodies(sock, kind, record.scope)}
        missing = [body for body in wanted if key(kind, body) not in now]
        _send(sock, [Message(kind, NLM_F_CREATE | flag, _again(kind, body)) for body in missing])


def _announced(kind: int, body: bytes, record: Record) -> bool:
    """Whether an address is one that the apply was about to add (kernels before 5.18 keep no mark on addresses)."""
    if kind != RTM_NEWADDR:
        return False
    family, prefix, _, _, index = ADDRESS_HEAD.unpack_from(body)
    known = codec.parse_attributes(body, ADDRESS_HEAD.size)
    own = int.from_bytes(known.get(IFA_LOCAL, known.get(IFA_ADDRESS, b"")), "big")
    return f"{index} {text(6 if family == _AF_INET6 else 4, own)}/{prefix}" in record.scope.addresses


def _again(kind: int, body: bytes) -> bytes:
    """An IPv6 address comes back without duplicate detection, or the routes that use it would be refused meanwhile."""
    if kind != RTM_NEWADDR or body[0] != _AF_INET6:
        return body
    flags = codec.as_int(codec.parse_attributes(body, ADDRESS_HEAD.size).get(IFA_FLAGS))
    return body + codec.pack_u32(IFA_FLAGS, flags | IFA_F_NODAD)


def _send(sock: Socket, messages: list[Message], wrong: list[str] | None = None, what: str = "") -> None:
    try:
        sock.send(messages)
    except BatchError as error:
        if wrong is not None:
            bad = [failure for failure in error.failures if failure.errno not in GONE]
            wrong += [f"{what}: {os.strerror(failure.errno)} {failure.text}".rstrip() for failure in bad]
