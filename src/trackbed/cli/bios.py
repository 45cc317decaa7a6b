"""`trackbed bios`: attributes of the firmware setup, over each host's BMC."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import emit_json, fabric_option, meant, output_option, read_fabric, refuse

if TYPE_CHECKING:
    from trackbed.fabric.model.bios import BiosSpec
    from trackbed.host.bios.compare import BiosState, Item
    from trackbed.host.bios.credentials import Credentials
    from trackbed.host.bios.redfish import Bmc

_SIDE_BY_SIDE = 16
"""BMCs at a time: each takes seconds to answer and costs us nothing meanwhile."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _UnknownError(Exception):
    """A BMC answered, and nobody can tell what its attributes mean."""


@click.command("bios")
@click.argument("action", type=click.Choice(("diff", "apply", "undo")))
@fabric_option
@click.option("--nodes", metavar="NODES", help="Only these nodes, as gpu-[0-7]. Default: all.")
@click.option("--credentials", "secret", type=_FILE, metavar="FILE", help="User and password, a line each; mode 600.")
@click.option("--ca", type=_FILE, metavar="FILE", help="CA of the BMCs' certificates. Default: the system's.")
@click.option(
    "--timeout", type=click.FloatRange(1, 300), default=20, show_default=True, help="Seconds a request waits."
)
@click.option(
    "--record",
    "place",
    type=click.Path(file_okay=False, path_type=Path),
    default="trackbed-bios",
    show_default=True,
    metavar="DIR",
    help="Folder for the values of before, which undo stages again.",
)
@click.option("--yes", is_flag=True, help="Do not ask; needed where nobody can answer.")
@output_option("table", "json")
def command(
    action: str,
    fabric_file: str,
    nodes: str | None,
    secret: Path | None,
    ca: Path | None,
    timeout: float,
    place: Path,
    yes: bool,
    form: str,
) -> None:
    """Compare, stage or put back BIOS attributes over Redfish.

    The Fabric's section bios says what is wanted and where BMCs are. Staged values wait for the next boot, which this
    command never causes. Without --credentials, TRACKBED_BMC_USER and TRACKBED_BMC_PASSWORD are used. Exits with 1 when
    something differs or could not be set, with 3 when a BMC could not be asked or
    is of a manufacturer without a profile.

    \b
    Examples:
      trackbed bios diff -f fabric.yaml --ca bmc-ca.pem
      trackbed bios apply -f fabric.yaml --nodes 'gpu-[0-7]' --credentials bmc.txt --yes
      trackbed bios undo -f fabric.yaml --nodes gpu-0 --yes
    """
    from trackbed.host.bios.credentials import load_credentials
    from trackbed.host.bios.redfish import Bmc

    loaded, planned = read_fabric(fabric_file)
    wanted = loaded.fabric.spec.bios
    if wanted.bmc is None:
        refuse("the Fabric does not say where BMCs are; write spec.bios.bmc, as bmc-{host}")
    chosen = _chosen([node.name for node in planned.nodes], nodes)
    try:
        who = load_credentials(secret, os.environ)
    except (ValueError, OSError) as error:
        refuse(str(error))
    if action != "diff" and not yes:
        _ask(action, len(chosen))
    bmcs = {name: Bmc(wanted.bmc.replace("{host}", name), ca, timeout) for name in chosen}
    with ThreadPoolExecutor(_SIDE_BY_SIDE, "bmc") as threads:
        done = threads.map(lambda name: _one(action, name, (bmcs[name], who), wanted, place), bmcs)
        found = dict(zip(bmcs, done, strict=True))
    _end(found, form)


def _ask(action: str, servers: int) -> None:
    """Go on after a yes; question and answer stay out of stdout, which may be read by a machine."""
    try:
        agreed = click.confirm(f"{action.capitalize()} on {servers} servers?", err=True)
    except click.Abort:
        refuse("nobody answered, so nothing was done; give --yes to go on without a question")
    if not agreed:
        refuse("nothing was done")


