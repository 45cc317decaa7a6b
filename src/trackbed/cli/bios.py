"""`trackbed bios`: BIOS attributes over the BMC of each host."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import emit_json, fabric_option, output_option, read_fabric, refuse, suggest

if TYPE_CHECKING:
    from trackbed.fabric.model.bios import BiosSpec
    from trackbed.host.bios.compare import BiosState, Item
    from trackbed.host.bios.credentials import Credentials
    from trackbed.host.bios.redfish import Bmc

_SIDE_BY_SIDE = 16
"""BMCs that are queried at a time; each takes seconds to answer."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class _UnknownVendorError(Exception):
    """The attributes of a BMC are unknown."""


@click.command("bios")
@click.argument("action", type=click.Choice(("diff", "apply", "undo")))
@fabric_option
@click.option("--nodes", metavar="NODES", help="Only these nodes, as gpu-[0-7]. Default: all.")
@click.option("--credentials", "secret", type=_FILE, metavar="FILE", help="User and password, a line each; mode 600.")
@click.option("--ca", type=_FILE, metavar="FILE", help="CA of the BMCs' certificates. Default: the system's.")
@click.option(
    "--timeout", type=click.FloatRange(1, 300), default=20, show_default=True, help="Timeout of a request in seconds."
)
@click.option(
    "--record",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    default="trackbed-bios",
    show_default=True,
    metavar="DIR",
    help="Folder for the previous values, which undo stages again.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation; required without a terminal.")
@output_option("table", "json")
def command(
    action: str,
    fabric_file: str,
    nodes: str | None,
    secret: Path | None,
    ca: Path | None,
    timeout: float,
    folder: Path,
    yes: bool,
    output_format: str,
) -> None:
    """Compare, stage or restore BIOS attributes over Redfish.

    The Fabric's section bios has the wanted values and the addresses of BMCs. Staged values take effect at the next
    boot, which this command never triggers. Without --credentials, TRACKBED_BMC_USER and TRACKBED_BMC_PASSWORD are
    used. Exits with 1 when a value differs or could not be set, with 3 when a BMC could not be reached or is of a
    manufacturer without a profile.

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
    names = _select_nodes([node.name for node in planned.nodes], nodes)
    try:
        login = load_credentials(secret, os.environ)
    except (ValueError, OSError) as error:
        refuse(str(error))
    if action != "diff" and not yes:
        _confirm(action, len(names))
    bmcs = {name: Bmc(wanted.bmc.replace("{host}", name), ca, timeout) for name in names}
    with ThreadPoolExecutor(_SIDE_BY_SIDE, "bmc") as threads:
        outcomes = threads.map(lambda name: _run_action(action, name, (bmcs[name], login), wanted, folder), bmcs)
        results = dict(zip(bmcs, outcomes, strict=True))
    _finish(results, output_format)


def _confirm(action: str, servers: int) -> None:
    """Ask for confirmation on stderr, because stdout may be JSON; end the command without it."""
    try:
        agreed = click.confirm(f"{action.capitalize()} on {servers} servers?", err=True)
    except click.Abort:
        refuse("no answer, so nothing was changed; add --yes to go on without confirmation")
    if not agreed:
        refuse("nothing was changed")


def _select_nodes(names: list[str], wanted: str | None) -> list[str]:
    if wanted is None:
        return names
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import expand_hosts

    try:
        selection = [str(name) for name in expand_hosts(wanted)]
    except PydanticCustomError as error:
        refuse(error.message())
    for name in selection:
        if name not in names:
            refuse(f"the Fabric has no node {name!r}{suggest(name, names)}")
    return selection


def _run_action(
    action: str, node: str, reach: tuple[Bmc, Credentials], wanted: BiosSpec, folder: Path
) -> dict[str, object]:
    """Run the action on a node; return its items or an error, with an exit status."""
    from trackbed.host.bios.redfish import BmcError, read

    try:
        if action == "undo":
            return _undo(node, reach, folder)
        attributes = read(*reach)
        items = _compare_items(reach[0], wanted, attributes)
        staged, note = _stage(node, reach, items, folder) if action == "apply" else (0, "")
    except (BmcError, _UnknownVendorError) as error:
        return {"status": 3, "error": str(error)}
    except (ValueError, OSError) as error:
        return {"status": 1, "error": str(error)}
    left = [
        item for item in items if item.state in {"missing", "locked", "illegal"} or (not staged and _is_different(item))
    ]
    reboot = bool(staged) or any(item.state == "staged" for item in items)
    return {"status": int(bool(left)), "items": items, "staged": staged, "reboot": reboot} | _to_note(note)


def _to_note(note: str) -> dict[str, object]:
    return {"note": note} if note else {}


def _is_different(item: Item) -> bool:
    return item.state == "differs"


def _compare_items(bmc: Bmc, wanted: BiosSpec, attributes: BiosState) -> tuple[Item, ...]:
    from trackbed.host.bios.compare import compare, find_vendor
    from trackbed.host.bios.profile import load_profile

    vendor = wanted.vendor or find_vendor(attributes.manufacturer)
    if vendor is None:
        reason = f"{bmc.address}: no profile for manufacturer {attributes.manufacturer!r}"
        raise _UnknownVendorError(f"{reason}; name the one whose attributes it has with spec.bios.vendor")
    return compare(load_profile(vendor), wanted.list_attributes(), attributes)


def _stage(node: str, reach: tuple[Bmc, Credentials], items: tuple[Item, ...], folder: Path) -> tuple[int, str]:
    """Stage the attributes that differ; return their number, and a note about what the BMC needs besides a boot."""
    from trackbed.host.bios import record
    from trackbed.host.bios.redfish import stage

    change = {item.attribute: item for item in items if _is_different(item) and item.attribute}
    if not change:
        return 0, ""
    record.add(folder, node, {name: item.have for name, item in change.items()})
    return len(change), stage(*reach, {name: item.value for name, item in change.items()})


def _undo(node: str, reach: tuple[Bmc, Credentials], folder: Path) -> dict[str, object]:
    from trackbed.host.bios import record
    from trackbed.host.bios.redfish import stage

    before = record.load(folder, node)
    if not before:
        return {"status": 1, "error": f"{folder} holds no record of {node}; nothing to undo"}
    note = stage(*reach, before)
    record.drop(folder, node)
    return {"status": 0, "items": (), "staged": len(before), "reboot": True} | _to_note(note)


def _finish(results: dict[str, dict[str, object]], output_format: str) -> NoReturn:
    if output_format == "json":
        emit_json({"nodes": results})
    else:
        for node, result in results.items():
            _print_result(node, result)
    statuses = {result["status"] for result in results.values()}
    raise SystemExit(3 if 3 in statuses else 1 if 1 in statuses else 0)  # noqa: PLR2004 - the status for unknown


def _print_result(node: str, result: dict[str, object]) -> None:
    if "error" in result:
        click.echo(f"{node}: {result['error']}", err=True)
        return
    items: tuple[Item, ...] = result["items"]  # type: ignore[assignment] # _run_action has put them there
    for item in items:
        folder = f" ({item.attribute} is {item.have})" if item.attribute else ""
        advice = f"; {item.advice}" if item.advice else ""
        click.echo(f"{node}: {item.setting} {item.want}: {item.state}{folder}{advice}")
    if result["staged"]:
        click.echo(f"{node}: staged {result['staged']} attributes")
    if "note" in result:
        click.echo(f"{node}: {result['note']}")
    if result["reboot"]:
        click.echo(f"{node}: reboot it for the staged attributes to take effect")
