"""`trackbed bios`: BIOS attributes over the BMC of each host."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from trackbed.cli.options import (
    emit_json,
    fabric_option,
    nodes_option,
    output_option,
    read_fabric,
    refuse,
    select_nodes,
)
from trackbed.cli.terminal import print_line

if TYPE_CHECKING:
    from trackbed.fabric.model.bios import BiosSpec
    from trackbed.host.bios.compare import BiosState, SettingState
    from trackbed.host.bios.connection import Bmc
    from trackbed.host.bios.files import Credentials

_MAX_CONCURRENT_BMCS = 16
"""Number of BMCs that are queried concurrently; each takes seconds to respond."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("bios")
@click.argument("action", type=click.Choice(("diff", "apply", "undo")))
@fabric_option
@nodes_option
@click.option("--credentials", "secret", type=_FILE, metavar="FILE", help="User and password, a line each; mode 600.")
@click.option("--ca", type=_FILE, metavar="FILE", help="CA of the BMCs' certificates. Default: the system's.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 300),
    default=20,
    show_default=True,
    metavar="SECONDS",
    help="Timeout of a request.",
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
      trackbed bios apply -f fabric.yaml --nodes 'gpu-[0-7]' \\
          --credentials bmc.txt --yes
      trackbed bios undo -f fabric.yaml --nodes gpu-0 --yes
    """
    from trackbed.host.bios.connection import Bmc
    from trackbed.host.bios.files import load_credentials

    loaded, plan = read_fabric(fabric_file)
    wanted = loaded.fabric.spec.bios
    if wanted.bmc is None:
        refuse("the Fabric does not say where BMCs are; write spec.bios.bmc, as bmc-{host}")
    names = [node.name for node in select_nodes(plan, nodes)]
    try:
        login = load_credentials(secret, os.environ)
    except (ValueError, OSError) as error:
        refuse(error)
    if action != "diff" and not yes:
        _confirm_action(action, len(names))
    bmcs = {name: Bmc(wanted.bmc.replace("{host}", name), ca, timeout) for name in names}
    with ThreadPoolExecutor(_MAX_CONCURRENT_BMCS, "bmc") as threads:
        outcomes = threads.map(lambda name: _run_action(action, name, (bmcs[name], login), wanted, folder), bmcs)
        results = dict(zip(bmcs, outcomes, strict=True))
    _print_results_and_exit(results, output_format)


def _confirm_action(action: str, servers: int) -> None:
    """Ask for confirmation on stderr, because stdout may be JSON. Exit with status 2 if it is not given."""
    try:
        agreed = click.confirm(f"{action.capitalize()} on {servers} servers?", err=True)
    except click.Abort:
        refuse("no answer, so nothing was changed; add --yes to go on without confirmation")
    if not agreed:
        refuse("nothing was changed")


def _run_action(
    action: str, node: str, connection: tuple[Bmc, Credentials], wanted: BiosSpec, folder: Path
) -> dict[str, object]:
    """Run the action on a node; return the document of its result, with an exit status."""
    from trackbed.host.bios.connection import BmcError
    from trackbed.host.bios.redfish import read_bios_state

    try:
        if action == "undo":
            return _restore_recorded(node, connection, folder)
        attributes = read_bios_state(*connection)
        items = _compare_items(connection[0], wanted, attributes)
        staged, note = _stage_differences(node, connection, items, folder) if action == "apply" else (0, "")
    except BmcError as error:
        return {"status": 3, "error": str(error)}
    except (ValueError, OSError) as error:
        return {"status": 1, "error": str(error)}
    unsettled = {"missing", "locked", "illegal"} if staged else {"missing", "locked", "illegal", "differs"}
    reboot = bool(staged) or any(item.state == "staged" for item in items)
    return {
        "status": int(any(item.state in unsettled for item in items)),
        "items": items,
        "staged": staged,
        "reboot": reboot,
    } | _build_note_item(note)


def _build_note_item(note: str) -> dict[str, object]:
    return {"note": note} if note else {}


def _compare_items(bmc: Bmc, wanted: BiosSpec, attributes: BiosState) -> tuple[SettingState, ...]:
    from trackbed.host.bios.compare import compare, find_vendor
    from trackbed.host.bios.connection import BmcError
    from trackbed.host.bios.files import load_profile

    vendor = wanted.vendor or find_vendor(attributes.manufacturer)
    if vendor is None:
        reason = f"{bmc.address}: no profile for manufacturer {attributes.manufacturer!r}"
        raise BmcError(f"{reason}; name the one whose attributes it has with spec.bios.vendor")
    return compare(load_profile(vendor), wanted.map_attributes(), attributes)


def _stage_differences(
    node: str, connection: tuple[Bmc, Credentials], items: tuple[SettingState, ...], folder: Path
) -> tuple[int, str]:
    """Stage the attributes that differ; return their number, and a note about what the BMC needs besides a boot."""
    from trackbed.host.bios.files import extend_record
    from trackbed.host.bios.redfish import stage_attributes

    change = {item.attribute: item for item in items if item.state == "differs" and item.attribute}
    if not change:
        return 0, ""
    extend_record(folder, node, {name: item.have for name, item in change.items()})
    return len(change), stage_attributes(*connection, {name: item.value for name, item in change.items()})


def _restore_recorded(node: str, connection: tuple[Bmc, Credentials], folder: Path) -> dict[str, object]:
    from trackbed.host.bios.files import delete_record, load_record
    from trackbed.host.bios.redfish import stage_attributes

    before = load_record(folder, node)
    if not before:
        return {"status": 1, "error": f"{folder} holds no record of {node}; nothing to undo"}
    note = stage_attributes(*connection, before)
    delete_record(folder, node)
    return {"status": 0, "items": (), "staged": len(before), "reboot": True} | _build_note_item(note)


def _print_results_and_exit(results: dict[str, dict[str, object]], output_format: str) -> NoReturn:
    if output_format == "json":
        emit_json({"nodes": results})
    else:
        for node, result in results.items():
            _print_result(node, result)
    statuses = {result["status"] for result in results.values()}
    raise SystemExit(3 if 3 in statuses else 1 if 1 in statuses else 0)  # noqa: PLR2004 - the status for unknown


def _print_result(node: str, result: dict[str, object]) -> None:
    if "error" in result:
        print_line(f"{node}: {result['error']}", err=True)
        return
    items: tuple[SettingState, ...] = result["items"]  # type: ignore[assignment] # _run_action has put them there
    for item in items:
        present = f" ({item.attribute} is {item.have})" if item.attribute else ""
        advice = f"; {item.advice}" if item.advice else ""
        print_line(f"{node}: {item.setting} {item.want}: {item.state}{present}{advice}")
    if result["staged"]:
        print_line(f"{node}: staged {result['staged']} attributes")
    if "note" in result:
        print_line(f"{node}: {result['note']}")
    if result["reboot"]:
        print_line(f"{node}: reboot it for the staged attributes to take effect")