def _chosen(names: list[str], wanted: str | None) -> list[str]:
    if wanted is None:
        return names
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import expand_hosts

    try:
        asked = [str(name) for name in expand_hosts(wanted)]
    except PydanticCustomError as error:
        refuse(error.message())
    for name in asked:
        if name not in names:
            refuse(f"the Fabric has no node {name!r}{meant(name, names)}")
    return asked


def _one(action: str, node: str, reach: tuple[Bmc, Credentials], wanted: BiosSpec, place: Path) -> dict[str, object]:
    """What happened to one node: its items, or an error, with a status as the command's."""
    from trackbed.host.bios.redfish import BmcError, read

    try:
        if action == "undo":
            return _undo(node, reach, place)
        seen = read(*reach)
        items = _items(reach[0], wanted, seen)
        staged, note = _stage(node, reach, items, place) if action == "apply" else (0, "")
    except (BmcError, _UnknownError) as error:
        return {"status": 3, "error": str(error)}
    except (ValueError, OSError) as error:
        return {"status": 1, "error": str(error)}
    left = [item for item in items if item.state in {"missing", "locked", "illegal"} or (not staged and _open(item))]
    reboot = bool(staged) or any(item.state == "staged" for item in items)
    return {"status": int(bool(left)), "items": items, "staged": staged, "reboot": reboot} | _noted(note)


def _noted(note: str) -> dict[str, object]:
    return {"note": note} if note else {}


def _open(item: Item) -> bool:
    return item.state == "differs"


def _items(bmc: Bmc, wanted: BiosSpec, seen: BiosState) -> tuple[Item, ...]:
    from trackbed.host.bios.compare import compare, find_vendor
    from trackbed.host.bios.profile import load_profile

    vendor = wanted.vendor or find_vendor(seen.manufacturer)
    if vendor is None:
        known = f"{bmc.address}: no profile for manufacturer {seen.manufacturer!r}"
        raise _UnknownError(f"{known}; name the one whose attributes it has with spec.bios.vendor")
    return compare(load_profile(vendor), wanted.list_attributes(), seen)


def _stage(node: str, reach: tuple[Bmc, Credentials], items: tuple[Item, ...], place: Path) -> tuple[int, str]:
    """(how many attributes were staged, what else is to be done before a boot takes them)."""
    from trackbed.host.bios import record
    from trackbed.host.bios.redfish import stage

    change = {item.attribute: item for item in items if _open(item) and item.attribute}
    if not change:
        return 0, ""
    record.add(place, node, {name: item.have for name, item in change.items()})
    return len(change), stage(*reach, {name: item.value for name, item in change.items()})


def _undo(node: str, reach: tuple[Bmc, Credentials], place: Path) -> dict[str, object]:
    from trackbed.host.bios import record
    from trackbed.host.bios.redfish import stage

    before = record.load(place, node)
    if not before:
        return {"status": 1, "error": f"{place} holds no record of {node}; nothing to undo"}
    note = stage(*reach, before)
    record.drop(place, node)
    return {"status": 0, "items": (), "staged": len(before), "reboot": True} | _noted(note)


def _end(found: dict[str, dict[str, object]], form: str) -> NoReturn:
    if form == "json":
        emit_json({"nodes": found})
    else:
        for node, one in found.items():
            _tell(node, one)
    statuses = {one["status"] for one in found.values()}
    raise SystemExit(3 if 3 in statuses else 1 if 1 in statuses else 0)  # noqa: PLR2004 - the status for unknown


def _tell(node: str, one: dict[str, object]) -> None:
    if "error" in one:
        click.echo(f"{node}: {one['error']}", err=True)
        return
    items: tuple[Item, ...] = one["items"]  # type: ignore[assignment] # _one has just put them there
    for item in items:
        place = f" ({item.attribute} is {item.have})" if item.attribute else ""
        advice = f"; {item.advice}" if item.advice else ""
        click.echo(f"{node}: {item.setting} {item.want}: {item.state}{place}{advice}")
    if one["staged"]:
        click.echo(f"{node}: staged {one['staged']} attributes")
    if "note" in one:
        click.echo(f"{node}: {one['note']}")
    if one["reboot"]:
        click.echo(f"{node}: reboot it for the staged attributes to take effect")
