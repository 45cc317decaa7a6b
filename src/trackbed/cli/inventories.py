"""Inventories of machines, read from a root folder, an archive or the output of discover, or queried over SSH."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from trackbed.cli.options import expand_names, refuse
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from trackbed.host.discover.inventory import Inventory
    from trackbed.host.machine import Machine

MAX_BYTES = 64 << 20
"""Limit of an inventory as JSON; a machine with a thousand VFs has 1 MB."""


def read_single_inventory(source: Path) -> Inventory:
    """Read the inventory of a root folder, an archive or discover's output. Exit with status 2 unless there is one."""
    inventories = read_inventories(source)
    if len(inventories) != 1:
        refuse(f"{source} holds {len(inventories)} machines, but one is expected here; `trackbed init` reads them all")
    return inventories[0]


def read_inventories(source: Path) -> list[Inventory]:
    """Read the inventories of a root folder, an archive, or discover's output."""
    from trackbed.host.snapshot.untrusted import is_archive

    if source.is_dir():
        return [read_machine_inventory(source)]
    if is_archive(source):
        return [_read_archive(source)]
    return _read_json(source)


def query_hosts(nodes: str) -> tuple[list[Inventory], bool]:
    """Query hosts over SSH; return their inventories, and whether any failed. Malformed ranges exit with status 2."""
    from trackbed.fabric.text_syntax import HOST_NAME
    from trackbed.host.discover.remote import query_hosts

    hosts = expand_names(nodes)
    invalid = next((host for host in hosts if not HOST_NAME.fullmatch(host)), None)
    if invalid is not None:
        refuse(f"{invalid!r} is not a host name: letters, digits, '-', '_' and '.'")
    inventories, silent = query_hosts(hosts)
    for host, reason in silent.items():
        print_line(f"{host}: {reason}", err=True)
    return inventories, bool(silent)


def add_neighbours(inventory: Inventory, root: Path, seconds: float) -> Inventory:
    """Return the inventory with this machine's LLDP neighbours. Exit with status 2 without permission to listen."""
    from trackbed.host.discover.neighbours import add_neighbours
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed.kernel.wire.errors import ProbeError

    if root != Path("/"):
        refuse("only this machine can listen to its switches; leave --root out")
    try:
        return add_neighbours(inventory, None, seconds)
    except (OSError, NetlinkError, ProbeError) as error:
        refuse(f"cannot listen to switches: {error}")


def read_machine_inventory(root: Path) -> Inventory:
    """Read the inventory of the machine below a folder."""
    from trackbed.host.discover.read import read_inventory
    from trackbed.host.discover.wanted import WANTED
    from trackbed.host.snapshot.take import read_snapshot

    return read_inventory(read_snapshot(open_machine(root), WANTED))


def open_machine(root: Path, netns: Path | None = None) -> Machine:
    """Return the machine below a folder, live or captured. Exit with status 2 if the folder's record is invalid."""
    from trackbed.host.snapshot.recorded import open_machine

    try:
        return open_machine(root, netns)
    except ValueError as error:
        refuse(error)


def _read_archive(archive: Path) -> Inventory:
    from trackbed.host.snapshot.archive import unpack
    from trackbed.host.snapshot.untrusted import READ_ERRORS

    with tempfile.TemporaryDirectory(prefix="trackbed-") as folder:
        try:
            unpack(archive, Path(folder))
        except READ_ERRORS as error:
            refuse(f"cannot unpack {archive}: {error}")
        return read_machine_inventory(Path(folder))


def _read_json(source: Path) -> list[Inventory]:
    import msgspec

    from trackbed.host.discover.inventory import Inventory

    try:
        with source.open("rb") as stream:
            inventories = msgspec.json.decode(stream.read(MAX_BYTES), type=Inventory | list[Inventory])
    except (OSError, UnicodeDecodeError, RecursionError, msgspec.DecodeError) as error:
        refuse(f"{source} is neither what `trackbed discover -o json` prints nor an archive of a machine: {error}")
    return inventories if isinstance(inventories, list) else [inventories]
