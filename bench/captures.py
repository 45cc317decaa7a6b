"""Archives of a whole site, each as large as that of a real host, with a fault of each kind; how doctor judges them.

One host is captured, and the archives of all others are made of it: they differ in what differs between hosts of one
model (host name, machine id, MAC addresses, GUIDs, addresses), and have its 11,000 members in common.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import resource
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench import h100_host
from bench.figures import Figure
from bench.fleet import Memory
from tests.host import h100
from trackbed.cli.capture import build_wanted
from trackbed.fabric.model.load import load_fabric
from trackbed.fabric.model.ranges import format_address
from trackbed.fabric.plan.compute import compute_plan
from trackbed.fabric.plan.plan import NodePlan
from trackbed.host.machine import Machine
from trackbed.host.snapshot.capture import capture
from trackbed.host.snapshot.recorded import RECORD

HOSTS: Final = 512
GOAL_SECONDS, GOAL_MB = 20.0, 500.0
MIN_HOSTS: Final = 16
"""The faults need so many hosts."""
_RAILS: Final = h100_host.RAILS
_LIMIT_SECONDS: Final = 540
_OLD_FIRMWARE: Final = "28.39.1002"
_UNIT: Final = 32
"""Hosts at one leaf; half of all where there are few."""
_SWAPPED, _CUT_OFF = 11, 12
"""Numbers of the host whose rails are swapped, and of that whose archive is cut off."""
_SWAPPED_RAILS: Final = (0, 1, 3, 2, 4, 5, 6, 7)
_MACS: Final = tuple(map(h100_host.read_mac, range(_RAILS)))
_GUIDS: Final = tuple(map(h100_host.read_guid, range(_RAILS)))
_VALUES: Final = (
    *(h100_host.NAME, h100_host.MACHINE_ID, h100_host.FIRMWARE, h100_host.LINKS_MARK, h100_host.ADDRESSES_MARK),
    *(*_MACS, *_GUIDS),
)
"""What differs between hosts. Only what stands in the record, the last member, may differ in length."""
_VALUE: Final = re.compile(b"|".join(re.escape(value.encode()) for value in _VALUES))


@dataclass
class Host:
    """What is of one host only; faults change it."""

    number: int
    addresses: list[str]
    name: str = ""
    macs: list[str] = field(default_factory=list)
    guids: list[str] = field(default_factory=list)
    firmware: str = h100_host.FIRMWARE
    dark_rails: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Give the host what no other host has."""
        self.name = name_host(self.number)
        self.macs = [f"b8:3f:{self.number >> 8:02x}:{self.number & 255:02x}{mac[11:]}" for mac in _MACS]
        self.guids = [f"b83f:{self.number:04x}{guid[9:]}" for guid in _GUIDS]

    def list_values(self) -> tuple[str, ...]:
        """Return its values in the order of `_VALUES`."""
        texts = (quote_json(self.list_links()), quote_json(self.list_addresses()))
        return (self.name, f"{self.number:032x}", self.firmware, *texts, *self.macs, *self.guids)

    def list_links(self) -> list[dict[str, Any]]:
        """Return the interfaces as iproute2 6.1 does."""
        return [
            {
                "ifindex": 10 + rail,
                "ifname": f"rail{rail}",
                "flags": ["BROADCAST", "MULTICAST", "UP", *([] if rail in self.dark_rails else ["LOWER_UP"])],
                "mtu": 9000,
                "qdisc": "mq",
                "operstate": "DOWN" if rail in self.dark_rails else "UP",
                "linkmode": "DEFAULT",
                "group": "default",
                "txqlen": 1000,
                "link_type": "ether",
                "address": mac,
                "broadcast": "ff:ff:ff:ff:ff:ff",
                "num_tx_queues": 504,
                "num_rx_queues": 63,
                "parentbus": "pci",
                "parentdev": h100.RAILS[rail],
                "stats64": {"rx": {"bytes": 7**20, "packets": 7**17}, "tx": {"bytes": 7**20, "packets": 7**17}},
            }
            for rail, mac in enumerate(self.macs)
        ]

    def list_addresses(self) -> list[dict[str, Any]]:
        """Return the addresses as iproute2 6.1 does."""
        infos = [
            {"family": "inet", "local": text, "prefixlen": 31, "scope": "global", "label": f"rail{rail}"}
            for rail, text in enumerate(self.addresses)
        ]
        return [{"ifindex": 10 + rail, "addr_info": [info]} for rail, info in enumerate(infos)]


