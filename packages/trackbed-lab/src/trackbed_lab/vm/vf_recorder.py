"""The recorder of an emulated server: which VFs carry another MAC address than the one that their port was given.

This file is copied into the server's shared folder and started there alone, so it imports only the standard library.

igb reports an address that a VF chose as if the port had set it. mlx5 does not, and its spoof check lets only the set
address pass (esw_acl_ingress_lgcy_setup, drivers/net/ethernet/mellanox/mlx5/core/esw/acl/ingress_lgcy.c). Therefore the
recorder hears all requests of rtnetlink on a netlink monitor (nlmon), and keeps the addresses that were set
(IFLA_VF_MAC). From the kernel's own messages it knows which address each VF carries: an interface can move into a pod
within milliseconds, and no folder on the host shows its address from then on. The switch drops frames from addresses
that were not set, which this module writes to spoof.json:

    {RAIL: [MAC address, ...], ...}

A VF in a pod is known by the address that its interface had last on the host.
"""

import contextlib
import ctypes
import json
import os
import select
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MONITOR = "nlmon0"
FILE = Path("/run/own/spoof.json")
QUIET_SECONDS = 0.2
"""Changes come in bursts: the VFs are read once that long after the last message."""

_NET = Path("/sys/class/net")
_PCI = Path("/sys/bus/pci/devices")
_LAB_MAC = "02:54:42:"
_ETH_P_ALL = 0x0003
_RTMGRP_LINK = 1
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SOL_PACKET, _PACKET_STATISTICS = 26, 33, 263, 6
_BUFFER = 1 << 23
"""A boot sets all VFs of all ports while the one emulated processor has other work. A request that is lost here makes
the switch drop what a VF with a right address sends."""

_PACKET = 1 << 16
_REQUESTS_ALONE = (
    (0x30, 0, 0, 6),  # ldb [6]: the low byte of nlmsg_flags
    (0x45, 0, 1, 1),  # jset #NLM_F_REQUEST
    (0x06, 0, 0, _PACKET),  # ret: accept
    (0x06, 0, 0, 0),  # ret: drop
)
"""A socket filter (Documentation/networking/filter.rst): what the kernel answers is most of what the monitor has."""
_RTM_NEWLINK, _RTM_DELLINK, _RTM_SETLINK = 16, 17, 19
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_VFINFO_LIST, _IFLA_PARENT_DEV_NAME = 1, 3, 22, 56
_IFLA_VF_MAC = 1
_MAC_OCTETS = 6
_NESTED = 0x3FFF
_HEADER, _INFO, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=BxHiII"), struct.Struct("=HH")

Function = tuple[str, int]
"""PCI address and inode of a VF: a VF that is made anew has another inode in sysfs."""


def iter_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and value of netlink attributes."""
    while len(data) >= _ATTRIBUTE.size:
        length, kind = _ATTRIBUTE.unpack_from(data)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _NESTED, data[_ATTRIBUTE.size : length]
        data = data[(length + 3) & ~3 :]


def iter_link_messages(packet: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and payload of the messages about links in a netlink packet."""
    while len(packet) >= _HEADER.size:
        length, kind, *_ = _HEADER.unpack_from(packet)
        if length < _HEADER.size:
            return
        if kind in {_RTM_NEWLINK, _RTM_DELLINK, _RTM_SETLINK}:
            yield kind, packet[_HEADER.size : length]
        packet = packet[(length + 3) & ~3 :]


def iter_set_macs(payload: bytes) -> Iterator[tuple[int | str, int, str]]:
    """Yield the port (its index or name), VF number and address of each VF whose address a request sets."""
    if len(payload) < _INFO.size:
        return
    attributes = dict(iter_attributes(payload[_INFO.size :]))
    index = _INFO.unpack_from(payload)[2]
    port: int | str = index or attributes.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode()
    for _, settings in iter_attributes(attributes.get(_IFLA_VFINFO_LIST, b"")):
        for kind, value in iter_attributes(settings):
            if kind == _IFLA_VF_MAC:
                yield port, int.from_bytes(value[:4], sys.byteorder), value[4:10].hex(":")


def find_address(payload: bytes) -> tuple[str, str] | None:
    """Return the PCI address and the MAC address of the interface that a message is about; None if it lacks one."""
    attributes = dict(iter_attributes(payload[_INFO.size :]))
    device, mac = attributes.get(_IFLA_PARENT_DEV_NAME), attributes.get(_IFLA_ADDRESS, b"")
    return (device.rstrip(b"\0").decode(), mac.hex(":")) if device and len(mac) == _MAC_OCTETS else None


