"""Where commands get inventories from: this machine, another root, an archive, what discover printed elsewhere."""

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
"""Of an inventory as JSON; a machine with a thousand VFs has 1 MB."""


def read_source(source: Path) -> Inventory:
    """The one inventory of a root folder, of an archive, or of what discover printed; ends with status 2 if none."""
    found = read_sources(source)
    if len(found) != 1:
        refuse(f"{source} holds {len(found)} machines, one is read here; `trackbed init` reads them all")
    return found[0]


def read_sources(source: Path) -> list[Inventory]:
    """The same where discover may have asked many hosts."""
    if source.is_dir():
        return [inventory_of(source)]
    if _is_archive(source):
        return [_of_archive(source)]
    return _of_json(source)


def asked(nodes: str) -> tuple[list[Inventory], bool]:
    """(what hosts told over SSH, whether any did not); ends with status 2 on a range that cannot be read."""
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import HOST_NAME, expand_hosts
    from trackbed.host.discover.remote import query_hosts

    try:
        hosts = list(expand_hosts(nodes))
    except PydanticCustomError as error:
        refuse(str(error))
    strange = next((host for host in hosts if not HOST_NAME.fullmatch(host)), None)
    if strange is not None:
        refuse(f"{strange!r} is no host name: letters, digits, '-', '_' and '.'")
    found, silent = query_hosts(hosts)
    for host, reason in silent.items():
        click.echo(f"{host}: {reason}", err=True)
    return found, bool(silent)


def heard(inventory: Inventory, root: Path, seconds: float) -> Inventory:
    """This machine's inventory with what its switches said; ends with status 2 where one may not listen."""
    from trackbed.host.discover.neighbours import add_neighbours
    from trackbed.kernel.netlink.codec import NetlinkError
    from trackbed.kernel.wire.errors import ProbeError

    if root != Path("/"):
        refuse("only this machine can listen to its switches; leave --root out")
    try:
        return add_neighbours(inventory, None, seconds)
    except (OSError, NetlinkError, ProbeError) as error:
        refuse(f"cannot listen to switches: {error}")


def inventory_of(root: Path) -> Inventory:
    """The inventory of the machine whose files lie below a folder."""
    from trackbed.host.discover.read import read_inventory
    from trackbed.host.discover.wanted import WANTED
    from trackbed.host.snapshot.take import take

    return read_inventory(take(machine_below(root), WANTED))


def machine_below(root: Path, netns: Path | None = None) -> Machine:
    """The machine below a folder, live or captured; ends with status 2 where the folder's record is broken."""
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


def _of_archive(archive: Path) -> Inventory:
    from trackbed.host.snapshot.archive import unpack

    with tempfile.TemporaryDirectory(prefix="trackbed-") as folder:
        try:
            unpack(archive, Path(folder))
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:
            refuse(f"cannot unpack {archive}: {error}")
        return inventory_of(Path(folder))


def _of_json(source: Path) -> list[Inventory]:
    import msgspec

    from trackbed.host.discover.inventory import Inventory

    try:
        with source.open("rb") as stream:
            found = msgspec.json.decode(stream.read(MAX_BYTES), type=Inventory | list[Inventory])
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        refuse(f"{source} is neither what `trackbed discover -o json` prints nor an archive of a machine: {error}")
    return found if isinstance(found, list) else [found]
