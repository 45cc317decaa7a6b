"""Inventories for commands: of this machine, another root, an archive, the output of discover, or over SSH."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trackbed.cli.options import refuse

if TYPE_CHECKING:
    from trackbed.host.discover.inventory import Inventory
    from trackbed.host.machine import Machine

MAX_BYTES = 64 << 20
"""Limit of an inventory as JSON; a machine with a thousand VFs has 1 MB."""


def read_source(source: Path) -> Inventory:
    """Read the only inventory of a root folder, an archive, or discover's output; others end with status 2."""
    inventories = read_sources(source)
    if len(inventories) != 1:
        refuse(f"{source} holds {len(inventories)} machines, but one is expected here; `trackbed init` reads them all")
    return inventories[0]


def read_sources(source: Path) -> list[Inventory]:
    """Read the inventories of a root folder, an archive, or discover's output."""
    if source.is_dir():
        return [read_machine(source)]
    if _is_archive(source):
        return [_read_archive(source)]
    return _read_json(source)


def query_hosts(nodes: str) -> tuple[list[Inventory], bool]:
    """Query hosts over SSH; return their inventories, and whether any failed. A bad range ends with status 2."""
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import HOST_NAME, expand_hosts
    from trackbed.host.discover.remote import query_hosts

    try:
        hosts = list(expand_hosts(nodes))
    except PydanticCustomError as error:
        refuse(str(error))
    invalid = next((host for host in hosts if not HOST_NAME.fullmatch(host)), None)
    if invalid is not None:
        refuse(f"{invalid!r} is not a host name: letters, digits, '-', '_' and '.'")
    inventories, silent = query_hosts(hosts)
    for host, reason in silent.items():
        click.echo(f"{host}: {reason}", err=True)
    return inventories, bool(silent)


def add_neighbours(inventory: Inventory, root: Path, seconds: float) -> Inventory:
    """Add the LLDP neighbours of this machine; missing permission to listen ends with status 2."""
    from trackbed.host.discover.neighbours import add_neighbours
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed.kernel.wire.errors import ProbeError

    if root != Path("/"):
        refuse("only this machine can listen to its switches; leave --root out")
    try:
        return add_neighbours(inventory, None, seconds)
    except (OSError, NetlinkError, ProbeError) as error:
        refuse(f"cannot listen to switches: {error}")


def read_machine(root: Path) -> Inventory:
    """Read the inventory of the machine below a folder."""
    from trackbed.host.discover.read import read_inventory
    from trackbed.host.discover.wanted import WANTED
    from trackbed.host.snapshot.take import take

    return read_inventory(take(open_machine(root), WANTED))


def open_machine(root: Path, netns: Path | None = None) -> Machine:
    """Return the machine below a folder, live or captured; an invalid record of the folder ends with status 2."""
    from trackbed.host.snapshot.recorded import open_machine

    try:
        return open_machine(root, netns)
    except ValueError as error:
        refuse(str(error))


def _is_archive(source: Path) -> bool:
    try:
        return tarfile.is_tarfile(source)
    except (OSError, EOFError):
        return False


def _read_archive(archive: Path) -> Inventory:
    from trackbed.host.snapshot.archive import unpack

    with tempfile.TemporaryDirectory(prefix="trackbed-") as folder:
        try:
            unpack(archive, Path(folder))
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:
            refuse(f"cannot unpack {archive}: {error}")
        return read_machine(Path(folder))


def _read_json(source: Path) -> list[Inventory]:
    import msgspec

    from trackbed.host.discover.inventory import Inventory

    try:
        with source.open("rb") as stream:
            inventories = msgspec.json.decode(stream.read(MAX_BYTES), type=Inventory | list[Inventory])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        refuse(f"{source} is neither what `trackbed discover -o json` prints nor an archive of a machine: {error}")
    return inventories if isinstance(inventories, list) else [inventories]
