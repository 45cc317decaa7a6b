"""The modules that are sent to a host: those that `node` imports, directly or through others.

They import the standard library and each other, nothing else. They are sent twice: as sources, for any Python from
OLDEST on, and as compiled code, which saves time on a host with the Python of the sender.
"""

from __future__ import annotations

import ast
import marshal
import zlib
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path

START = "trackbed.fleet.node"
"""The module whose `main` is called on the host."""

FROZEN = {"trackbed.host.steps.boot_script"}
"""Modules that read their TEXT from a file of the package; a module with the text as a literal is sent instead."""

REGISTRIES = {"trackbed.host.kinds.registry": "trackbed.host.kinds", "trackbed.host.steps": "trackbed.host.steps"}
"""Modules that import all modules of a package by name, and that package; all modules of the package are sent."""

OLDEST = (3, 9)
"""The oldest Python version on which these modules are tested."""

_MARSHAL_VERSION = 4
"""The format of `marshal` that all versions of Python from OLDEST on read."""


@lru_cache(maxsize=1)
def pack_sources() -> bytes:
    """Return the deflated dict {name: (is a package, source)}, about 200 KiB, as every Python can load it."""
    return zlib.compress(marshal.dumps(read_sources(), _MARSHAL_VERSION), 9)


@lru_cache(maxsize=1)
def pack_compiled() -> bytes:
    """Return the MAGIC_NUMBER of this Python, followed by the deflated dict {name: (is a package, code)}."""
    modules = {
        name: (is_package, compile(source, name, "exec", dont_inherit=True, optimize=2))
        for name, (is_package, source) in read_sources().items()
    }
    return MAGIC_NUMBER + zlib.compress(marshal.dumps(modules), 9)


def read_sources() -> dict[str, tuple[bool, bytes]]:
    """Return {module name: (is a package, source)} of the modules to send."""
    files = {name: (path.name == "__init__.py", path.read_bytes()) for name, path in sorted(map_modules().items())}
    frozen = {name: (False, f"TEXT = {import_module(name).TEXT!r}\n".encode()) for name in FROZEN & files.keys()}
    return files | frozen


@lru_cache(maxsize=1)
def map_modules() -> dict[str, Path]:
    """Return the source file of each module to send: START, and all Trackbed modules and packages that it imports."""
    paths: dict[str, Path] = {}
    pending = [START]
    while pending:
        name = pending.pop()
        if name in paths:
            continue
        paths[name] = _find_source(name)
        pending += [module for module in collect_imports(name) if module.partition(".")[0] == "trackbed"]
        pending += [name.rpartition(".")[0]] if "." in name else []
        if package := REGISTRIES.get(name):
            pending += [f"{package}.{path.stem}" for path in _find_source(package).parent.glob("[a-z]*.py")]
    return paths


def collect_imports(module_name: str) -> set[str]:
    """Return the modules that a Trackbed module imports at run time, at its top or in a function."""
    modules = set()
    for node in _iter_runtime_nodes(ast.parse(_find_source(module_name).read_bytes())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            modules |= {_resolve_import(node.module, alias.name) for alias in node.names}
    return modules


def _iter_runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the syntax nodes below `node`, except those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _iter_runtime_nodes(child)


def _resolve_import(module: str, name: str) -> str:
    """Return the module that `from module import name` loads: `module.name` if that is a module, else `module`."""
    submodule = f"{module}.{name}"
    is_own_package = module.partition(".")[0] == "trackbed" and _find_source(module).name == "__init__.py"
    return submodule if is_own_package and find_spec(submodule) else module


def _find_source(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ImportError(f"no source of {name} is here to send", name=name)
    return Path(spec.origin)
