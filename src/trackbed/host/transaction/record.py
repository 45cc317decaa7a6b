"""What the machine was like before: the part of it that `apply` may touch, on disk before the first change.

    undo.json   {boot, netns, finished, links, addresses, routes, rules, sysctls, attributes, rdma, files, modes,
                 commands, vfs, dcb, tos}

Addresses, routes and rules are kept as the kernel's own messages, so that putting them back loses nothing that this
program does not know. The record is complete and synced before anything is changed; `finished` is set when all changes
have been made. A record that is not finished belongs to an apply that was killed: the next one keeps it as its own
"before", so that undo leads back to the state before the first of them.

Interface indexes and namespaces do not outlive a boot: `boot` and `netns` say where the network part is valid.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trackbed.fabric.plan.routes import Rule
from trackbed.host.atomic import replace
from trackbed.host.change import FileWrite
from trackbed.host.kinds import dcb, rdma, tos, vfs
from trackbed.host.kinds.attributes import attribute_of
from trackbed.host.kinds.sysctls import live_key
from trackbed.host.setting import PROTOCOL, Address, Sysctl
from trackbed.host.state import ADDRESS_HEAD, IFA_PROTO
from trackbed.host.transaction.files import FileChange
from trackbed.kernel.netlink import codec
from trackbed.kernel.netlink.addresses import RTM_GETADDR, RTM_NEWADDR
from trackbed.kernel.netlink.codec import Message
from trackbed.kernel.netlink.netns import read_inode
from trackbed.kernel.netlink.routes import (
    RT_TABLE_LOCAL,
    RTA_MULTIPATH,
    RTA_OIF,
    RTA_TABLE,
    RTM_F_CLONED,
    RTM_GETROUTE,
    RTM_NEWROUTE,
    RTNH_F_ONLINK,
)
from trackbed.kernel.netlink.rules import FRA_PRIORITY, FRA_PROTOCOL, RTM_GETRULE, RTM_NEWRULE
from trackbed.kernel.netlink.sockets import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trackbed.host.change import Change
    from trackbed.host.kinds.view import View
    from trackbed.host.machine import Machine
    from trackbed.kernel.netlink.sockets import Socket

FILE = "undo.json"
FOLDER = "/var/lib/trackbed"

_FAMILIES = (2, 10)
"""AF_INET, AF_INET6."""
_ROUTE_HEAD = struct.Struct("=BBBBBBBBI")
"""struct rtmsg and struct fib_rule_hdr: family, lengths, tos, table, protocol, scope, type, flags."""
_VOLATILE = {RTM_NEWADDR: {6, 8}, RTM_NEWROUTE: {12}, RTM_NEWRULE: set[int]()}
"""IFA_CACHEINFO, IFA_FLAGS, RTA_CACHEINFO: ages and states, not settings."""


class LinkRecord(msgspec.Struct, frozen=True):
    """One port: index, name, MTU in bytes, administratively up."""

    index: int
    name: str
    mtu_bytes: int
    up: bool


class Scope(msgspec.Struct, frozen=True):
    """The part of the network that an apply may touch: ports, tables, rule priorities, addresses it may add."""

    indexes: frozenset[int]
    tables: frozenset[int]
    priorities: frozenset[int]
    addresses: frozenset[str]


class Network(msgspec.Struct, frozen=True):
    """The state within a scope; addresses, routes and rules as bodies of the kernel's RTM_NEW* messages."""

    links: tuple[LinkRecord, ...]
    addresses: tuple[bytes, ...]
    routes: tuple[bytes, ...]
    rules: tuple[bytes, ...]


class Record(msgspec.Struct, frozen=True):
    """Everything needed to undo; `files` holds None for a file that was not there.

    `attributes` are files of sysfs, `modes` permissions of files, `commands` programs to run after all was put back;
    `rdma`, `vfs`, `dcb` and `tos` are what the modules of these names took.
    """

    boot: str
    netns: int
    scope: Scope
    network: Network
    sysctls: dict[str, str]
    files: dict[str, bytes | None]
    finished: bool = False
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    rdma: dict[str, str] = msgspec.field(default_factory=dict)
    modes: dict[str, int] = msgspec.field(default_factory=dict)
    commands: tuple[tuple[str, ...], ...] = ()
    vfs: dict[str, str] = msgspec.field(default_factory=dict)
    dcb: dict[str, dcb.Before] = msgspec.field(default_factory=dict)
    tos: dict[str, str] = msgspec.field(default_factory=dict)


