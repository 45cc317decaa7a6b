"""Options and input that commands share: the Fabric and its plan, output formats, errors."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trackbed.cluster.daemon.listening import ListenAddress
    from trackbed.fabric.model.load import LoadedFabric
    from trackbed.fabric.model.problems import Problem
    from trackbed.fabric.plan.plan import NodePlan, Plan

LOCK_NAME = "trackbed.lock.yaml"
"""File name of the lock, which is in the folder of its Fabric."""

MAX_PLAN_BYTES = 1 << 28
"""Limit of a plan's size. A node of 8 ports has 1.5 KB, 12,500 nodes have 18 MB."""

METRICS = "Where to serve /metrics, /healthz and /readyz over plain HTTP. Default: nowhere."

_FabricInput = tuple[bytes, bytes | None, str]
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def fabric_option(command: _Command) -> _Command:
    """Add -f FILE, the Fabric."""
    return _file_option("The Fabric; - reads it (and its lock, as a second document) from standard input.")(command)


def plan_option(command: _Command) -> _Command:
    """Add -f FILE, the Fabric or its plan."""
    return _file_option("The Fabric, or the output of `trackbed plan -o json`; - reads it from standard input.")(
        command
    )


def _file_option(about: str) -> Callable[[_Command], _Command]:
    return click.option(
        "-f", "--fabric", "fabric_file", default="fabric.yaml", show_default=True, metavar="FILE|-", help=about
    )


def node_option(command: _Command) -> _Command:
    """Add --node NAME, a node of the plan, by default this host."""
    return click.option("--node", "node_name", metavar="NAME", help="Node of the plan. Default: this host's name.")(
        command
    )


def output_option(*formats: str) -> Callable[[_Command], _Command]:
    """Add -o FORMAT with these choices; the first is the default."""
    return click.option(
        "-o",
        "--output",
        "output_format",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )


def listen_option(name: str, about: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """Add NAME HOST:PORT, a listening address or None; `:8080` is all addresses of both families."""
    return click.option(
        name,
        default=default,
        show_default=default is not None,
        metavar="HOST:PORT",
        callback=_parse_listen_address,
        help=about,
    )


def _parse_listen_address(_: click.Context, option: click.Parameter, text: str | None) -> ListenAddress | None:
    from trackbed.cluster.daemon.listening import ListenAddress

    if text is None:
        return None
    try:
        url = urlsplit(f"//{text}")
        port = url.port if url.netloc == text else None
    except ValueError:
        port = None
    if port is None:
        refuse(f"{option.opts[0]} {text}: write HOST:PORT, for example 10.0.0.1:8443, [::1]:8443, or :8443 for all")
    return ListenAddress(url.hostname, port)


folder_option = click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write files below this folder instead of printing them.",
)
"""-o DIR, the folder of the output files."""


def read_plan(fabric_file: str) -> Plan:
    """Read the output of `trackbed plan -o json`, or plan a Fabric; problems end the command with status 2."""
    from trackbed.fabric.model.problems import Place, SpecError
    from trackbed.fabric.plan.plan_file import is_plan
    from trackbed.fabric.plan.plan_file import read_plan as parse_plan

    fabric_input = _read_file(fabric_file, MAX_PLAN_BYTES)
    if not is_plan(fabric_input[0]):
        return _compute_plan(fabric_file, fabric_input)[1]
    try:
        return parse_plan(fabric_input[0])
    except SpecError as error:
        place = Place("<stdin>" if fabric_file == "-" else fabric_file, 1, 1)
        stop(problem._replace(place=place) for problem in error.problems)


def read_fabric(fabric_file: str) -> tuple[LoadedFabric, Plan]:
    """Read a Fabric with its lock and plan it; problems end the command with status 2."""
    from trackbed.fabric.model.source import MAX_BYTES

    return _compute_plan(fabric_file, _read_file(fabric_file, MAX_BYTES))


def _compute_plan(fabric_file: str, fabric_input: _FabricInput) -> tuple[LoadedFabric, Plan]:
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.plan.compute import compute_plan

    raw, lock, lock_file = fabric_input
    try:
        loaded = load_fabric(raw, "<stdin>" if fabric_file == "-" else fabric_file, lock, lock_file)
    except SpecError as error:
        stop(error.problems)
    try:
        planned = compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
    except SpecError as error:
        stop(loaded.locate(error.problems))
    for problem in loaded.locate(planned.warnings):
        click.echo(problem, err=True)
    return loaded, planned


def read_with_lock(fabric_file: str) -> bytes:
    """Return a valid Fabric and its lock as a text of two documents; problems end the command with status 2."""
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.model.source import MAX_BYTES
    from trackbed.fabric.plan.compute import compute_plan

    raw, lock, lock_file = _read_file(fabric_file, MAX_BYTES)
    try:
        loaded = load_fabric(raw, fabric_file, lock, lock_file)
        compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
    except SpecError as error:
        stop(error.problems)
    return raw if lock is None else raw + b"\n---\n" + lock


def _read_file(fabric_file: str, limit: int) -> _FabricInput:
    """Return the first `limit` + 1 bytes of a file, its lock and the lock's path."""
    try:
        if fabric_file == "-":
            return sys.stdin.buffer.read(limit + 1), None, ""
        path = Path(fabric_file)
        with path.open("rb") as stream:
            raw = stream.read(limit + 1)
        lock = path.with_name(LOCK_NAME)
        return raw, lock.read_bytes() if lock.exists() else None, str(lock)
    except OSError as error:
        hint = "; name one with -f FILE" if isinstance(error, FileNotFoundError) else ""
        refuse(f"cannot read {error.filename or fabric_file}: {error.strerror}{hint}")


def stop(problems: Iterable[Problem]) -> NoReturn:
    """Print problems, one a line, and end with status 2."""
    from trackbed.fabric.model.problems import SpecError

    ordered = SpecError(list(problems)).problems
    for problem in ordered:
        click.echo(problem, err=True)
    click.echo(f"{len(ordered)} problem{'s' if len(ordered) != 1 else ''} found; nothing was done", err=True)
    raise SystemExit(2)


def refuse(message: str) -> NoReturn:
    """Print a message about wrong use or input and end with status 2."""
    click.echo(f"trackbed: {message}", err=True)
    raise SystemExit(2)


def suggest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message about an unknown name: the most similar known name, else `otherwise`."""
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else otherwise and f"; {otherwise}"


def find_node(planned: Plan, name: str | None) -> NodePlan:
    """Return the node of that name, by default this host's; an unknown name ends the command with status 2."""
    node_name = name or socket.gethostname().partition(".")[0]
    node = planned.find_node(node_name)
    if node is not None:
        return node
    hint = suggest(node_name, (node.name for node in planned.nodes))
    source = "" if name else " (this host's name; name another with --node)"
    refuse(f"fabric {planned.common.fabric!r} has no node {node_name!r}{source}{hint}")


def emit_json(value: object) -> None:
    """Print a value as JSON, indented up to 1 MiB."""
    import msgspec

    encoded = msgspec.json.encode(value)
    is_small = len(encoded) < 1 << 20
    sys.stdout.flush()
    sys.stdout.buffer.write((msgspec.json.format(encoded, indent=2) if is_small else encoded) + b"\n")