def is_request(payload: bytes) -> bool:
    """Return whether a message sets VFs and nothing else: replies and notifications of the kernel have more."""
    kinds = {kind for kind, _ in iter_attributes(payload[_INFO.size :])}
    return _IFLA_VFINFO_LIST in kinds and kinds <= {_IFLA_IFNAME, _IFLA_VFINFO_LIST, 29}


class Recorder:
    """The addresses that were set, and those that interfaces carry."""

    def __init__(self, net: Path = _NET, pci: Path = _PCI) -> None:
        self._net, self._pci = net, pci
        self._set: dict[Function, str] = {}
        self._used: dict[Function, str] = {}

    def record(self, port: int | str, number: int, mac: str) -> None:
        """Keep an address that was set through a port."""
        name = socket.if_indextoname(port) if isinstance(port, int) else port
        with contextlib.suppress(OSError):
            self._set[self._identify(self._net / name / f"device/virtfn{number}")] = mac

    def hear(self, packet: bytes, *, by_kernel: bool) -> None:
        """Keep what a packet says: the kernel's messages name addresses that are used, requests those that are set."""
        for _, payload in iter_link_messages(packet):
            if by_kernel and (address := find_address(payload)):
                self.observe(*address)
            elif not by_kernel and is_request(payload):
                for port, number, mac in iter_set_macs(payload):
                    self.record(port, number, mac)

    def observe(self, device: str, mac: str) -> None:
        """Keep the address of an interface of a PCI function."""
        with contextlib.suppress(OSError):
            self._used[self._identify(self._pci / device)] = mac

    def _identify(self, folder: Path) -> Function:
        place = folder.resolve()
        return place.name, place.stat().st_ino

    def list_refused(self) -> dict[str, list[str]]:
        """Return the addresses by rail that VFs carry and that nobody set; forget VFs that are gone."""
        refused: dict[str, list[str]] = {}
        present = set()
        for port in self._net.glob("*/device/sriov_numvfs"):
            mac = (port.parents[1] / "address").read_text().strip()
            for folder in port.parent.glob("virtfn*"):
                function = self._identify(folder)
                present.add(function)
                for file in folder.glob("net/*/address"):
                    with contextlib.suppress(OSError):  # it leaves for a pod meanwhile; its address is known
                        self._used[function] = file.read_text().strip()
                used = self._used.get(function)
                if used and used != self._set.get(function) and mac.startswith(_LAB_MAC):
                    refused.setdefault(str(int(mac.split(":")[4], 16)), []).append(used)
        self._set = {function: mac for function, mac in self._set.items() if function in present}
        self._used = {function: mac for function, mac in self._used.items() if function in present}
        return {rail: sorted(macs) for rail, macs in sorted(refused.items())}


def write_refused(refused: dict[str, list[str]]) -> None:
    """Replace the file that the switch reads."""
    temporary = FILE.with_suffix(".new")
    temporary.write_text(json.dumps(refused))
    temporary.replace(FILE)


def notify_ready() -> None:
    """Tell systemd that every request is heard from now on (sd_notify(3))."""
    if path := os.environ.get("NOTIFY_SOCKET"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"READY=1", path)


def listen() -> tuple[socket.socket, socket.socket]:
    """Open the monitor, which has all requests, and a socket for the kernel's messages, which go to listeners alone."""
    monitor = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
    kernel = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    for sock in (monitor, kernel):
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER)
    filter_requests(monitor)
    monitor.bind((MONITOR, _ETH_P_ALL))
    kernel.bind((0, _RTMGRP_LINK))
    return monitor, kernel


def filter_requests(monitor: socket.socket) -> None:
    """Let the kernel pass requests to a monitor, and nothing else."""
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in _REQUESTS_ALONE))
    program = struct.pack("@HP", len(_REQUESTS_ALONE), ctypes.addressof(code))
    monitor.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


def count_lost(monitor: socket.socket) -> int:
    """Return how many requests did not fit since the last call (packet(7), PACKET_STATISTICS)."""
    statistics = struct.Struct("=II")
    _, lost = statistics.unpack(monitor.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, statistics.size))
    return int(lost)


def main() -> None:
    """Listen forever."""
    recorder, dirty = Recorder(), False
    monitor, kernel = listen()
    write_refused({})
    notify_ready()
    while True:
        ready = select.select([monitor, kernel], [], [], QUIET_SECONDS if dirty else None)[0]
        for sock in ready:
            with contextlib.suppress(OSError):  # more messages than fit; the folders show those that stay on the host
                recorder.hear(sock.recv(_PACKET), by_kernel=sock is kernel)
        if dirty and not ready:
            with contextlib.suppress(OSError):  # a VF that goes meanwhile; its next message comes
                write_refused(recorder.list_refused())
            if lost := count_lost(monitor):
                sys.stderr.write(f"{lost} requests did not fit: VFs with the right address may be refused\n")
        dirty = bool(ready)


if __name__ == "__main__":
    main()
