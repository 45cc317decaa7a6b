"""The netplan files of a host, merged into one `network` as netplan does.

Rules of netplan-generate(8): files are read in the order of their names, whatever their directory; of files with the
same name, one in run/ hides one in etc/, which hides one in lib/. Later scalars replace earlier ones, lists are
concatenated, mappings are merged key by key.
"""

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from trackbed.fabric.importers.source import MAX_FILE_BYTES, NamedFile
from trackbed.fabric.model.problems import Place, Problem, SpecError
from trackbed.fabric.model.source import Scalar, YamlDocument, read_yaml

_PRECEDENCE = ("lib", "etc", "run")

Tree = dict[str, Any]
"""A YAML mapping whose values are Trees, Scalars, or lists of them."""


def merge_network(files: Sequence[NamedFile]) -> tuple[Tree, list[Problem]]:
    """Return the merged `network` mapping of a host, and problems of its files.

    Raises SpecError if a file cannot be read, since the other files alone would be misleading.
    """
    chosen_files, problems = _choose_files(files)
    merged: Tree = {}
    for name, content in chosen_files:
        for document in read_yaml(content, name, MAX_FILE_BYTES):
            problems += document.problems
            merged = _merge_values(merged, _read_network(document))
    return merged, problems


def _choose_files(files: Iterable[NamedFile]) -> tuple[list[NamedFile], list[Problem]]:
    """Return the files that netplan reads, in order of their names, and a problem for each hidden file."""
    by_name: dict[str, NamedFile] = {}
    problems = []
    for file in sorted(files, key=lambda file: (_get_precedence(file[0]), file[0])):
        path = PurePosixPath(file[0])
        hidden = by_name.get(path.name)
        by_name[path.name] = file
        if hidden is not None and _get_precedence(hidden[0]) == _get_precedence(file[0]):
            message = f"{file[0]} hides this file: netplan reads one file of each name; rename one of them"
            problems.append(Problem("hidden-file", message, place=Place(hidden[0], 1, 1), severity="warning"))
    return [file for _, file in sorted(by_name.items())], problems


def _get_precedence(path: str) -> int:
    parts = PurePosixPath(path).parent.parts
    return max((rank for rank, folder in enumerate(_PRECEDENCE) if folder in parts), default=-1)


def _read_network(document: YamlDocument) -> Tree:
    scalars = document.to_scalars()
    if not isinstance(scalars, dict) or "network" not in scalars:
        message = "this is no netplan file: it has no mapping `network` at the top"
        raise SpecError([Problem("no-network", message, place=document.find_place(()))])
    network = scalars["network"]
    if isinstance(network, Scalar) and network.text is None:
        return {}
    if not isinstance(network, dict):
        message = "network must be a mapping, as in `network: {version: 2, ethernets: {...}}`"
        raise SpecError([Problem("wrong-shape", message, place=document.find_place(("network",)))])
    return network


def _merge_values(earlier: Any, later: Any) -> Any:  # noqa: ANN401 - YAML holds anything
    if isinstance(earlier, dict) and isinstance(later, dict):
        merged = {key: _merge_values(earlier[key], value) if key in earlier else value for key, value in later.items()}
        return {**earlier, **merged}
    if isinstance(earlier, list) and isinstance(later, list):
        return [*earlier, *later]
    return later