def name_host(number: int) -> str:
    """Return the name of a host."""
    return f"gpu{number:04}"


def quote_json(value: object) -> str:
    """Return JSON as it stands in a string of JSON, without the quotes."""
    return json.dumps(json.dumps(value, separators=(",", ":")))[1:-1]


class Piece(NamedTuple):
    """A part of an archive, and the same compressed so that it can be joined with others (RFC 1951)."""

    content: bytes
    compressed: bytes


class Template(NamedTuple):
    """The archive of the captured host: its members and its record, each cut at the values that differ."""

    members: tuple[Piece, ...]
    record: tuple[Piece, ...]


def make_template(rails: Sequence[int] = range(_RAILS), functions: int = h100_host.FUNCTIONS) -> Template:
    """Capture a host as `trackbed capture --identified` does."""
    stream = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        programs = h100_host.Programs(functions / h100_host.FUNCTIONS)
        machine = Machine(h100_host.write_host(Path(folder), rails, functions), runner=programs)
        capture(machine, build_wanted(machine), stream)
    raw = gzip.decompress(stream.getvalue())
    with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
        entry = archive.getmember(RECORD)
    members, record = raw[: entry.offset], raw[entry.offset_data : entry.offset_data + entry.size]
    return Template(_cut(members), _cut(record))


def _cut(raw: bytes) -> tuple[Piece, ...]:
    return tuple(map(_compress, re.split(b"(" + _VALUE.pattern + b")", raw)))


def _compress(content: bytes) -> Piece:
    encoder = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)  # the level of tarfile
    return Piece(content, encoder.compress(content) + encoder.flush(zlib.Z_FULL_FLUSH))


def write_archive(place: Path, template: Template, host: Host) -> None:
    """Write the archive of a host."""
    values = {value.encode(): _compress(text.encode()) for value, text in zip(_VALUES, host.list_values(), strict=True)}
    members, record = ([values.get(piece.content, piece) for piece in pieces] for pieces in template)
    entry = tarfile.TarInfo(RECORD)
    entry.size = sum(len(piece.content) for piece in record)
    end = bytes(-entry.size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)
    place.write_bytes(join_pieces([*members, _compress(entry.tobuf(tarfile.PAX_FORMAT)), *record, _compress(end)]))


def join_pieces(pieces: Sequence[Piece]) -> bytes:
    """Return one gzip member (RFC 1952) of compressed pieces."""
    checksum, size = 0, 0
    for piece in pieces:
        checksum, size = zlib.crc32(piece.content, checksum), size + len(piece.content)
    last_block = b"\x03\x00"
    head = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    return b"".join((head, *(piece.compressed for piece in pieces), last_block, struct.pack("<II", checksum, size)))


def write_fabric(place: Path, hosts: int) -> list[NodePlan]:
    """Write the Fabric of the site; return its plan."""
    text = f"""apiVersion: trackbed.dev/v1alpha1
kind: Fabric
metadata: {{name: train}}
spec:
  nodes: [{{hosts: "gpu[{1:04}-{hosts:04}]", server: dell-xe9680-h100}}]
  rails: {_RAILS}
  nodesPerUnit: {min(_UNIT, hosts // 2)}
  addressing: {{scheme: point-to-point, ipv4: 10.0.0.0/11}}
"""
    place.write_text(text)
    return list(compute_plan(load_fabric(text.encode(), str(place)).fabric, {}).nodes)


def build_hosts(nodes: Sequence[NodePlan]) -> list[Host]:
    """Return sound hosts with the addresses of the plan."""
    return [
        Host(
            number,
            [format_address(port.addresses[0].version, port.addresses[0].address) for port in node.ports],
        )
        for number, node in enumerate(nodes, start=1)
    ]


class SiteFault(NamedTuple):
    """A fault that doctor must find, and the hosts that it must name."""

    id: str
    hosts: tuple[int, ...]


