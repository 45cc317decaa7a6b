"""Options, input and output that commands share: the Fabric and its plan, the cluster, output formats, errors."""

from __future__ import annotations

import re
import socket
import sys
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar
from urllib.parse import urlsplit

import click

from trackbed.cli.completion import complete_file, complete_node, complete_nodes
from trackbed.cli.old_forms import FormatChoice, refuse_option

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from trackbed.cluster.daemon.http_server import ListenAddress
    from trackbed.fabric.model.load import LoadedFabric
    from trackbed.fabric.model.problems import Problem
    from trackbed.fabric.plan.plan import NodePlan, Plan

LOCK_NAME = "trackbed.lock.yaml"
"""Name of the lock file, beside the file of its Fabric."""

MAX_PLAN_BYTES = 1 << 28
"""Maximum size of a plan. A node with 8 ports takes 1.5 KB, 12,500 nodes take 18 MB."""

METRICS = "Where to serve /metrics, /healthz and /readyz over plain HTTP. Default: nowhere."

AGENT_SOCKET = Path("/run/trackbed/agent.sock")

_FabricInput = tuple[bytes, bytes | None, str]
_Command = TypeVar("_Command", bound="Callable[..., Any]")
_Entry = TypeVar("_Entry")


def combine_options(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options and arguments to a command, in this order."""
    return lambda command: reduce(lambda decorated, option: option(decorated), reversed(options), command)


def _build_fabric_option(help_text: str) -> Callable[[_Command], _Command]:
    return click.option(
        "-f",
        "--fabric",
        "fabric_file",
        default="fabric.yaml",
        show_default=True,
        metavar="FILE|-",
        help=help_text,
        shell_complete=complete_file,
    )


fabric_option = _build_fabric_option("The Fabric; - reads it (and its lock, as a second document) from standard input.")
"""-f FILE, the Fabric."""

plan_option = _build_fabric_option(
    "The Fabric, or the output of `trackbed plan -o json`; - reads it from standard input."
)
"""-f FILE, the Fabric or its plan."""

ALL_NODES = "all"
"""The value of --nodes that names all nodes of the plan."""

node_option = click.option(
    "--node",
    "node_name",
    metavar="NAME",
    shell_complete=complete_node,
    help="Node of the plan. Default: this host's name.",
)
"""--node NAME, a node of the plan, by default this host."""

nodes_option = click.option(
    "--nodes", metavar="SET", shell_complete=complete_nodes, help="Only these nodes, as gpu-[0-3]. Default: all."
)
"""--nodes SET, nodes of the plan, by default all."""

cluster_options = combine_options(
    click.option(
        "--kubeconfig",
        metavar="FILE",
        shell_complete=complete_file,
        help="How to reach the cluster. Default: as kubectl does.",
    ),
    click.option("--context", help="Context of the kubeconfig. Default: its current one."),
)
"""--kubeconfig FILE and --context NAME, which select a cluster."""


def output_option(*formats: str) -> Callable[[_Command], _Command]:
    """Return an option -o FORMAT with these choices; the first is the default."""
    return click.option(
        "-o",
        "--output",
        "output_format",
        type=FormatChoice(formats),
        default=formats[0],
        show_default=True,
        help="Output format.",
    )


def listen_option(name: str, help_text: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """Return an option NAME HOST:PORT for a listening address; `:8080` is all IPv4 and IPv6 addresses."""
    return click.option(
        name,
        default=default,
        show_default=default is not None,
        metavar="HOST:PORT",
        callback=_parse_listen_address,
        help=help_text,
    )


def _parse_listen_address(_: click.Context, option: click.Parameter, text: str | None) -> ListenAddress | None:
    from trackbed.cluster.daemon.http_server import ListenAddress

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
    "--to",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write files below this folder instead of printing them.",
)
"""--to DIR, the folder of the output files."""

refuse_output_option = refuse_option("-o", "--output", instead="--to {value}")
"""-o PATH of commands whose output has no format to choose: refused."""


def read_plan(fabric_file: str) -> Plan:
    """Return the plan of a Fabric, or of the output of `trackbed plan -o json`. Exit with status 2 on problems."""
    from trackbed.fabric.model.problems import Place, SpecError
    from trackbed.fabric.plan.plan_file import decode_plan, is_plan

    fabric_input = _read_fabric_input(fabric_file, MAX_PLAN_BYTES)
    if not is_plan(fabric_input[0]):
        return _compute_plan(fabric_file, fabric_input)[1]
    try:
        return decode_plan(fabric_input[0])
    except SpecError as error:
        place = Place("<stdin>" if fabric_file == "-" else fabric_file, 1, 1)
        exit_with_problems(problem._replace(place=place) for problem in error.problems)


def read_fabric(fabric_file: str) -> tuple[LoadedFabric, Plan]:
    """Return a Fabric with its lock, and its plan. Exit with status 2 on problems."""
    from trackbed.fabric.model.source import MAX_BYTES

    return _compute_plan(fabric_file, _read_fabric_input(fabric_file, MAX_BYTES))


def _compute_plan(fabric_file: str, fabric_input: _FabricInput) -> tuple[LoadedFabric, Plan]:
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.plan.compute import compute_plan

    raw, lock, lock_file = fabric_input
    try:
        loaded = load_fabric(raw, "<stdin>" if fabric_file == "-" else fabric_file, lock, lock_file)
    except SpecError as error:
        exit_with_problems(error.problems)
    try:
        plan = compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
    except SpecError as error:
        exit_with_problems(loaded.locate(error.problems))
    for problem in loaded.locate(plan.warnings):
        click.echo(problem, err=True)
    return loaded, plan


def find_problems(fabric_file: str) -> list[Problem]:
    """Return everything wrong or doubtful in a Fabric, its lock and its stack; exit with status 2 if unreadable."""
    from trackbed.cluster.stacks import load_stack
    from trackbed.cluster.stacks.refusals import find_refusals
    from trackbed.fabric.model.load import load_fabric
    from trackbed.fabric.model.problems import SpecError
    from trackbed.fabric.model.source import MAX_BYTES
    from trackbed.fabric.plan.compute import compute_plan

    raw, lock, lock_file = _read_fabric_input(fabric_file, MAX_BYTES)
    try:
        loaded = load_fabric(raw, "<stdin>" if fabric_file == "-" else fabric_file, lock, lock_file)
    except SpecError as error:
        return list(error.problems)
    try:
        plan = compute_plan(loaded.fabric, loaded.lock.nodes if loaded.lock else {})
    except SpecError as error:
        return loaded.locate(error.problems)
    refusals = find_refusals(load_stack(loaded.fabric.spec.kubernetes.stack), plan)
    return loaded.locate([*refusals, *plan.warnings])


def build_problem_document(problem: Problem) -> dict[str, object]:
    """Return a problem as a JSON document: code, severity, message, path, and its place if it has one."""
    place = problem.place._asdict() if problem.place else {}
    return {
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "path": list(problem.path),
        **place,
    }


def check_job_name(name: str) -> None:
    """Exit with status 2 if no job can have a name."""
    from trackbed.cluster.jobs.kinds.kind import JOB_NAME_PATTERN

    if not JOB_NAME_PATTERN.fullmatch(name):
        refuse(f"--name {name!r}: lower-case letters, digits and - only, beginning with a letter, 40 at most")


def check_namespace(name: str) -> None:
    """Exit with status 2 if no namespace can have a name (RFC 1123)."""
    from trackbed.fabric.text_syntax import DNS_LABEL

    if not DNS_LABEL.fullmatch(name):
        refuse(f"--namespace {name!r}: lower-case letters, digits and - only, 63 at most")


def read_with_lock(fabric_file: str) -> tuple[bytes, LoadedFabric, Plan]:
    """Return a Fabric and its lock as one YAML stream, what they say, and the plan. Exit with status 2 on problems."""
    from trackbed.fabric.model.source import MAX_BYTES

    fabric_input = _read_fabric_input(fabric_file, MAX_BYTES)
    raw, lock, _ = fabric_input
    return raw if lock is None else raw + b"\n---\n" + lock, *_compute_plan(fabric_file, fabric_input)


def _read_fabric_input(fabric_file: str, limit: int) -> _FabricInput:
    """Return the first `limit` + 1 bytes of a file, its lock and the lock's path."""
    raw = read_input_or_exit(fabric_file, limit, "; name one with -f FILE")
    if fabric_file == "-":
        return raw, None, ""
    lock = Path(fabric_file).with_name(LOCK_NAME)
    return raw, read_input_or_exit(str(lock), limit) if lock.exists() else None, str(lock)


def read_input_or_exit(file: str, max_bytes: int, hint_if_absent: str = "") -> bytes:
    """Return the first `limit` + 1 bytes of a file, or of standard input for `-`. Exit with status 2 on an error."""
    try:
        if file == "-":
            return sys.stdin.buffer.read(max_bytes + 1)
        with Path(file).open("rb") as stream:
            return stream.read(max_bytes + 1)
    except OSError as error:
        hint = hint_if_absent if isinstance(error, FileNotFoundError) else ""
        refuse(f"cannot read {file}: {error.strerror}{hint}")


def exit_with_problems(problems: Iterable[Problem]) -> NoReturn:
    """Print problems, one per line, and exit with status 2."""
    from trackbed.fabric.model.problems import SpecError

    ordered = SpecError(list(problems)).problems
    if wants_json():
        print_json_error(f"{len(ordered)} problems found", 2, problems=list(map(build_problem_document, ordered)))
        raise SystemExit(2)
    for problem in ordered:
        click.echo(problem, err=True)
    click.echo(f"{len(ordered)} problem{'s' if len(ordered) != 1 else ''} found; nothing was done", err=True)
    raise SystemExit(2)


def fail(message: object) -> NoReturn:
    """Print why the command failed and exit with status 1."""
    _print_and_exit(message, 1)


def refuse(message: object) -> NoReturn:
    """Print a message about wrong use or input and exit with status 2."""
    _print_and_exit(message, 2)


def exit_unknown(message: object) -> NoReturn:
    """Print why the state is unknown and exit with status 3."""
    _print_and_exit(message, 3)


def _print_and_exit(message: object, status: int) -> NoReturn:
    if wants_json():
        print_json_error(str(message), status)
    else:
        click.echo(f"trackbed: {message}", err=True)
    raise SystemExit(status)


def wants_json() -> bool:
    """Return whether the command that runs was asked for JSON; its errors are JSON too."""
    context = click.get_current_context(silent=True)
    return context is not None and context.params.get("output_format") == "json"


def print_json_error(message: str, status: int, **details: object) -> None:
    """Print an error for programs: one line of JSON, the last on standard error."""
    import msgspec

    error = {"message": message, "exitStatus": status, **details}
    click.echo(_HIDDEN.sub(_escape_json, msgspec.json.encode({"error": error})), err=True)


def choose_entries(entries: Mapping[str, _Entry], name: str | None, noun: str, hint: str) -> list[_Entry]:
    """Return the entry of that name, or all entries without a name. Exit with status 2 if the name is unknown."""
    if name is None:
        return list(entries.values())
    check_name(name, entries, noun, hint)
    return [entries[name]]


def check_name(name: str, known: Collection[str], noun: str, hint: str) -> None:
    """Exit with status 2 if a name is unknown; suggest a similar name, else print the hint."""
    if name not in known:
        refuse(f"no {noun} {name!r}{suggest_name(name, known, hint)}")


def suggest_name(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a message about an unknown name: the most similar known name, else `otherwise`."""
    from difflib import get_close_matches

    matches = get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else otherwise and f"; {otherwise}"


def find_node(plan: Plan, name: str | None) -> NodePlan:
    """Return the node of that name, by default this host's name. Exit with status 2 if the plan has no such node."""
    node_name = name or socket.gethostname().partition(".")[0]
    node = plan.find_node(node_name)
    if node is not None:
        return node
    hint = suggest_name(node_name, (node.name for node in plan.nodes))
    source = "" if name else f" (this host's name; name another with {_list_node_options()})"
    refuse(f"fabric {plan.common.fabric!r} has no node {node_name!r}{source}{hint}")


def _list_node_options() -> str:
    """Return the options of the running command that name nodes."""
    context = click.get_current_context(silent=True)
    has_several = any("--nodes" in parameter.opts for parameter in context.command.params) if context else False
    return "--node, or all with --nodes all" if has_several else "--node"


def select_nodes(plan: Plan, ranges: str | None) -> Sequence[NodePlan]:
    """Return the nodes that ranges such as gpu-[0-3] name, or for None and `all` all nodes, in the plan's order.

    Exit with status 2 on an unknown name or malformed ranges.
    """
    if ranges is None or ranges == ALL_NODES:
        return plan.nodes
    names = set(expand_names(ranges))
    unknown = names.difference(node.name for node in plan.nodes)
    if unknown:
        find_node(plan, min(unknown))
    return [node for node in plan.nodes if node.name in names]


def expand_names(ranges: str) -> list[str]:
    """Return the names of ranges such as gpu-[0-3]. Exit with status 2 if they are malformed."""
    from pydantic_core import PydanticCustomError

    from trackbed.fabric.model.nodes import expand_hosts

    try:
        return [str(name) for name in expand_hosts(ranges)]
    except PydanticCustomError as error:
        refuse(error.message())


def prepare_daemon() -> None:
    """Prepare a program that runs for months: log to standard error; return freed memory.

    Call it after the imports. Modules are excluded from garbage collection: Python collects everything only once the
    objects that may be garbage are a quarter of all, and buffers that hang on garbage take memory until then.
    """
    import gc

    from trackbed.cli.daemon_log import start_log
    from trackbed.kernel.allocator import return_freed_memory

    return_freed_memory()
    gc.collect()
    gc.freeze()
    gc.collect()

    start_log()


_HIDDEN = re.compile(rb"\x7f|\xc2[\x80-\x9f\xad]|\xe2\x80[\x8b-\x8f\xa8-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf")
"""Characters that a terminal would act on, and that JSON may have unescaped: as UTF-8."""


def emit_json(value: object) -> None:
    """Print a value as JSON, indented unless it exceeds 1 MiB; characters that control a terminal are escaped."""
    import msgspec

    encoded = _HIDDEN.sub(_escape_json, msgspec.json.encode(value))
    is_small = len(encoded) < 1 << 20
    sys.stdout.flush()
    sys.stdout.buffer.write((msgspec.json.format(encoded, indent=2) if is_small else encoded) + b"\n")


def _escape_json(match: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(match[0].decode())
