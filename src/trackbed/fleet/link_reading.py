"""Interfaces with their addresses and RDMA devices, of a pod whose addresses and names nobody knows before it starts.

The RDMA device of an address is the one that has it as a GID: an rxe or macvlan interface is no child of a device, and
a device that was moved into a pod may have been renamed.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from trackbed.host.machine import Machine
from trackbed.kernel.netlink.addresses import list_addresses
from trackbed.kernel.netlink.codec import NetlinkError
from trackbed.kernel.netlink.links import list_links
from trackbed.kernel.wire.addresses import format_address

DEVICES = "/sys/class/infiniband"
_GLOBAL = 0
_MAX_GIDS = 128
"""Of a device; see `proof_worker`."""


def list_links_with_addresses(machine: Machine) -> list[Mapping[str, Any]]:
    """Return a mapping for each global address: `netdev`, `address`, and `rdma`, which is None without a device.

    Empty if the network cannot be read.
    """
    try:
        with machine.open_socket() as sock:
            names = {link.index: link.name for link in list_links(sock)}
            addresses = [address for address in list_addresses(sock) if address.scope == _GLOBAL]
    except (OSError, NetlinkError):
        return []
    devices = _find_devices(machine)
    texts = [(address.index, format_address(address.family, address.address)) for address in addresses]
    return [{"netdev": names.get(index, ""), "address": text, "rdma": devices.get(text)} for index, text in texts]


def _find_devices(machine: Machine) -> Mapping[str, str]:
    """Return address -> device of each GID that is an address."""
    devices: dict[str, str] = {}
    for name in list_names(machine, DEVICES):
        folder = f"{DEVICES}/{name}/ports/1/gids"
        for index in list_names(machine, folder)[:_MAX_GIDS]:
            if address := _parse_gid(machine.read(f"{folder}/{index}")):
                devices.setdefault(address, name)
    return devices


def list_names(machine: Machine, folder: str) -> list[str]:
    """Return the names in a folder, 9 before 10; empty if it cannot be read."""
    try:
        names = [path.name for path in machine.locate_inside(folder).iterdir()]
    except (OSError, ValueError):
        return []
    return sorted(names, key=lambda name: (len(name), name))


def _parse_gid(text: object) -> str:
    """Return the address that a GID holds; empty if there is none."""
    try:
        gid = ip_address(text if isinstance(text, str) else "")
    except ValueError:
        return ""
    return str(getattr(gid, "ipv4_mapped", None) or gid) if int(gid) else ""
