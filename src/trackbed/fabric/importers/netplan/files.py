"""The netplan files of one host, merged into one `network` as netplan merges them.

Rules of netplan-generate(8): files are taken in the order of their names, whatever directory they lie in; of files with
one name, that in run/ hides the one in etc/, which hides the one in lib/. Later scalars replace earlier ones, lists are
put end to end, mappings are merged key by key.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import Scalar, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trackbed.fabric.model.source import YamlDocument

MAX_FILE_BYTES = 1024 * 1024
"""A netplan file with eight ports has 2 KB."""

_PRECEDENCE = ("lib", "etc", "run")

Tree = dict[str, Any]
"""A mapping of YAML: values are Tree, list of them, or Written."""

NamedFile = tuple[str, bytes]
"""A file: the name to show in messages, which is its path, and its content."""


def merge_network(files: Sequence[NamedFile]) -> tuple[Tree, list[Problem]]:
    """The merged `network` mapping of one host.

    Raises SpecError if a file cannot be read at all: what the others say would be half a truth.
    """
    chosen, problems = _chosen(files)
    merged: Tree = {}
    for name, raw in chosen:
        for source in read_yaml(raw, name, MAX_FILE_BYTES):
            problems += source.problems
            merged = _merged(merged, _network(source))
    return merged, problems


def _chosen(files: Iterable[NamedFile]) -> tuple[list[NamedFile], list[Problem]]:
    """The files that count, in order of their names."""
    by_name: dict[str, NamedFile] = {}
    problems = []
    for file in sorted(files, key=lambda file: (_precedence(file[0]), file[0])):
        path = PurePosixPath(file[0])
        hidden = by_name.get(path.name)
        by_name[path.name] = file
        if hidden is not None and _precedence(hidden[0]) == _precedence(file[0]):
            message = f"{file[0]} hides this file: netplan reads one file of each name; rename one of them"
            problems.append(Problem("hidden-file", message, place=Place(hidden[0], 1, 1), severity="warning"))
    return [file for _, file in sorted(by_name.items())], problems


def _precedence(name: str) -> int:
    parts = PurePosixPath(name).parent.parts
    return max((rank for rank, place in enumerate(_PRECEDENCE) if place in parts), default=-1)


def _network(source: YamlDocument) -> Tree:
    found = source.to_scalars()
    if not isinstance(found, dict) or "network" not in found:
        message = "this is no netplan file: it has no mapping `network` at the top"
        raise SpecError([Problem("no-network", message, place=source.find_place(()))])
    network = found["network"]
    if isinstance(network, Scalar) and network.text is None:
        return {}
    if not isinstance(network, dict):
        message = "network must be a mapping, as in `network: {version: 2, ethernets: {...}}`"
        raise SpecError([Problem("wrong-shape", message, place=source.find_place(("network",)))])
    return network


def _merged(old: Any, new: Any) -> Any:  # noqa: ANN401 - YAML holds anything
    if isinstance(old, dict) and isinstance(new, dict):
        both = {key: _merged(old[key], value) if key in old else value for key, value in new.items()}
        return {**old, **both}
    if isinstance(old, list) and isinstance(new, list):
        return [*old, *new]
    return new
