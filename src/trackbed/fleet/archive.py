"""What is sent to a host: the modules that `node` needs, found by following their imports.

They import the standard library and each other, nothing else. They are sent twice: as a zip archive of sources, for any
Python from OLDEST on, and compiled in one piece, for a host with the Python of the sender: zipimport reads and
unmarshals each module twice.
"""

from __future__ import annotations

import ast
import io
import marshal
import zipfile
import zlib
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path

START = "trackbed.fleet.node"
"""The module whose `main` the host calls."""

FROZEN = {"trackbed.host.steps.boot_script"}
"""Modules that read their TEXT from a file of the package: the text is sent in their place."""

REGISTRIES = {"trackbed.host.kinds.registry": "trackbed.host.kinds", "trackbed.host.steps": "trackbed.host.steps"}
"""Modules that load those of a package by their names; what is sent has all modules of the package."""

OLDEST = (3, 11)
"""The oldest Python that these modules are known to run on: that of the tests."""

_WHEN = (1980, 1, 1, 0, 0, 0)
"""The same sources give the same archive."""


@lru_cache(maxsize=1)
def sources() -> bytes:
    """The archive, some 200 KiB."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, (is_package, source) in _read_sources().items():
            entry = zipfile.ZipInfo(f"{_path(name, is_package=is_package)}.py", _WHEN)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, source)
    return whole.getvalue()


@lru_cache(maxsize=1)
def compiled() -> bytes:
    """MAGIC_NUMBER of the Python that it is for, and deflated {name: (whether it is a package, its code)}."""
    code = {
        name: (
            is_package,
            compile(source, f"{_path(name, is_package=is_package)}.py", "exec", dont_inherit=True, optimize=2),
        )
        for name, (is_package, source) in _read_sources().items()
    }
    return MAGIC_NUMBER + zlib.compress(marshal.dumps(code), 9)


def _read_sources() -> dict[str, tuple[bool, bytes]]:
    """Return for the name of each module whether it is a package, and its source."""
    files = {name: (place.name == "__init__.py", place.read_bytes()) for name, place in sorted(modules().items())}
    frozen = {name: (False, f"TEXT = {import_module(name).TEXT!r}\n".encode()) for name in FROZEN & files.keys()}
    return files | frozen


def _path(name: str, *, is_package: bool) -> str:
    return name.replace(".", "/") + ("/__init__" if is_package else "")


@lru_cache(maxsize=1)
def modules() -> dict[str, Path]:
    """Name and file of every module of ours that START imports, itself and packages included."""
    found: dict[str, Path] = {}
    todo = [START]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found[name] = _place(name)
        todo += [other for other in imports(name) if other.partition(".")[0] == "trackbed"]
        todo += [name.rpartition(".")[0]] if "." in name else []
        if package := REGISTRIES.get(name):
            todo += [f"{package}.{path.stem}" for path in _place(package).parent.glob("[a-z]*.py")]
    return found


def imports(name: str) -> set[str]:
    """The modules that a module of ours imports at run time, at its top or in a function."""
    found = set()
    for node in _running(ast.parse(_place(name).read_bytes())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            found |= {_imported(node.module, alias.name) for alias in node.names}
    return found


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree except what is only for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _running(child)


def _imported(module: str, name: str) -> str:
    """`from module import name` may mean a module of that package or a name in it."""
    inner = f"{module}.{name}"
    is_ours = module.partition(".")[0] == "trackbed" and _place(module).name == "__init__.py"
    return inner if is_ours and find_spec(inner) else module


def _place(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(f"no source of {name} is here to send", name=name)
    return Path(spec.origin)
