"""What commands share: the Fabric they work on, the form of their output, and how errors end."""

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
"""The lock lies beside its Fabric under this name."""

MAX_PLAN_BYTES = 1 << 28
"""A node of 8 ports has 1.5 KB of them, 12,500 nodes 18 MB."""

METRICS = "Where to serve /metrics, /healthz and /readyz over plain HTTP. Default: nowhere."

_Given = tuple[bytes, bytes | None, str]
_Command = TypeVar("_Command", bound="Callable[..., Any]")


def fabric_option(command: _Command) -> _Command:
    """-f FILE: the Fabric to work on."""
    return _file_option("The Fabric; - reads it (and its lock, as a second document) from standard input.")(command)


def plan_option(command: _Command) -> _Command:
    """-f FILE: the Fabric to work on, or its plan."""
    return _file_option("The Fabric, or what `trackbed plan -o json` printed; - reads it from standard input.")(command)


def _file_option(about: str) -> Callable[[_Command], _Command]:
    return click.option(
        "-f", "--fabric", "fabric_file", default="fabric.yaml", show_default=True, metavar="FILE|-", help=about
    )


def node_option(command: _Command) -> _Command:
    """--node NAME: which node of the plan, by default the host this runs on."""
    return click.option("--node", "node_name", metavar="NAME", help="Node of the plan. Default: this host's name.")(
        command
    )


def output_option(*forms: str) -> Callable[[_Command], _Command]:
    """-o FORM: table for people (default), the others for machines."""
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help="Form of the output.",
    )


def listen_option(name: str, about: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """--NAME HOST:PORT: where to listen; `:8080` is all addresses of both families. None where nothing is given."""
    return click.option(
        name, default=default, show_default=default is not None, metavar="HOST:PORT", callback=_address, help=about
    )


def _address(_: click.Context, option: click.Parameter, text: str | None) -> ListenAddress | None:
    from trackbed.cluster.daemon.listening import ListenAddress

    if text is None:
        return None
    try:
        found = urlsplit(f"//{text}")
        port = found.port if found.netloc == text else None
    except ValueError:
        port = None
    if port is None:
        refuse(f"{option.opts[0]} {text}: write HOST:PORT, for example 10.0.0.1:8443, [::1]:8443, or :8443 for all")
    return ListenAddress(found.hostname, port)


folder_option = click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write files below this folder instead of printing them.",
)
"""-o DIR: where files go."""


def read_plan(fabric_file: str) -> Plan:
    """A plan as `trackbed plan -o json` printed it, or that of a Fabric, as read_fabric: a host needs no more."""
    from trackbed.fabric.model.problems import Place, SpecError
    from trackbed.fabric.plan.plan_file import is_plan
    from trackbed.fabric.plan.plan_file import read_plan as read

    given = _read(fabric_file, MAX_PLAN_BYTES)
    if not is_plan(given[0]):
        return _planned(fabric_file, given)[1]
    try:
        return read(given[0])
    except SpecError as error:
        place = Place("<stdin>" if fabric_file == "-" else fabric_file, 1, 1)
        stop(problem._replace(place=place) for problem in error.problems)


def read_fabric(fabric_file: str) -> tuple[LoadedFabric, Plan]:
    """Read and plan a Fabric with its lock; problems are printed and end the command with status 2."""
    from trackbed.fabric.model.source import MAX_BYTES

    return _planned(fabric_file, _read(fabric_file, MAX_BYTES))


def _planned(fabric_file: str, given: _Given) -> tuple[LoadedFabric, Plan]:
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.plan.compute import compute_plan

    raw, lock, lock_file = given
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
    """A Fabric and its lock as one text of two documents, checked; problems end the command with status 2."""
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.model.source import MAX_BYTES
    from trackbed.fabric.plan.compute import compute_plan

    raw, lock, lock_file = _read(fabric_file, MAX_BYTES)
    try:
        loaded = load_fabric(raw, fabric_file, lock, lock_file)
        compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
    except SpecError as error:
        stop(error.problems)
    return raw if lock is None else raw + b"\n---\n" + lock


def _read(fabric_file: str, most: int) -> _Given:
    """What a file holds, `most` bytes and one of it; its lock, and where that is."""
    try:
        if fabric_file == "-":
            return sys.stdin.buffer.read(most + 1), None, ""
        path = Path(fabric_file)
        with path.open("rb") as stream:
            raw = stream.read(most + 1)
        lock = path.with_name(LOCK_NAME)
        return raw, lock.read_bytes() if lock.exists() else None, str(lock)
    except OSError as error:
        hint = "; name one with -f FILE" if isinstance(error, FileNotFoundError) else ""
        refuse(f"cannot read {error.filename or fabric_file}: {error.strerror}{hint}")


def stop(problems: Iterable[Problem]) -> NoReturn:
    """Print problems, one a line, and end with status 2."""
    from trackbed.fabric.model.problems import SpecError

    listed = SpecError(list(problems)).problems
    for problem in listed:
        click.echo(problem, err=True)
    click.echo(f"{len(listed)} problem{'s' if len(listed) != 1 else ''} found; nothing was done", err=True)
    raise SystemExit(2)


def refuse(message: str) -> NoReturn:
    """Print one message of wrong use or input and end with status 2."""
    click.echo(f"trackbed: {message}", err=True)
    raise SystemExit(2)


def meant(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """What to append to a message about an unknown name: the nearest known one, else `otherwise`."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else otherwise and f"; {otherwise}"


def node_of(planned: Plan, name: str | None) -> NodePlan:
    """The node a command is about; an unknown name ends the command with status 2."""
    wanted = name or socket.gethostname().partition(".")[0]
    found = planned.find_node(wanted)
    if found is not None:
        return found
    hint = meant(wanted, (node.name for node in planned.nodes))
    source = "" if name else " (this host's name; name another with --node)"
    refuse(f"fabric {planned.common.fabric!r} has no node {wanted!r}{source}{hint}")


def emit_json(value: object) -> None:
    """Print a value as JSON, as the function returned it."""
    import msgspec

    encoded = msgspec.json.encode(value)
    small = len(encoded) < 1 << 20
    sys.stdout.flush()
    sys.stdout.buffer.write((msgspec.json.format(encoded, indent=2) if small else encoded) + b"\n")
