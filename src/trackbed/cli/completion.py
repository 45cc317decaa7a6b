"""Completion of names for the shell: nodes of the Fabric, faults, rules, servers, stacks, files.

A completion reads little and fast, so it loads neither pydantic nor a whole plan; where anything is wrong it offers
nothing, because an error would stand in the middle of what is being typed.
"""

from __future__ import annotations

import re
from functools import wraps
from importlib import import_module
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import click

    Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]

_MAX_BYTES = 1 << 24
_MAX_NODES = 20_000
_ID = re.compile(r"^- id: (\S+)", re.MULTILINE)
_HOSTS = re.compile(r"""hosts:\s*("[^"]*"|'[^']*'|[^,}#\n]*(?:\[[^]\n]*\][^,}#\n]*)*)""")
_LONG_NUMBER = re.compile(r"\d{6}")
"""A range with such a number would take seconds and more."""
_PLAN_NODES = re.compile(rb'"name":\s*"([^"]+)",\s*"slot"')


def _offer(list_names: Callable[[click.Context], Iterable[str]]) -> Completer:
    """Return a completer of names that begin as typed; any error offers nothing."""

    @wraps(list_names)
    def complete(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            names = list(list_names(context))
        except (Exception, SystemExit):  # noqa: BLE001 - the shell must never show an error of a completion
            return []
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return complete


def complete_file(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a file."""
    return [CompletionItem(incomplete, type="file")]


def _list_nodes(context: click.Context) -> list[str]:
    file = Path(context.params.get("fabric_file") or context.params.get("source") or "fabric.yaml")
    with file.open("rb") as stream:
        raw = stream.read(_MAX_BYTES)
    if raw.lstrip().startswith(b"{"):
        return [name.decode() for name in _PLAN_NODES.findall(raw)][:_MAX_NODES]
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet

    ranges = [match.strip().strip("\"'") for match in _HOSTS.findall(raw.decode())]
    names: list[str] = []
    for text in ranges:
        if not _LONG_NUMBER.search(text):
            names += islice(map(str, NodeSet(text, resolver=RESOLVER_NOGROUP)), _MAX_NODES)
    return names


def _list_ids(package: str, folder: str) -> list[str]:
    """Return the ids of the entries in YAML files of a package, without parsing them."""
    paths = sorted(files(package).joinpath(folder).iterdir(), key=lambda path: path.name)
    return [name for path in paths if path.name.endswith(".yaml") for name in _ID.findall(path.read_text("utf-8"))]


def _list_faults() -> list[str]:
    return _list_ids("trackbed.doctor", "faults")


def _list_rules() -> list[str]:
    return _list_ids("trackbed.lint", "rulebook")


def _list_servers(_: click.Context) -> Iterable[str]:
    from trackbed.fabric.model.servers import load_servers

    return load_servers()


def _list_stacks(_: click.Context) -> Iterable[str]:
    from trackbed.cluster.stacks import MODULES

    return MODULES


def _list_explainable(context: click.Context) -> list[str]:
    from trackbed.cluster.causes.catalogue import load_causes
    from trackbed.doctor.unjudged import UNJUDGED
    from trackbed.fabric.model.field_reference import list_paths

    nodes: list[str] = []
    if Path(context.params.get("fabric_file") or "fabric.yaml").exists():
        nodes = _list_nodes(context)
    return [*nodes, *_list_faults(), *UNJUDGED, *_list_rules(), *load_causes(), *list_paths()]


def _list_lab_faults(module: str) -> list[str]:
    faults = import_module(module).FAULTS
    return list(faults) if isinstance(faults, dict) else [fault.id for fault in faults]


complete_node = _offer(_list_nodes)
"""Nodes of the Fabric that -f names, by default fabric.yaml."""
complete_nodes = _offer(lambda context: ["all", *_list_nodes(context)])
"""Nodes, and `all`."""
complete_fault = _offer(lambda _: _list_faults())
"""Faults that doctor knows."""
complete_rule = _offer(lambda _: _list_rules())
"""Rules of lint."""
complete_server = _offer(_list_servers)
"""Servers of the catalogue."""
complete_stack = _offer(_list_stacks)
"""Stacks."""
complete_explainable = _offer(_list_explainable)
"""Whatever `trackbed explain` explains."""
complete_lab_fault = _offer(lambda _: _list_lab_faults("trackbed_lab.faults"))
"""Faults that a lab of namespaces can break."""
complete_vm_fault = _offer(lambda _: _list_lab_faults("trackbed_lab.vm.faults"))
"""Faults that an emulated server can break."""