def inject_faults(hosts: Sequence[Host]) -> list[SiteFault]:
    """Change hosts; return the faults, of which two more are in the archives (`write_site`)."""
    by_number = {host.number: host for host in hosts}
    by_number[5].addresses[1] = by_number[2].addresses[1]
    by_number[6].guids[1] = by_number[3].guids[1]
    by_number[7].macs[1] = by_number[4].macs[1]
    by_number[9].name = by_number[8].name
    by_number[10].firmware = _OLD_FIRMWARE
    unit = range(1, min(_UNIT, len(hosts) // 2) + 1)
    for number in unit:
        by_number[number].dark_rails = (0,)
    return [
        SiteFault("addr-duplicate-on-rail", (2, 5)),
        SiteFault("vfs-guid-duplicate", (3, 6)),
        SiteFault("vfs-mac-duplicate", (4, 7)),
        SiteFault("kubelet-duplicate-node-name", (8, 9)),
        SiteFault("switch-leaf-down", tuple(number for number in unit if number != _CUT_OFF)),
        SiteFault("fw-version-mixed", (1, 10)),
        SiteFault("names-rail-order-differs", (1, _SWAPPED)),
        SiteFault("node-unread", (_CUT_OFF,)),
    ]


def write_site(
    folder: Path, hosts: int = HOSTS, functions: int = h100_host.FUNCTIONS
) -> tuple[Path, list[Path], list[SiteFault]]:
    """Write Fabric and archives, with a fault of each kind; return them and the faults."""
    if hosts < MIN_HOSTS:
        raise ValueError(f"the faults need {MIN_HOSTS} hosts or more, not {hosts}")
    fabric = folder / "fabric.yaml"
    servers = build_hosts(write_fabric(fabric, hosts))
    faults = inject_faults(servers)
    usual, swapped = make_template(functions=functions), make_template(_SWAPPED_RAILS, functions)
    archives = []
    for server in servers:
        archives.append(folder / f"{name_host(server.number)}.tar.gz")
        write_archive(archives[-1], swapped if server.number == _SWAPPED else usual, server)
    cut_off = archives[_CUT_OFF - 1]
    cut_off.write_bytes(cut_off.read_bytes()[: cut_off.stat().st_size // 2])
    return fabric, archives, faults


def find_unnamed(document: dict[str, Any], faults: Sequence[SiteFault]) -> list[SiteFault]:
    """Return the faults of which doctor's JSON has no finding with exactly these ends."""
    named = [(finding["id"], {end["node"] for end in finding.get("ends", ())}) for finding in document["findings"]]
    return [fault for fault in faults if (fault.id, set(map(name_host, fault.hosts))) not in named]


def captures(hosts: int) -> Iterator[Figure]:
    """Yield seconds and memory of `trackbed doctor CAPTURE...`, and how many of the faults it named."""
    memory = Memory()
    with tempfile.TemporaryDirectory() as folder:
        fabric, archives, faults = write_site(Path(folder), hosts)
        size = sum(archive.stat().st_size for archive in archives) / 1e6
        argv = [sys.executable, "-m", "trackbed", "doctor", "-f", str(fabric), "-o", "json", *map(str, archives)]
        watcher = threading.Thread(target=memory.watch)
        watcher.start()
        began, cpu = time.monotonic(), _count_cpu_seconds()
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False)
        finally:
            seconds = time.monotonic() - began
            cpu = _count_cpu_seconds() - cpu
            memory.stop.set()
            watcher.join()
    ended = done.returncode == 1
    why = (
        f"{size:.0f} MB of archives, {cpu:.0f} CPU s"
        if ended
        else f"ended with {done.returncode}: {done.stderr[-400:]}"
    )
    yield Figure(f"doctor, {hosts} captures", seconds if ended else None, GOAL_SECONDS, "s", why=why)
    reason = f"{memory.samples} samples of PSS, all its processes"
    yield Figure("its memory", memory.whole if memory.samples else None, GOAL_MB, "MB", why=reason)
    unnamed = find_unnamed(json.loads(done.stdout), faults) if ended else faults
    names = ", ".join(fault.id for fault in unnamed)
    yield Figure("faults named with their ends", len(faults) - len(unnamed), len(faults), "", at_least=True, why=names)


def _count_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