def folder(machine: Machine) -> Path:
    """Where a machine's record lies: a namespace that shares this host's files has a folder of its own."""
    own = machine.path(FOLDER)
    alone = machine.netns is None or machine.root != Path("/")
    return own if alone else own / f"netns-{_netns(machine)}"


def take(machine: Machine, seen: View, files: Iterable[FileChange], changes: Iterable[Change] = ()) -> Record:
    """Record the machine as it is now: what settings speak of, and what `changes` are about to write besides."""
    wants = [setting.want for setting in seen.settings]
    planned = {
        f"{seen.ports[w.netdev].index} {w.own}" for w in wants if isinstance(w, Address) and w.netdev in seen.ports
    }
    priorities = frozenset(want.priority for want in wants if isinstance(want, Rule))
    scope = Scope(seen.indexes, seen.tables, priorities, frozenset(planned))
    keys = [live_key(want.key, seen) for want in wants if isinstance(want, Sysctl)]
    values = {key: value for key in keys if isinstance(value := machine.read_sysctl(key), str)}
    ports = sorted(seen.ports.values(), key=lambda link: link.index)
    links = tuple(LinkRecord(link.index, link.name, link.mtu, link.up) for link in ports)
    with machine.socket() as sock:
        network = Network(links, *(bodies(sock, kind, scope) for kind in (RTM_NEWADDR, RTM_NEWROUTE, RTM_NEWRULE)))
    before = {f.path: f.have for f in files} | _files(machine, changes)
    return Record(
        boot(),
        _netns(machine),
        scope,
        network,
        values,
        before,
        attributes=_attributes(machine, seen),
        rdma=rdma.taken(seen),
        vfs=vfs.taken(seen),
        dcb=dcb.taken(seen),
        tos=tos.taken(seen),
        modes={path: machine.path(path).stat().st_mode & 0o7777 for path, have in before.items() if have is not None},
    )


def _files(machine: Machine, changes: Iterable[Change]) -> dict[str, bytes | None]:
    found: dict[str, bytes | None] = {}
    for path in [op.path for change in changes for op in change.do if isinstance(op, FileWrite)]:
        try:
            found[path] = machine.path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            found[path] = None
    return found


def _attributes(machine: Machine, seen: View) -> dict[str, str]:
    if machine.shared:
        return {}
    paths = [path for setting in seen.settings if (path := attribute_of(setting.want, seen))]
    return {path: value for path in paths if isinstance(value := machine.read(path), str)}


def merged(old: Record, new: Record) -> Record:
    """The record of a killed apply, completed by what the next one may touch besides.

    Kernel parameters of a port stand under the name it had; what was read under the new name came from the first apply.
    So do files of sysfs, which lie under the name of the port or of its RDMA device.
    """
    renamed = {link.name for link in new.network.links} - {link.name for link in old.network.links}
    fresh = {name: value for name, value in new.sysctls.items() if not renamed & set(name.split("/"))}
    scope = Scope(*(getattr(old.scope, name) | getattr(new.scope, name) for name in Scope.__struct_fields__))
    renamed |= set(new.rdma.values()) - set(old.rdma.values())
    attributes = {name: value for name, value in new.attributes.items() if not renamed & set(name.split("/"))}
    both = msgspec.structs.replace(
        old,
        scope=scope,
        sysctls=fresh | old.sysctls,
        attributes=attributes | old.attributes,
        rdma=new.rdma | old.rdma,
        vfs=new.vfs | old.vfs,
        dcb=new.dcb | old.dcb,
        tos={name: value for name, value in new.tos.items() if name not in renamed} | old.tos,
    )
    return with_files(both, new, old)


def with_files(base: Record, *records: Record) -> Record:
    """A record with the files and commands of all `records`; the later one knows the older content."""
    files, modes = dict(base.files), dict(base.modes)
    for record in records:
        files.update(record.files)
        modes.update(record.modes)
    commands = tuple(dict.fromkeys(command for record in (*records, base) for command in record.commands))
    return msgspec.structs.replace(base, files=files, modes=modes, commands=commands)


def load(place: Path) -> Record | None:
    """The record in a folder; None if there is none. ValueError on bytes that are none."""
    try:
        raw = (place / FILE).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(raw, type=Record)
    except msgspec.MsgspecError as error:
        raise ValueError(
            f"{place / FILE} is no undo record of this version ({error}); move it away to go on"
        ) from error


