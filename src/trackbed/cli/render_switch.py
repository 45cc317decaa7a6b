"""`trackbed render switch`: the configuration of leaf switches, and its comparison with a switch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trackbed.cli.files import OutputFile, write_files
from trackbed.cli.old_forms import FormatChoice, refuse_option
from trackbed.cli.options import (
    emit_json,
    exit_with_problems,
    fabric_option,
    folder_option,
    read_fabric,
    read_input_or_exit,
    refuse,
    suggest_name,
)
from trackbed.cli.terminal import emit_document
from trackbed.switches.dialects import MODULES, detect_dialect, load_dialect

if TYPE_CHECKING:
    from trackbed.fabric.model.load import LoadedFabric
    from trackbed.fabric.model.ranges import Range
    from trackbed.fabric.plan.plan import Plan
    from trackbed.switches.dialect import Dialect
    from trackbed.switches.leaf import Leaf
    from trackbed.switches.wiring import Wiring

USUAL_PORTS = 128
"""Front-panel ports without --ports: those of a switch with 64 cages, each split in two."""


@click.command("switch")
@fabric_option
@click.option("--format", "dialect_name", type=click.Choice(sorted(MODULES)), help="Operating system of the switches.")
@click.option("--leaf", "leaf_name", metavar="NAME", help="Only this leaf.")
@folder_option
@click.option(
    "--check",
    "files",
    type=click.Path(dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Compare a switch with its hosts instead: its config_db.json, or what `nv config show` prints.",
)
@click.option(
    "-o",
    "--output",
    "output_format",
    type=FormatChoice(("text", "json")),
    default="text",
    show_default=True,
    help="Output format of --check.",
)
@refuse_option("--json", is_flag=True, instead="-o json")
@click.option("--ports", metavar="RANGE", help="Ports towards hosts, in order: swp[1-32]s[0-1], Ethernet[0-252/4].")
@click.option("--uplinks", metavar="RANGE", help="Ports towards spines: swp[57-64]. Without it leaves know no spine.")
@click.option("--uplink-range", metavar="CIDR", help="Numbered BGP: a /31 of this for each uplink, odd the spine's.")
@click.option("--first-asn", type=int, metavar="N", help="AS number of unit 0, rail 0.  [default: 4200000000]")
@click.option("--first-vlan", type=int, metavar="N", help="VLAN of rail 0 where rails are bridged.  [default: 100]")
@click.option("--no-gateways", is_flag=True, help="Where rails are bridged: their gateways are not on the leaves.")
def switch(
    fabric_file: str,
    dialect_name: str | None,
    leaf_name: str | None,
    folder: Path | None,
    files: tuple[Path, ...],
    output_format: str,
    **numbers: Any,  # noqa: ANN401 - click passes each option of the wiring as its own type
) -> None:
    """Write the configuration of leaf switches: addresses or VLANs, BGP, MTU, and QoS that matches the hosts.

    Host n of a unit is on port n of its leaf. With --check nothing is written; the exit status is 1 when switch and
    hosts disagree.

    \b
    Examples:
      trackbed render switch --format nvue --leaf leaf-u0-r0 \\
          --uplinks 'swp[57-64]'
      trackbed render switch --format sonic --uplinks 'Ethernet[224-252/4]' \\
          --to ./leaves
      ssh leaf-u0-r0 nv config show -o commands > leaf-u0-r0.nv
      trackbed render switch --check leaf-u0-r0.nv
    """
    if files:
        if dialect_name or folder:
            refuse("--check reads the format from the file and writes nothing; leave --format and --to out")
        raise SystemExit(
            _compare_switches(fabric_file, files, leaf_name, as_json=output_format == "json", numbers=numbers)
        )
    if dialect_name is None or output_format == "json":
        refuse("-o json belongs to --check" if dialect_name else f"--format is missing: {' or '.join(sorted(MODULES))}")
    from trackbed.switches.leaf import iter_warnings

    loaded, plan = read_fabric(fabric_file)
    dialect = load_dialect(dialect_name)
    wiring = _build_wiring(dialect, numbers)
    leaves = _derive_leaves(loaded, plan, wiring)
    for note in iter_warnings(plan, wiring):
        click.echo(f"note: {note}", err=True)
    chosen = [_find_leaf(leaves, leaf_name, plan.common.fabric)] if leaf_name else list(leaves.values())
    if folder is not None:
        write_files(folder, (OutputFile(f"{leaf.name}{dialect.suffix}", [dialect.render(leaf)]) for leaf in chosen))
        return
    if len(chosen) > 1 and not dialect.allows_concatenation:
        format_name = dialect.suffix[1:].upper()
        refuse(f"{len(chosen)} leaves, and {format_name} holds one; name one with --leaf, or write them with --to DIR")
    for leaf in chosen:
        emit_document(dialect.render(leaf))


def _derive_leaves(loaded: LoadedFabric, plan: Plan, wiring: Wiring) -> dict[str, Leaf]:
    """Return the leaves by name. Exit with status 2 if the plan does not fit the wiring."""
    from trackbed.switches.leaf import check_leaves, derive_leaves
    from trackbed.switches.wiring import check_uplinks_and_other_ranges

    other_ranges = loaded.fabric.spec.other_ranges
    if problems := [*check_leaves(plan, wiring), *check_uplinks_and_other_ranges(wiring, other_ranges)]:
        exit_with_problems(loaded.locate(problems))
    return {leaf.name: leaf for leaf in derive_leaves(plan, wiring)}


def _build_wiring(dialect: Dialect, numbers: dict[str, Any]) -> Wiring:
    from trackbed.switches.wiring import FIRST_ASN, Wiring

    first_asn, first_vlan = numbers["first_asn"], numbers["first_vlan"]
    return Wiring(
        ports=_expand_ports("--ports", numbers["ports"]) or dialect.list_ports(USUAL_PORTS),
        uplinks=_expand_ports("--uplinks", numbers["uplinks"]),
        uplinks4=_parse_range(numbers["uplink_range"]),
        first_asn=FIRST_ASN if first_asn is None else first_asn,
        first_vlan=100 if first_vlan is None else first_vlan,
        gateways=not numbers["no_gateways"],
    )


def _expand_ports(option: str, text: str | None) -> tuple[str, ...]:
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import expand_hosts

    if text is None:
        return ()
    try:
        return tuple(expand_hosts(text))
    except PydanticCustomError as error:
        refuse(f"{option}: {error.message().replace('host', 'port').replace('gpu-[0-63]', 'swp[1-32]')}")


def _parse_range(text: str | None) -> Range | None:
    from trackbed.fabric.model.ranges import parse_range

    if text is None:
        return None
    try:
        return parse_range(text)
    except ValueError as error:
        refuse(f"--uplink-range: {text!r} is not a range ({error}); write for example 10.254.0.0/20")


def _find_leaf(all_leaves: dict[str, Leaf], name: str, fabric: str) -> Leaf:
    if name not in all_leaves:
        refuse(f"fabric {fabric!r} has no leaf {name!r}{suggest_name(name, all_leaves)}")
    return all_leaves[name]


def _compare_switches(
    fabric_file: str, files: tuple[Path, ...], leaf_name: str | None, *, as_json: bool, numbers: dict[str, Any]
) -> int:
    from trackbed.switches.dialect import find_mismatches

    if leaf_name and len(files) > 1:
        refuse("--leaf names one leaf, and several files are given")
    loaded, plan = read_fabric(fabric_file)
    leaves_by_dialect: dict[str, dict[str, Leaf]] = {}
    mismatches = []
    for file in files:
        dialect, tree = _parse_switch_file(file)
        if dialect.name not in leaves_by_dialect:
            leaves_by_dialect[dialect.name] = _derive_leaves(loaded, plan, _build_wiring(dialect, numbers))
        name = leaf_name or dialect.read_hostname(tree) or file.stem
        mismatches += find_mismatches(
            _find_leaf(leaves_by_dialect[dialect.name], name, plan.common.fabric), dialect, tree
        )
    if as_json:
        emit_json(mismatches)
        return int(bool(mismatches))
    for mismatch in mismatches:
        click.echo(mismatch)
    count = f"{len(mismatches)} disagreement{'s' if len(mismatches) != 1 else ''}" if mismatches else "no disagreement"
    click.echo(f"{count} between hosts and {len(files)} switch{'es' if len(files) != 1 else ''}", err=bool(mismatches))
    return int(bool(mismatches))


def _parse_switch_file(file: Path) -> tuple[Dialect, Any]:
    from trackbed.fabric.model.source import MAX_BYTES
    from trackbed.switches.port_config import UnreadableError

    raw = read_input_or_exit(str(file), MAX_BYTES)
    if len(raw) > MAX_BYTES:
        refuse(f"{file} is larger than {MAX_BYTES >> 20} MB, the limit")
    dialect = detect_dialect(raw)
    try:
        return dialect, dialect.parse(raw)
    except UnreadableError as error:
        if error.line:
            refuse(f"{file}:{error.line}: {error}")
        refuse(f"{file} is not a configuration of a switch: {error}")
