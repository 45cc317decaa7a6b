"""The one file that is sent: a zip archive of the modules that `node` needs, found by following their imports.

`trackbed` modules go in as they are, `standin` goes in as msgspec, `records` as dataclasses (the library's own takes
most of a host's time), and an empty module as yaml: files are rendered
before they are sent, so on the host nothing of it is called. Each is there as source, for any Python from OLDEST
on, and compiled for the Python that builds the archive: a host with the same one need not compile (zipimport passes by
what another version compiled).
"""

from __future__ import annotations

import ast
import io
import marshal
import zipfile
from functools import lru_cache
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

START = "trackbed.fleet.node"
"""The module whose `main` the host calls."""

STANDIN = "trackbed.fleet.standin"
FOREIGN = "msgspec"
"""The library that STANDIN stands for."""

RECORDS = "trackbed.fleet.records"
LIBRARY = "dataclasses"
"""The standard library's module that RECORDS goes before: the archive is first in sys.path."""

EMPTY = "yaml"
"""A library that is imported and never used there."""

OLDEST = (3, 11)
"""The oldest Python that these modules are known to run on: that of the tests."""

_FLAGS = (1).to_bytes(4, "little") + bytes(8)
"""Of a compiled file that is never held against its source (PEP 552, unchecked hash)."""
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The same sources give the same archive."""


@lru_cache(maxsize=1)
def build() -> bytes:
    """The archive, a few hundred KiB at most."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, place in sorted(modules().items()):
            path = name.replace(".", "/") + ("/__init__" if place.name == "__init__.py" else "")
            _add(archive, path, place.read_bytes())
        _add(archive, FOREIGN, _place(STANDIN).read_bytes())
        _add(archive, LIBRARY, _place(RECORDS).read_bytes())
        _add(archive, EMPTY, b"")
    return whole.getvalue()


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


def _add(archive: zipfile.ZipFile, path: str, source: bytes) -> None:
    code = compile(source, f"{path}.py", "exec", dont_inherit=True, optimize=2)
    archive.writestr(_entry(f"{path}.py"), source)
    archive.writestr(_entry(f"{path}.pyc"), MAGIC_NUMBER + _FLAGS + marshal.dumps(code))


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, _WHEN)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