def save(place: Path, record: Record) -> None:
    """Write the record durably."""
    place.mkdir(parents=True, exist_ok=True)
    replace(place / FILE, msgspec.json.encode(record), 0o600)


def drop(place: Path) -> None:
    """Forget the record."""
    (place / FILE).unlink(missing_ok=True)


def here(machine: Machine, record: Record) -> bool:
    """Whether the record's network is this one: same boot, same namespace."""
    return (record.boot, record.netns) == (boot(), _netns(machine))


def boot() -> str:
    """What tells this boot of the kernel from all others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _netns(machine: Machine) -> int:
    return read_inode(Path("/proc/thread-self/ns/net") if machine.netns is None else machine.netns)


def bodies(sock: Socket, kind: int, scope: Scope) -> tuple[bytes, ...]:
    """Addresses, routes or rules (`kind` RTM_NEWADDR ...) within a scope as the kernel tells them."""
    if kind == RTM_NEWADDR:
        return tuple(body for body in _dump(sock, RTM_GETADDR) if ADDRESS_HEAD.unpack_from(body)[4] in scope.indexes)
    if kind == RTM_NEWROUTE:
        return tuple(_settled(body) for body in _dump(sock, RTM_GETROUTE) if _route_within(body, scope))
    return tuple(body for body in _dump(sock, RTM_GETRULE) if _rule_within(body, scope))


def _dump(sock: Socket, kind: int) -> Iterator[bytes]:
    for family in _FAMILIES:
        size = ADDRESS_HEAD.size if kind == RTM_GETADDR else _ROUTE_HEAD.size
        try:
            replies = sock.dump(Message(kind, 0, bytes([family]).ljust(size, b"\0")))
        except RequestError:
            continue  # a kernel without IPv6
        yield from (bytes(reply.body) for reply in replies)


def _route_within(body: bytes, scope: Scope) -> bool:
    head = _ROUTE_HEAD.unpack_from(body)
    found = codec.parse_attributes(body, _ROUTE_HEAD.size)
    table = codec.as_int(found.get(RTA_TABLE), head[4])
    if table == RT_TABLE_LOCAL or head[8] & RTM_F_CLONED:
        return False
    return table in scope.tables or head[5] == PROTOCOL or bool(_interfaces(found) & scope.indexes)


def _interfaces(found: dict[int, memoryview]) -> set[int]:
    hops, at, indexes = found.get(RTA_MULTIPATH, memoryview(b"")), 0, {codec.as_int(found.get(RTA_OIF))}
    while at + 8 <= len(hops):  # struct rtnexthop: length, flags, hops, interface index
        length, index = struct.unpack_from("=HxxI", hops, at)
        indexes.add(index)
        at += max(length, 8)
    return indexes


def _rule_within(body: bytes, scope: Scope) -> bool:
    found = codec.parse_attributes(body, _ROUTE_HEAD.size)
    ours = codec.as_int(found.get(FRA_PROTOCOL)) == PROTOCOL
    return ours or codec.as_int(found.get(FRA_PRIORITY)) in scope.priorities


def _settled(body: bytes) -> bytes:
    """A route without the flags that tell its present state, which the kernel refuses to be told."""
    head = _ROUTE_HEAD.unpack_from(body)
    return _ROUTE_HEAD.pack(*head[:8], head[8] & RTNH_F_ONLINK) + body[_ROUTE_HEAD.size :]


def key(kind: int, body: bytes) -> tuple[bytes, tuple[tuple[int, bytes], ...]]:
    """What makes two messages of one kind (RTM_NEW*) the same setting: all but ages and states."""
    head = ADDRESS_HEAD if kind == RTM_NEWADDR else _ROUTE_HEAD
    fixed = body[:2] + body[3 : head.size] if kind == RTM_NEWADDR else body[: head.size]
    known = codec.parse_attributes(body, head.size).items()
    return fixed, tuple(sorted((number, bytes(value)) for number, value in known if number not in _VOLATILE[kind]))


def made_here(kind: int, body: bytes) -> bool:
    """Whether an address, route or rule carries Trackbed's mark."""
    if kind == RTM_NEWROUTE:
        return bool(_ROUTE_HEAD.unpack_from(body)[5] == PROTOCOL)
    size, number = (ADDRESS_HEAD.size, IFA_PROTO) if kind == RTM_NEWADDR else (_ROUTE_HEAD.size, FRA_PROTOCOL)
    return codec.as_int(codec.parse_attributes(body, size).get(number)) == PROTOCOL
