"""A program for an interpreter of hosts: `pythonN -IS on_interpreter.py FOLDER MODULE...`, standard library only.

It imports all modules below the folder, and looks up what they use of the standard library: the names that
are imported, the attributes of modules, the keywords of functions. It prints what this Python lacks.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType


def main() -> int:
    sys.path.insert(0, sys.argv[1])
    lacks = [line for name in sys.argv[2:] for line in _check_module(name)]
    sys.stdout.writelines(f"{line}\n" for line in lacks)
    return bool(lacks)


def _check_module(name: str) -> Iterator[str]:
    module = importlib.import_module(name)
    tree = ast.parse(inspect.getsource(module) or "pass")
    for node in ast.walk(tree):
        lack = _check_import(node) or _check_attribute(module, node) or _check_keywords(module, node)
        if lack:
            yield f"{name}, line {getattr(node, 'lineno', 0)}: {lack}"


def _check_import(node: ast.AST) -> str:
    if not isinstance(node, ast.ImportFrom) or not node.module or node.module.startswith("trackbed"):
        return ""
    module = importlib.import_module(node.module)
    lacks = [alias.name for alias in node.names if not hasattr(module, alias.name) and alias.name != "Self"]
    return f"{node.module} has no {', '.join(lacks)}" if lacks else ""


def _check_attribute(module: ModuleType, node: ast.AST) -> str:
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
        return ""
    owner = getattr(module, node.value.id, None)
    is_library = isinstance(owner, ModuleType) and not owner.__name__.startswith("trackbed")
    return f"{node.value.id} has no {node.attr}" if is_library and not hasattr(owner, node.attr) else ""


def _check_keywords(module: ModuleType, node: ast.AST) -> str:
    """Check the keywords of a call `name(...)` or `module.name(...)` of the standard library."""
    if not isinstance(node, ast.Call) or not node.keywords:
        return ""
    function = _find_function(module, node.func)
    try:
        parameters = inspect.signature(function).parameters if callable(function) else {}
    except ValueError:  # some functions in C do not tell
        return ""
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return ""
    lacks = [word.arg for word in node.keywords if parameters and word.arg and word.arg not in parameters]
    return f"{ast.unparse(node.func)} has no parameter {', '.join(lacks)}" if lacks else ""


def _find_function(module: ModuleType, node: ast.expr) -> object:
    if isinstance(node, ast.Name):
        return getattr(module, node.id, None)
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        owner = getattr(module, node.value.id, None)
        return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None
    return None


if __name__ == "__main__":
    sys.exit(main())
